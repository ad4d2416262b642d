// SPDX-License-Identifier: Apache-2.0
//
// Measures the host operator in billions of multiply-adds a second, counting those of the definition: N
// V H for forward, and 3 N V H with backward (grad_hidden, grad_weight; the logits that backward
// computes again are not counted). Data are random, so that exponentials get the arguments of a real
// softmax. host_hopper_… measures the host with the dot products of Hopper's tensor cores, where fp32
// inputs take six products of the planes for each that is counted.

#include <benchmark/benchmark.h>

#include <cstdint>
#include <string>

#include "bench/host/random_problem.h"
#include "fuzz/examine/placement.h"
#include "kernel/dtype.h"
#include "kernel/host/operator.h"

namespace plumbline::bench {
namespace {

using kernel::DType;
namespace host = kernel::host;

constexpr Shape kShapes[] = {
    {"fuzz_bf16_n64_v4096_h512", DType::kBf16, 64, 4096, 512, false},
    {"fuzz_fp32_n64_v4096_h512", DType::kF32, 64, 4096, 512, false},
    {"fuzz_bf16_n64_v4096_h512_hidden_major", DType::kBf16, 64, 4096, 512, true},
    {"tiny_bf16_n4_v100_h64", DType::kBf16, 4, 100, 64, false},
    {"narrow_fp16_n256_v32000_h64", DType::kF16, 256, 32000, 64, false},
    {"model_bf16_n256_v32000_h1024", DType::kBf16, 256, 32000, 1024, false},
    {"decode_bf16_n1_v32000_h1024", DType::kBf16, 1, 32000, 1024, false},
};

struct OnTensorCores : host::NoHooks {
  using Dots = host::TensorCores;
};

template <class Policy>
void Host(benchmark::State& state, const Shape& shape, bool backward, int threads) {
  const fuzz::Placement p(RandomProblem(shape, backward));
  for (auto _ : state) {
    const kernel::Status status = host::RunImpl(p.problem(), p.results(), threads, Policy());
    if (!status.ok()) {
      state.SkipWithError(status.message.c_str());
      return;
    }
    benchmark::ClobberMemory();
  }
  const double products = shape.products() * (backward ? 3 : 1);
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
        enlist("host_" + name, host::NoHooks());
        enlist("host_hopper_" + name, OnTensorCores());
      }
    }
  }
  return true;
}();

}  // namespace
}  // namespace plumbline::bench
