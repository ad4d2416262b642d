// SPDX-License-Identifier: Apache-2.0
//
// The second tier of judgement of a case of production size (fuzz/baseline/BASELINES.md): some rows of
// the target's outputs against honest kernels that the host simulates, and exact values of the oracle
// on the device. grad_weight, which depends on every row, is not compared.

#pragma once

#include <cstdint>
#include <vector>

#include "fuzz/baseline/honest_errors.h"
#include "fuzz/gpu/production/device_case.h"
#include "oracle/contract.h"
#include "oracle/cuda/device_oracle.h"

namespace plumbline::fuzz {

// The most rows that are compared. Their baselines take some seconds of 16 cores at 151936 x 4096.
inline constexpr int64_t kHonestRows = 32;

// Returns the rows of the outputs that `results` has for the oracle to watch; none where weight has
// more than kMostAudited elements, which take minutes to read.
std::vector<oracle::cuda::WatchedRow> HonestRows(const DeviceCase& device_case,
                                                 const kernel::Results& results);

// `watched`: HonestRows, with what the oracle has found there. Returns no outputs if they are empty.
HonestErrors CompareHonestRows(const DeviceCase& device_case, const kernel::Results& results,
                               const oracle::Contract& contract,
                               const std::vector<oracle::cuda::WatchedRow>& watched, uint64_t seed);

}  // namespace plumbline::fuzz
