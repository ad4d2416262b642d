// SPDX-License-Identifier: Apache-2.0
//
// Matrix products in true FP64: cuBLAS with CUBLAS_COMPUTE_64F_PEDANTIC. It is loaded when it is first
// needed, so that a program starts where there is none. Each element of a product is a sum of K
// correctly rounded fused multiply-adds in some order, whose error is at most the gamma_K that the
// radius counts with (ERROR-BUDGET.md, "The radius").

#pragma once

#include <cstdint>
#include <memory>

namespace plumbline::oracle::cuda {

class Blas {
 public:
  // Throws DeviceError if there is no libcublas.so.13, or if what it computes is not FP64 (Prove).
  Blas();
  ~Blas();
  Blas(const Blas&) = delete;
  Blas& operator=(const Blas&) = delete;

  // c[m, n] = a[m, k] b[k, n] (+ c if add), all row-major. A transposed operand is stored [k, m] or [n,
  // k].
  struct Operand {
    const double* data;
    int64_t ld;
    bool transposed = false;
  };
  void Multiply(int64_t m, int64_t n, int64_t k, const Operand& a, const Operand& b, bool add,
                double* c, int64_t ldc) const;

 private:
  // Multiplies matrices whose exact products need all 53 bits, beside elements of 2^200 and 2^-96 in
  // the same rows. Arithmetic of fewer bits, or slices of a common scale, cannot give these products.
  void Prove() const;

  void* handle_ = nullptr;
  struct Functions;
  std::unique_ptr<Functions> functions_;
};

}  // namespace plumbline::oracle::cuda
