// SPDX-License-Identifier: Apache-2.0
//
// The operator on a CUDA device as a target, through its public API: the path that is best on the
// device, the portable one, and that without tensor cores. The first two claim one contract, whatever
// their bits, so that one evaluation of the oracle serves both.

#ifndef PLUMBLINE_FUZZ_TARGETS_CUDA_H_
#define PLUMBLINE_FUZZ_TARGETS_CUDA_H_

#include <string>
#include <string_view>

#include "fuzz/target_abi.h"
#include "kernel/linear_cross_entropy.h"

namespace plumbline::fuzz {

const plumbline_target_v1* CudaTarget();
const plumbline_target_v1* CudaPortableTarget();
const plumbline_target_v1* CudaSimtTarget();

// The arithmetic of kernel/cuda's tensor cores, claimed under this name: JSON as
// fuzz/target_description.md says.
std::string CudaDescription(std::string_view name);

// How the operator is called on `stream`.
kernel::Execution OnCuda(void* stream, kernel::CudaPath path);

// Scratch memory for a call of `run`, which the ABI gives none: kept by this process from call to call.
struct CudaScratch {
  void* workspace = nullptr;
  void* saved = nullptr;
};
// Throws DeviceFull.
CudaScratch KeepCudaScratch(const kernel::Sizes& sizes);

// Operator::Run by way of its GetSizes, Forward and Backward (fuzz/targets/entry.h), in scratch memory.
template <class Operator>
kernel::Status RunInScratch(const kernel::Problem& problem, const kernel::Results& results,
                            void* stream) {
  kernel::Sizes sizes;
  kernel::Status status = Operator::GetSizes(problem, results, &sizes);
  if (!status.ok()) return status;
  const CudaScratch scratch = KeepCudaScratch(sizes);
  status = Operator::Forward(problem, results, scratch.workspace, scratch.saved, stream);
  if (!status.ok() || (!results.grad_hidden && !results.grad_weight)) return status;
  return Operator::Backward(problem, results, scratch.workspace, scratch.saved, stream);
}

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_TARGETS_CUDA_H_
