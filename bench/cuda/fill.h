// SPDX-License-Identifier: Apache-2.0
//
// Kernels that make the measured data: random tensors, rows gathered from a tensor, the sum of squares
// of one. Values come from cuRAND's counter-based Philox4x32-10, one subsequence for each four
// elements, so that they depend on (seed, index) alone. Every function enqueues on `stream` and throws
// on a launch error.

#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace plumbline::bench {

// bf16 in memory; the host never computes with it.
using Bf16 = uint16_t;

// Fills with normal values of mean 0 and standard deviation `scale`. T is Bf16 or float.
template <class T>
void FillNormal(T* out, int64_t count, float scale, uint64_t seed, cudaStream_t stream);

// out[i, :] = in[rows[i], :] for i < count, of `width` elements. T is Bf16, float or int64_t.
template <class T>
void PickRows(const T* in, const int64_t* rows, int64_t count, int64_t width, T* out,
              cudaStream_t stream);

// Adds the squares of all elements to *sum.
void AddSquares(const Bf16* in, int64_t count, double* sum, cudaStream_t stream);

}  // namespace plumbline::bench
