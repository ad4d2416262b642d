// SPDX-License-Identifier: Apache-2.0
//
// The operator on the host as a target, through its public API.

#pragma once

#include <string>
#include <string_view>

#include "fuzz/base/json.h"
#include "fuzz/target_abi.h"

namespace plumbline::fuzz {

const plumbline_target_v1* HostTarget();

// The description of the operator on the host under this name: JSON as fuzz/target/DESCRIPTION.md says.
std::string HostDescription(std::string_view name);

// The contract of every operator that is made of the host's stages, whatever its dot products are.
Json HostSoftmaxContract();

// The description of a built-in target with this contract, on "cpu" or "cuda".
std::string DescribeTarget(std::string_view name, std::string_view device, const Json& contract);

}  // namespace plumbline::fuzz
