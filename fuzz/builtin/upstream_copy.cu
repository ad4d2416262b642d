// SPDX-License-Identifier: Apache-2.0

#include <algorithm>

#include "fuzz/builtin/upstream.h"
#include "kernel/cuda/support/launch.h"

namespace plumbline::fuzz {
namespace {

constexpr int kThreads = 256;

__global__ void CopyKernel(const CopyUpstream copy) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < copy.rows;
       i += step) {
    bool same = true;
    for (int r = 0; r < CopyUpstream::kResults; ++r) {
      const StridedFloats& written = copy.written[r];
      if (written.data == nullptr) continue;
      same &= __float_as_uint(written.data[i * written.stride]) == __float_as_uint(copy.handed[r][i]);
    }
    const auto give = [&](const StridedFloats& from, float* to) {
      if (!same) {
        to[i] = __uint_as_float(0x7fffffff);
      } else if (from.data != nullptr) {  // else it stays +0, as it is handed over
        to[i] = from.data[i * from.stride];
      }
    };
    give(copy.grad_logprob, copy.to_logprob);
    give(copy.grad_entropy, copy.to_entropy);
  }
}

}  // namespace

kernel::Status Enqueue(const CopyUpstream& copy, void* stream) {
  const int64_t blocks = std::min<int64_t>((copy.rows + kThreads - 1) / kThreads, 4096);
  return kernel::cuda::LaunchKernel("copy of upstream gradients", CopyKernel, blocks, kThreads, 0,
                                    static_cast<cudaStream_t>(stream), copy);
}

}  // namespace plumbline::fuzz
