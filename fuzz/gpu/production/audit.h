// SPDX-License-Identifier: Apache-2.0
//
// Audits the oracle on the device: the sweep on the host computes rows of forward and of grad_hidden of
// a case of production size again, over the whole vocabulary.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fuzz/gpu/production/device_case.h"
#include "oracle/contract.h"
#include "oracle/cuda/device_oracle.h"
#include "oracle/verdict/verdict.h"

namespace plumbline::fuzz {

// Returns two rows of the outputs that `results` has, for one seed in ten; none for the others. Weights
// above kMostAudited elements are left out: they take minutes to read.
inline constexpr int64_t kMostAudited = int64_t{1} << 30;
std::vector<oracle::cuda::WatchedRow> AuditedRows(const DeviceCase& device_case,
                                                  const kernel::Results& results, uint64_t seed);

// Returns an empty text, or the first element in which the two disagree: in the required value, by more
// than both radii, or in its bound by more than 2^-19 of it.
std::string Audit(const DeviceCase& device_case, const kernel::Results& results,
                  const oracle::Contract& contract,
                  const std::vector<oracle::cuda::WatchedRow>& watched);

// Does the same for the one element that a verdict names, before it is called a finding. The output
// must not be loss or grad_weight, which depend on every row.
std::string Confirm(const DeviceCase& device_case, const kernel::Results& results,
                    const oracle::Contract& contract, const oracle::OutputVerdict& verdict);

}  // namespace plumbline::fuzz
