// SPDX-License-Identifier: Apache-2.0
//
// usage: tensor_core_probe FILE
//
// Writes dot products for tensor_core_probe.py to compute on a GPU: for bf16 and fp16 and for 16, 32
// and 48 products, 50 048 each of the kinds of tensor_core_data.h and of "lost" (products below 2^-144,
// mostly zeros, of both signs), with the bits that the definition of the model gives. A group is four
// int32 {fp16?, products, count, 0}, then kind[count] bytes, a[count][products] and b likewise as
// 16-bit patterns, and the results as 32-bit patterns; all little-endian.

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "kernel/dtype.h"
#include "tests/kernel/support/tensor_core_data.h"
#include "tests/kernel/support/tensor_core_definition.h"

namespace plumbline::kernel {
namespace {

constexpr int32_t kCount = 50'048;  // a multiple of the 64 x 64 tiles that the GPU works in

uint16_t Pattern(DType dtype, float x) {
  return dtype == DType::kBf16 ? ToBFloat16(x).bits : ToFloat16(x).bits;
}

void DrawLost(DType dtype, int64_t products, TestRandom* random, float* a, float* b) {
  const bool negative = random->Next() % 2 == 0;
  for (int64_t k = 0; k < products; ++k) {
    const int total = dtype == DType::kF16 ? -48 : -144 - static_cast<int>(random->Next() % 13);
    const int first = dtype == DType::kF16 ? -24 : -82 + static_cast<int>(random->Next() % 20);
    a[k] = std::ldexp(negative ? -1.5f : 1.5f, first);
    b[k] = std::ldexp(1.25f, total - first);
    if (random->Next() % 8 != 0)
      (random->Next() % 2 == 0 ? a : b)[k] = random->Next() % 2 == 0 ? 0.0f : -0.0f;
    const auto widened = [&](uint16_t bits) {
      return dtype == DType::kBf16 ? ToFloat(BFloat16{bits}) : ToFloat(Float16{bits});
    };
    a[k] = widened(Pattern(dtype, a[k]));
    b[k] = widened(Pattern(dtype, b[k]));
  }
}

template <class T>
bool Write(std::FILE* file, const std::vector<T>& values) {
  return std::fwrite(values.data(), sizeof(T), values.size(), file) == values.size();
}

bool WriteGroup(std::FILE* file, DType dtype, int32_t products) {
  TestRandom random(static_cast<uint64_t>(products) * 2 + (dtype == DType::kF16));
  const auto width = static_cast<size_t>(products);
  std::vector<uint8_t> kinds;
  std::vector<uint16_t> left, right;
  std::vector<uint32_t> results;
  std::vector<float> a(width), b(width);
  for (int32_t i = 0; i < kCount; ++i) {
    const int kind = i % (kDataKinds + 1);
    if (kind < kDataKinds) {
      DrawOperands(dtype, static_cast<DataKind>(kind), products, &random, a.data(), b.data());
    } else {
      DrawLost(dtype, products, &random, a.data(), b.data());
    }
    kinds.push_back(static_cast<uint8_t>(kind));
    for (const float x : a) left.push_back(Pattern(dtype, x));
    for (const float x : b) right.push_back(Pattern(dtype, x));
    results.push_back(TensorCoreByDefinition(dtype, a.data(), b.data(), products));
  }
  return Write(file, std::vector<int32_t>{dtype == DType::kF16, products, kCount, 0}) &&
         Write(file, kinds) && Write(file, left) && Write(file, right) && Write(file, results);
}

}  // namespace
}  // namespace plumbline::kernel

int main(int argc, char** argv) {
  using plumbline::kernel::DType;
  if (argc != 2) {
    std::fprintf(stderr, "usage: tensor_core_probe FILE\n");
    return 2;
  }
  std::FILE* const file = std::fopen(argv[1], "wb");
  bool good = file != nullptr;
  for (const DType dtype : {DType::kBf16, DType::kF16}) {
    for (const int32_t products : {16, 32, 48}) {
      good = good && plumbline::kernel::WriteGroup(file, dtype, products);
    }
  }
  if (file != nullptr) good = std::fclose(file) == 0 && good;
  if (!good) std::perror(argv[1]);
  return good ? 0 : 1;
}
