// SPDX-License-Identifier: Apache-2.0
//
// Enqueues a product on the portable path, with as many persistent blocks as the device holds, or fewer
// where there are fewer tiles.

#pragma once

#include <algorithm>

#include "kernel/cuda/portable/main_loop.cuh"
#include "kernel/cuda/stages/path.h"
#include "kernel/cuda/support/hooks.cuh"
#include "kernel/cuda/support/launch.h"

namespace plumbline::kernel::cuda::portable {

template <class Arithmetic, bool kTransposedA, bool kTransposedB, class Epilogue, class Hooks = NoHooks>
Status Launch(const char* name, const Product& product, const Epilogue& epilogue, cudaStream_t stream,
              const Hooks& hooks = {}) {
  static_assert(kSharedBytes <= 48 << 10, "more needs the kernel's leave");
  constexpr int kBlocksAMultiprocessor = 2;
  int multiprocessors = 0;
  Status status = CountMultiprocessors(&multiprocessors);
  if (!status.ok()) return status;
  const auto tiles = [](int64_t n) { return (n + kTile - 1) / kTile; };
  const int64_t blocks =
      std::min(tiles(product.m) * tiles(product.n), int64_t{kBlocksAMultiprocessor} * multiprocessors);
  if (blocks == 0) return Status::Ok();
  return LaunchKernel(name, ProductKernel<Arithmetic, kTransposedA, kTransposedB, Epilogue, Hooks>,
                      blocks, kThreads, kSharedBytes, stream, product, epilogue, hooks);
}

// A path's kernels in one arithmetic, TensorCore or Simt.
template <template <class> class Arithmetic, class Element>
struct Kernels {
  static Status Forward(const Product& product, const ForwardEpilogue& epilogue, cudaStream_t stream) {
    return Launch<Arithmetic<Element>, false, false>("forward", product, epilogue, stream);
  }
  static Status DLogits(const Product& product, const DLogitsEpilogue<Element>& epilogue,
                        cudaStream_t stream) {
    return KnowingForm(epilogue, [&](const auto& known) {
      return Launch<Arithmetic<Element>, false, false>("d_logits", product, known, stream);
    });
  }
  static Status GradHidden(const Product& product, const AccumulateEpilogue& epilogue,
                           cudaStream_t stream) {
    return Launch<Arithmetic<Element>, false, true>("grad_hidden", product, epilogue, stream);
  }
  static Status GradWeight(const Product& product, const GradWeightEpilogue& epilogue,
                           cudaStream_t stream) {
    return Launch<Arithmetic<Element>, true, true>("grad_weight", product, epilogue, stream);
  }
  static Status GradWeightOfBlock(const Product& product, const GradWeightBlockEpilogue& epilogue,
                                  cudaStream_t stream) {
    return Launch<Arithmetic<Element>, true, true>("grad_weight", product, epilogue, stream);
  }
  static constexpr ProductKernels<Element> Table() {
    return {&Forward, &DLogits, &GradHidden, &GradWeight};
  }
};

}  // namespace plumbline::kernel::cuda::portable
