// SPDX-License-Identifier: Apache-2.0
//
// Reductions over the threads of a block.

#pragma once

namespace plumbline::oracle::cuda {

// Reduces over the kThreads threads of a block in a fixed order; every thread has the result. join(a,
// b) must be associative up to rounding.
template <int kThreads, class Value, class Join>
__device__ Value Reduce(Value mine, const Join& join) {
  __shared__ alignas(Value) unsigned char
      storage[sizeof(Value) * kThreads];  // raw bytes because Value has a constructor
  Value* const of_thread = reinterpret_cast<Value*>(storage);
  of_thread[threadIdx.x] = mine;
  __syncthreads();
  for (int step = kThreads / 2; step > 0; step /= 2) {
    if (static_cast<int>(threadIdx.x) < step) {
      of_thread[threadIdx.x] = join(of_thread[threadIdx.x], of_thread[threadIdx.x + step]);
    }
    __syncthreads();
  }
  const Value all = of_thread[0];
  __syncthreads();
  return all;
}

}  // namespace plumbline::oracle::cuda
