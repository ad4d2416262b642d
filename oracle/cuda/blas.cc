// SPDX-License-Identifier: Apache-2.0

#include "oracle/cuda/blas.h"

#include <cublas_v2.h>
#include <dlfcn.h>

#include <bit>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "oracle/cuda/device.h"

namespace plumbline::oracle::cuda {

struct Blas::Functions {
  decltype(&cublasCreate_v2) create;
  decltype(&cublasDestroy_v2) destroy;
  decltype(&cublasSetMathMode) set_math_mode;
  decltype(&cublasGemmEx_64) gemm;
};

namespace {

constexpr const char* kLibrary = "libcublas.so.13";

template <class Function>
void Find(void* library, const char* name, Function* function) {
  *function = std::bit_cast<Function>(dlsym(library, name));
  if (*function == nullptr) throw DeviceError(std::string(kLibrary) + " has no " + name);
}

void CheckBlas(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw DeviceError(std::string(what) + ": cuBLAS status " + std::to_string(static_cast<int>(status)));
}

}  // namespace

Blas::Blas() {
  void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    throw DeviceError(why != nullptr ? why : std::string(kLibrary) + " does not load");
  }
  functions_ = std::make_unique<Functions>();
  Find(library, "cublasCreate_v2", &functions_->create);
  Find(library, "cublasDestroy_v2", &functions_->destroy);
  Find(library, "cublasSetMathMode", &functions_->set_math_mode);
  Find(library, "cublasGemmEx_64", &functions_->gemm);
  cublasHandle_t handle = nullptr;
  CheckBlas(functions_->create(&handle), "cublasCreate");
  handle_ = handle;
  CheckBlas(functions_->set_math_mode(handle, CUBLAS_PEDANTIC_MATH), "cublasSetMathMode");
  Prove();
}

Blas::~Blas() {
  if (handle_ != nullptr) functions_->destroy(static_cast<cublasHandle_t>(handle_));
  // The library stays loaded, because it has threads and a context of its own.
}

void Blas::Multiply(int64_t m, int64_t n, int64_t k, const Operand& a, const Operand& b, bool add,
                    double* c, int64_t ldc) const {
  if (m == 0 || n == 0) return;
  const double one = 1, beta = add ? 1 : 0;
  // Row-major c = a b is column-major c^T = b^T a^T.
  CheckBlas(
      functions_->gemm(static_cast<cublasHandle_t>(handle_), b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
                       a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N, n, m, k, &one, b.data, CUDA_R_64F,
                       b.ld, a.data, CUDA_R_64F, a.ld, &beta, c, CUDA_R_64F, ldc,
                       CUBLAS_COMPUTE_64F_PEDANTIC, CUBLAS_GEMM_DEFAULT),
      "cublasGemmEx_64");
}

void Blas::Prove() const {
  // The size is large enough that cuBLAS chooses the kernel that large problems get.
  constexpr int64_t kSize = 512, kDepth = 128;
  std::vector<double> a(kSize * kDepth, 0.0), b(kSize * kDepth, 0.0);
  // Each dot product is that of two integers, 53 bits in all, plus nothing or a number so small that
  // one rounding, whatever the order, leaves the first. The numbers of 2^200 are multiplied by zeros,
  // but they set the scale of an emulation that splits a row into slices.
  for (int64_t i = 0; i < kSize; ++i) {
    const auto x = static_cast<double>((int64_t{1} << 26) + 2 * i + 1);
    double* row = a.data() + i * kDepth;
    row[0] = x * 0x1p-26;
    row[i % 31 + 1] = std::ldexp(1.0, static_cast<int>(i % 97) - 96);
    row[kDepth - 1] = 0x1p200;  // multiplied by the zeros of b
  }
  for (int64_t j = 0; j < kSize; ++j) {
    const auto y = static_cast<double>((int64_t{1} << 25) + 2 * j + 1);
    double* row = b.data() + j * kDepth;
    row[0] = y * 0x1p-26;
    row[kDepth - 2] = 0x1p200;  // multiplied by the zeros of a
    for (int64_t d = 1; d < 32; ++d) row[d] = d % 2 == 0 ? 0x1p-100 : 0;
  }
  DeviceBlock memory;
  auto* const device = memory.Of<double>(2 * kSize * kDepth + kSize * kSize, "the proof of FP64");
  double* const device_b = device + kSize * kDepth;
  double* const product = device_b + kSize * kDepth;
  Upload(a, device);
  Upload(b, device_b);
  Multiply(kSize, kSize, kDepth, {device, kDepth}, {device_b, kDepth, true}, false, product, kSize);
  const std::vector<double> got = Download(product, kSize * kSize, "the proof of FP64");
  for (size_t i = 0; i < got.size(); ++i) {
    const double exact = a[i / kSize * kDepth] * b[i % kSize * kDepth];
    if (got[i] == exact) continue;
    throw DeviceError("cuBLAS does not multiply in FP64: element (" + std::to_string(i / kSize) + ", " +
                      std::to_string(i % kSize) + ") of a product of exact integers is off by " +
                      std::to_string((got[i] - exact) / exact * 0x1p52) + " * 2^-52");
  }
}

}  // namespace plumbline::oracle::cuda
