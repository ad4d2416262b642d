// SPDX-License-Identifier: Apache-2.0
//
// The host operator in billions of multiply-adds a second, counting those of the definition: N V H for
// forward, and 3 N V H with backward (grad_hidden, grad_weight; the logits that backward computes again
// are not counted). Random data, so that exponentials meet the arguments of a real softmax. The same
// for the host with the dot products of Hopper's tensor cores (host_hopper_…), where fp32 inputs take
// six products of the planes for each that is counted.

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "kernel/dtype.h"
#include "kernel/host/operator.h"
#include "kernel/linear_cross_entropy.h"
#include "kernel/problem.h"

namespace plumbline::kernel {
namespace {

struct Shape {
  const char* name;
  DType dtype;
  int64_t n, v, h;
  bool hidden_major;
};

constexpr Shape kShapes[] = {
    {"fuzz_bf16_n64_v4096_h512", DType::kBf16, 64, 4096, 512, false},
    {"fuzz_fp32_n64_v4096_h512", DType::kF32, 64, 4096, 512, false},
    {"fuzz_bf16_n64_v4096_h512_hidden_major", DType::kBf16, 64, 4096, 512, true},
    {"tiny_bf16_n4_v100_h64", DType::kBf16, 4, 100, 64, false},
    {"narrow_fp16_n256_v32000_h64", DType::kF16, 256, 32000, 64, false},
    {"model_bf16_n256_v32000_h1024", DType::kBf16, 256, 32000, 1024, false},
    {"decode_bf16_n1_v32000_h1024", DType::kBf16, 1, 32000, 1024, false},
};

// Values between -1 and 1 in the tensor's own type, from a counter.
std::vector<std::byte> RandomTensor(DType dtype, int64_t count, float scale) {
  std::vector<std::byte> bytes(static_cast<size_t>(count) * SizeOf(dtype));
  uint64_t state = 1;
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    state = state * 6364136223846793005 + 1442695040888963407;
    const float value = scale * (static_cast<float>(state >> 40) * 0x1p-23f - 1);
    std::byte* const at = bytes.data() + i * SizeOf(dtype);
    if (dtype == DType::kBf16) {
      const BFloat16 narrow = ToBFloat16(value);
      std::memcpy(at, &narrow, sizeof narrow);
    } else if (dtype == DType::kF16) {
      const Float16 narrow = ToFloat16(value);
      std::memcpy(at, &narrow, sizeof narrow);
    } else {
      std::memcpy(at, &value, sizeof value);
    }
  }
  return bytes;
}

struct OnTensorCores {
  using Dots = host::TensorCores;
  static constexpr bool Has(host::Defect) { return false; }
};

template <class Policy>
void Host(benchmark::State& state, const Shape& shape, bool backward, int threads) {
  const auto hidden = RandomTensor(shape.dtype, shape.n * shape.h, 1);
  const auto weight = RandomTensor(shape.dtype, shape.v * shape.h, 0.2f);
  std::vector<int64_t> labels(static_cast<size_t>(shape.n));
  for (size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<int64_t>(i * 7919) % shape.v;
  const std::vector<float> ones(labels.size(), 1);
  std::vector<float> logprob(labels.size()), entropy(labels.size());
  std::vector<std::byte> grad_hidden(hidden.size()), grad_weight(weight.size());

  const int64_t weight_stride[2] = {shape.hidden_major ? 1 : shape.h, shape.hidden_major ? shape.v : 1};
  Problem problem;
  problem.hidden = {hidden.data(), shape.dtype, 2, {shape.n, shape.h}, {shape.h, 1}};
  problem.weight = {
      weight.data(), shape.dtype, 2, {shape.v, shape.h}, {weight_stride[0], weight_stride[1]}};
  problem.labels = {labels.data(), DType::kI64, 1, {shape.n, 1}, {1, 1}};
  problem.grad_logprob = problem.grad_entropy =
      ConstTensor{ones.data(), DType::kF32, 1, {shape.n, 1}, {1, 1}};
  Results results;
  results.logprob = Tensor{logprob.data(), DType::kF32, 1, {shape.n, 1}, {1, 1}};
  results.entropy = Tensor{entropy.data(), DType::kF32, 1, {shape.n, 1}, {1, 1}};
  if (backward) {
    results.grad_hidden = Tensor{grad_hidden.data(), shape.dtype, 2, {shape.n, shape.h}, {shape.h, 1}};
    results.grad_weight = Tensor{
        grad_weight.data(), shape.dtype, 2, {shape.v, shape.h}, {weight_stride[0], weight_stride[1]}};
  }
  for (auto _ : state) {
    const Status status = host::RunImpl(problem, results, threads, Policy());
    if (!status.ok()) {
      state.SkipWithError(status.message.c_str());
      return;
    }
    benchmark::DoNotOptimize(logprob.data());
    benchmark::ClobberMemory();
  }
  const double products = static_cast<double>(shape.n) * static_cast<double>(shape.v) *
                          static_cast<double>(shape.h) * (backward ? 3 : 1);
  state.counters["GMAC/s"] =
      benchmark::Counter(products * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

const bool kRegistered = [] {
  for (const Shape& shape : kShapes) {
    for (const bool backward : {false, true}) {
      for (const int threads : {1, 0}) {
        const std::string name = std::string(backward ? "forward_backward/" : "forward/") + shape.name +
                                 (threads == 1 ? "/one_thread" : "/all_threads");
        const auto enlist = [&](const std::string& whole, auto policy) {
          benchmark::RegisterBenchmark(whole.c_str(),
                                       [&shape, backward, threads, policy](benchmark::State& state) {
                                         Host<decltype(policy)>(state, shape, backward, threads);
                                       })
              ->UseRealTime()
              ->Unit(benchmark::kMillisecond);
        };
        enlist("host_" + name, host::NoDefects());
        enlist("host_hopper_" + name, OnTensorCores());
      }
    }
  }
  return true;
}();

}  // namespace
}  // namespace plumbline::kernel
