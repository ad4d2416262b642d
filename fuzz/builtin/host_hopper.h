// SPDX-License-Identifier: Apache-2.0
//
// host-hopper: the operator on the host with the arithmetic of Hopper's tensor cores in all three
// matrix products (kernel/host/tensor_core.h). A machine without a GPU can so test the arithmetic of a
// GPU kernel. The softmax is the host's.

#pragma once

#include <string>
#include <string_view>

#include "fuzz/target_abi.h"

namespace plumbline::fuzz {

const plumbline_target_v1* HostHopperTarget();

// The description of host-hopper under this name.
std::string HostHopperDescription(std::string_view name);

}  // namespace plumbline::fuzz
