// SPDX-License-Identifier: Apache-2.0
//
// A look at the oracle on the device: rows of forward and of grad_hidden of a case of production size,
// computed again by the sweep on the host over the whole vocabulary.

#ifndef PLUMBLINE_FUZZ_GPU_PRODUCTION_AUDIT_H_
#define PLUMBLINE_FUZZ_GPU_PRODUCTION_AUDIT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "fuzz/gpu/production/device_case.h"
#include "oracle/contract.h"
#include "oracle/cuda/device_oracle.h"
#include "oracle/judge/verdict.h"

namespace plumbline::fuzz {

// Two rows of the outputs that `results` has, of one case in ten; none of the others, and of weights
// above kMostAudited elements, which take minutes to read.
inline constexpr int64_t kMostAudited = int64_t{1} << 30;
std::vector<oracle::cuda::WatchedRow> AuditedRows(const DeviceCase& device_case,
                                                  const kernel::Results& results, int64_t index);

// Empty; or the first element in which the two disagree: in what it must be, by more than both radii,
// or in its bound by more than 2^-19 of it.
std::string Audit(const DeviceCase& device_case, const kernel::Results& results,
                  const oracle::Contract& contract,
                  const std::vector<oracle::cuda::WatchedRow>& watched);

// The same for the one element that a verdict names, of an output other than loss and grad_weight
// (which depend on every row), before it is called a finding.
std::string Confirm(const DeviceCase& device_case, const kernel::Results& results,
                    const oracle::Contract& contract, const oracle::OutputVerdict& verdict);

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_GPU_PRODUCTION_AUDIT_H_
