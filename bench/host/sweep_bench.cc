// SPDX-License-Identifier: Apache-2.0
//
// Compares the oracle's sweep on one core with the peak of that core. fma_rate is the part of the
// machine's double multiply-add rate, measured in this process, counting two a product (value and
// bound), N V H products forward and 3 N V H with backward. judge_… runs and judges the host's own
// results instead. arbiter_per_element says how many times longer the arbiter takes for one logprob
// than the sweep does.

#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdint>
#include <string>

#include "bench/host/random_problem.h"
#include "fuzz/examine/placement.h"
#include "kernel/linear_cross_entropy.h"
#include "oracle/arbiter.h"
#include "oracle/judge/judge.h"
#include "oracle/numeric/gemm.h"
#include "oracle/sweep/sweep.h"

namespace plumbline::bench {
namespace {

constexpr Shape kShapes[] = {
    {"bf16_n64_v4096_h512", kernel::DType::kBf16, 64, 4096, 512, false},
    {"fp32_n64_v4096_h512", kernel::DType::kF32, 64, 4096, 512, false},
    {"bf16_n64_v4096_h512_hidden_major", kernel::DType::kBf16, 64, 4096, 512, true},
    {"bf16_n4_v1025_h129", kernel::DType::kBf16, 4, 1025, 129, false},
    {"bf16_n3_v129_h8", kernel::DType::kBf16, 3, 129, 8, false},
    {"bf16_n64_v32000_h64", kernel::DType::kBf16, 64, 32000, 64, false},
};

double FmaRate() {
  static const double rate = oracle::MeasureFmaRate(0.5);
  return rate;
}

class Discard final : public oracle::ElementSink {
 public:
  void Take(const oracle::ElementRow& row) override { benchmark::DoNotOptimize(row.bound[0]); }
};

void CountRate(benchmark::State& state, const Shape& shape, bool backward) {
  const double products = shape.products() * (backward ? 3 : 1);
  state.counters["fma_rate"] =
      benchmark::Counter(2 * products / FmaRate(), benchmark::Counter::kIsIterationInvariantRate);
}

void Sweep(benchmark::State& state, const Shape& shape, bool backward) {
  const fuzz::Placement p(RandomProblem(shape, backward));
  Discard sink;
  for (auto _ : state) oracle::Sweep(p.problem(), p.results(), oracle::Contract{}, {}, &sink);
  CountRate(state, shape, backward);
}

void Judge(benchmark::State& state, const Shape& shape, bool backward) {
  const fuzz::Placement p(RandomProblem(shape, backward));
  const kernel::Status status = kernel::Run(p.problem(), p.results());
  if (!status.ok()) return state.SkipWithError(status.message.c_str());
  for (auto _ : state) {
    const oracle::Judgement j = oracle::JudgeProblem(p.problem(), p.results(), oracle::Contract{});
    for (const oracle::OutputVerdict& v : j.outputs) {
      if (v.fail > 0) return state.SkipWithError("the host fails");
    }
  }
  CountRate(state, shape, backward);
}

void ArbiterPerElement(benchmark::State& state, const Shape& shape) {
  using Clock = std::chrono::steady_clock;
  const fuzz::Placement p(RandomProblem(shape, false));
  Discard sink;
  constexpr int kRepeats = 100;
  const auto start = Clock::now();
  for (int i = 0; i < kRepeats; ++i) {
    oracle::Sweep(p.problem(), p.results(), oracle::Contract{}, {}, &sink);
  }
  const double sweep = std::chrono::duration<double>(Clock::now() - start).count() / kRepeats;
  double arbiter_seconds = 0;
  for (auto _ : state) {
    const auto begin = Clock::now();
    oracle::Arbiter arbiter(p.problem());  // a new one, since it keeps the rows that it has seen
    benchmark::DoNotOptimize(arbiter.Evaluate(oracle::Output::kLogprob, 0, 0).high);
    arbiter_seconds += std::chrono::duration<double>(Clock::now() - begin).count();
  }
  state.counters["arbiter_per_element"] = arbiter_seconds / static_cast<double>(state.iterations()) /
                                          (sweep / static_cast<double>(shape.n));
}

const bool kRegistered = [] {
  for (const Shape& shape : kShapes) {
    for (const bool backward : {false, true}) {
      const std::string name = std::string(backward ? "forward_backward/" : "forward/") + shape.name;
      benchmark::RegisterBenchmark(("sweep_" + name).c_str(), [&shape, backward](auto& state) {
        Sweep(state, shape, backward);
      })->Unit(benchmark::kMillisecond);
      benchmark::RegisterBenchmark(("judge_" + name).c_str(), [&shape, backward](auto& state) {
        Judge(state, shape, backward);
      })->Unit(benchmark::kMillisecond);
    }
  }
  benchmark::RegisterBenchmark("arbiter_per_element/logprob_bf16_n4_v1025_h129", [](auto& state) {
    ArbiterPerElement(state, kShapes[3]);
  })->Unit(benchmark::kMillisecond);
  return true;
}();

}  // namespace
}  // namespace plumbline::bench
