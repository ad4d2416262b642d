// SPDX-License-Identifier: Apache-2.0
//
// The operator on a CUDA device as a target: the path that is best on the device, the portable one, and
// the one without tensor cores. fuzz/builtin/cuda_way.h says how each problem is called. The first two
// claim one contract, that of the device's tensor cores, although their bits differ, so that one
// evaluation of the oracle serves both.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "fuzz/target_abi.h"
#include "kernel/linear_cross_entropy.h"

namespace plumbline::fuzz {

const plumbline_target_v1* CudaTarget();
const plumbline_target_v1* CudaPortableTarget();
const plumbline_target_v1* CudaSimtTarget();

// The description, under this name, of a path on a device of this compute capability (10 major +
// minor): JSON as fuzz/target/DESCRIPTION.md says. The number of products aligned together and the bits
// kept below fp32's 23 are 16 and 2 on 9.0 (kernel/host/tensor_core.h, measured), and 8 and 1 on 8.x,
// where one mma.sync is two such blocks (Fasi, Higham, Mikaitis and Pranesh, PeerJ CS 7:e330, 2021;
// Khattak and Mikaitis, arXiv 2512.07004). Nothing is claimed of devices after 9.0. Without tensor
// cores, below 8.0 or on kSimt, sums are fp32's.
std::string CudaDescription(std::string_view name, kernel::CudaPath path, int capability);

// The same on the device of this process; without a device, as on 9.0.
std::string CudaDescription(std::string_view name, kernel::CudaPath path = kernel::CudaPath::kBest);

// Scratch memory for a call of `run`, to which the ABI gives none. This process keeps it from call to
// call.
struct CudaScratch {
  void* workspace = nullptr;
  void* saved = nullptr;
};
// Throws DeviceFull.
CudaScratch KeepCudaScratch(const kernel::Sizes& sizes);

// Runs an Operator by way of its GetSizes, Forward and Backward (fuzz/builtin/adapter.h), in scratch
// memory.
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
