// SPDX-License-Identifier: Apache-2.0
//
// Some rows of a case on the device as a problem of the host, over all of weight.

#pragma once

#include <cstdint>
#include <vector>

#include "fuzz/gpu/production/device_case.h"
#include "fuzz/problem/owned_problem.h"

namespace plumbline::fuzz {

OwnedProblem RowsOf(const DeviceCase& device_case, const std::vector<int64_t>& rows);
// Returns the number of rows whose label is not ignore_index: the divisor of `mean`.
int64_t CountedRows(const DeviceCase& device_case);

}  // namespace plumbline::fuzz
