// SPDX-License-Identifier: Apache-2.0
//
// cuBLAS does the products that the operator is compared with: bf16 in, bf16 out, fp32 accumulate. Each
// is done by the call that was fastest on these operands in this process (bench/timing/fastest.h):
// cublasGemmEx, or one of cublasLt's first eight heuristics. Both may use the same 64 MiB of workspace.

#pragma once

#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "bench/cuda/fill.h"
#include "bench/cuda/memory.h"

namespace plumbline::bench {

// out[rows, columns] = A · B over `depth`, all row-major and contiguous. a is [rows, depth], or
// [depth, rows] where a_transposed; b is [depth, columns], or [columns, depth] where b_transposed.
struct Product {
  const Bf16* a;
  const Bf16* b;
  Bf16* out;
  int64_t rows, columns, depth;
  bool a_transposed, b_transposed;
};

// Throws std::runtime_error, which names the call, if cuBLAS or CUDA refuse.
class CublasProducts {
 public:
  explicit CublasProducts(cudaStream_t stream);
  CublasProducts(const CublasProducts&) = delete;
  CublasProducts& operator=(const CublasProducts&) = delete;
  ~CublasProducts();

  // The way one product is done; valid only for the CublasProducts that chose it.
  struct Choice {
    Product product;
    bool light = false;  // cublasLt, by `algorithm`
    cublasLtMatmulAlgo_t algorithm = {};
    std::string name;  // "cublasGemmEx" or "cublasLt heuristic 3"
  };
  // Waits for the device. It runs at most 9 candidates in 8 rounds, each begun by one more: 80 times
  // the product.
  Choice Choose(const Product& product);
  void Enqueue(const Choice& choice);

 private:
  void Common(const Product& product);
  void Light(const Product& product, const cublasLtMatmulAlgo_t& algorithm);

  cudaStream_t stream_;
  cublasHandle_t common_ = nullptr;
  cublasLtHandle_t light_ = nullptr;
  DeviceArray<std::byte> workspace_;
};

// Returns the version of the loaded library, such as "13.0.2".
std::string CublasVersion();

}  // namespace plumbline::bench
