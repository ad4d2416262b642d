// SPDX-License-Identifier: Apache-2.0
//
// Makes dumps for tests. The base is a problem whose answers are known without computing: all logits
// are 0, so every p is 1/V, logprob = -ln V, entropy = lse = ln V.

#pragma once

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/problem/safetensors.h"

namespace plumbline::fuzz::testing {

inline HostTensor Floats(std::vector<int64_t> shape, const std::vector<float>& values,
                         kernel::DType dtype = kernel::DType::kF32) {
  HostTensor tensor = HostTensor::Zeros(dtype, std::move(shape));
  for (size_t i = 0; i < values.size(); ++i) tensor.SetFloat(static_cast<int64_t>(i), values[i]);
  return tensor;
}

inline HostTensor Same(int64_t count, float value) {
  return Floats({count}, std::vector<float>(static_cast<size_t>(count), value));
}

// Returns a dump in bf16, hidden zero and weight one, with labels 0, 1, 2, ... mod v and the right
// logprob, entropy and lse.
inline SafeTensors FlatDump(int64_t n, int64_t v, int64_t h) {
  SafeTensors dump;
  dump.tensors["hidden"] = HostTensor::Zeros(kernel::DType::kBf16, {n, h});
  dump.tensors["weight"] =
      Floats({v, h}, std::vector<float>(static_cast<size_t>(v * h), 1), kernel::DType::kBf16);
  HostTensor& labels = dump.tensors["labels"] = HostTensor::Zeros(kernel::DType::kI64, {n});
  for (int64_t i = 0; i < n; ++i) labels.SetInt(i, i % v);
  const auto log_v = static_cast<float>(std::log(static_cast<double>(v)));
  dump.tensors["logprob"] = Same(n, -log_v);
  dump.tensors["entropy"] = Same(n, log_v);
  dump.tensors["lse"] = Same(n, log_v);
  return dump;
}

inline std::filesystem::path WriteBytes(const std::filesystem::path& path,
                                        const std::vector<std::byte>& bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  return path;
}

inline std::filesystem::path WriteDump(const std::filesystem::path& path, const SafeTensors& dump) {
  return WriteBytes(path, WriteSafeTensors(dump));
}

}  // namespace plumbline::fuzz::testing
