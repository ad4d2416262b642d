// SPDX-License-Identifier: Apache-2.0
//
// Measures the CUDA operator against cuBLAS, in interleaved pairs (bench/timing/paired_timing.h) on
// random bf16 data (bench/cuda/operator_run.h). The time of a benchmark is the median of ours; its
// counters are:
//
//   ratio, ratio_low, ratio_high   ours over theirs: median of the pairs, its 95 % interval
//   ms, ms_reference               medians
//   TFLOP/s, TFLOP/s_reference     2·N·H·V a product, counted as cuBLAS does them
//   workspace_MiB, saved_MiB       the sizes that the operator asks for
//   launches                       kernels and memsets that one call of the pass enqueues
//   host_us                        µs of the calling thread that one call takes, the device being idle
//   host_us_launch                 the same of one launch of a small kernel: launches times this is the
//                                  part of host_us that launching takes
//   host_us_sizes                  the same of GetSizes. These three are medians
//
// The label says which cuBLAS calls were chosen, if theirs is those.
//
// sustained/<pass>/<shape> and burst/<pass>/<shape> measure the same pair in the two regimes of
// bench/timing/regimes.h, in place of interleaved pairs. sustained adds, where NVML counts energy (the
// context's "energy" says why not, otherwise):
//
//   J, J_reference                 a call, medians over the rows
//   J_ratio                        their quotient
//   MHz, MHz_reference             of the multiprocessors in the middle of a row
//
// In <pass>/<shape>, theirs is the cuBLAS products of the same work (bench/cuda/cublas_baseline.h): one
// for forward, three for backward, and four for both, in two calls or in one. The one call is
// gradients_in_forward, which may keep as many logits as kernel/linear_cross_entropy.h says by default.
// few_rows is backward alone beside its products, in pairs; sustained/backward measures it in rows of
// one kind. Others have another reference: per_token (four times 8192 rows for 32768, and in one call
// four times 32768 for 131072), weight_once and weight_thrice (a device-to-device copy that moves as
// many bytes as weight has, or three times as many) and half_ignored (no row ignored).
//
// Outputs are poisoned before each measurement and checked after it: beside cuBLAS against its
// products, elsewhere for being numbers (bench/cuda/operator_run.h). A benchmark that fails is an error
// in the results. Exit status: 0; 1 if a benchmark failed; 2 usage.

#include <benchmark/benchmark.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/cuda/cublas_baseline.h"
#include "bench/cuda/cublas_products.h"
#include "bench/cuda/energy.h"
#include "bench/cuda/fill.h"
#include "bench/cuda/host_cost.h"
#include "bench/cuda/memory.h"
#include "bench/cuda/operator_run.h"
#include "bench/timing/median.h"
#include "bench/timing/paired_timing.h"
#include "bench/timing/regimes.h"

namespace plumbline::bench {
namespace {

constexpr DeviceShape kShapes[] = {
    {8192, 4096, 131072},       {8192, 4096, 151936}, {8192, 2048, 131072}, {8192, 1024, 151936},
    {8192, 2304, 256000},       {4096, 7168, 129280}, {128, 4096, 151936},  {32768, 4096, 131072},
    {8192, 4096, 151936, true}, {8192, 4096, 128256}, {8192, 2048, 128256}, {8192, 3584, 152064},
};
// Backward over few rows, at H = 4096 and V = 151936.
constexpr int64_t kFewRows[] = {256, 384, 512, 768, 1024, 2048};
// Forward over so few rows reads weight and does little else.
constexpr int64_t kFewestRows[] = {1, 16, 64, 128}, kVocabularies[] = {128256, 151936};
constexpr int kBursts = 24;
constexpr double kRestMs = 50;
constexpr double kMiB = 1 << 20;

cudaStream_t TheStream() {
  static const cudaStream_t stream = [] {
    cudaStream_t made = nullptr;
    Check(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    return made;
  }();
  return stream;
}

// The operator and its baseline at one shape, kept from pass to pass. Another shape takes over its
// memory.
struct Bench {
  explicit Bench(const DeviceShape& shape) : ours(shape, TheStream()), theirs(ours, TheStream()) {
    ours.Forward();  // backward alone reads what it saves
  }
  OperatorRun ours;
  CublasBaseline theirs;
};
std::unique_ptr<Bench> current;

Bench& At(const DeviceShape& shape) {
  if (current == nullptr || !(current->ours.shape() == shape)) {
    current.reset();
    current = std::make_unique<Bench>(shape);
  }
  return *current;
}

struct Pass {
  const char* name;
  int products;  // the number that cuBLAS needs
  enum Kind { kForward, kBackward, kBoth, kAtOnce } kind;

  template <class Side>
  std::function<void()> Of(Side* side) const {
    return [side, this] {
      if (kind == kForward || kind == kBoth) side->Forward();
      if (kind == kBackward || kind == kBoth) side->Backward();
      if (kind == kAtOnce) side->ForwardBackward();
    };
  }
};
constexpr Pass kForward = {"forward", 1, Pass::kForward}, kBackward = {"backward", 3, Pass::kBackward},
               kBoth = {"forward_backward", 4, Pass::kBoth},
               kAtOnce = {"gradients_in_forward", 4, Pass::kAtOnce};

// Returns enough pairs for about 0.8 s at 700 TFLOP/s, and at least 20.
int Pairs(double flop_of_both) {
  return static_cast<int>(std::clamp(0.8 * 700e12 / flop_of_both, 20.0, 100.0));
}

// theirs_scale is the factor of the time of `theirs` before it is compared. flop is the work of a
// product, on either side (of theirs after it is scaled); 0 if it is no product.
void Report(benchmark::State& state, const PairedTimes& times, double theirs_scale, const Pass& pass,
            OperatorRun& ours, double flop, double their_flop) {
  const double reference = times.b * theirs_scale;
  state.counters["pairs"] = times.pairs;
  state.counters["ratio"] = times.ratio / theirs_scale;
  state.counters["ratio_low"] = times.ratio_low / theirs_scale;
  state.counters["ratio_high"] = times.ratio_high / theirs_scale;
  state.counters["ms"] = times.a;
  state.counters["ms_reference"] = reference;
  state.counters["TFLOP/s"] = pass.products * flop / times.a * 1e-9;
  if (their_flop > 0)
    state.counters["TFLOP/s_reference"] = pass.products * their_flop / reference * 1e-9;
  const bool at_once = pass.kind == Pass::kAtOnce;
  const kernel::Sizes& sizes = pass.kind == Pass::kForward ? ours.forward_sizes() : ours.sizes();
  const size_t workspace = at_once ? ours.forward_backward_workspace() : sizes.workspace;
  state.counters["workspace_MiB"] = static_cast<double>(workspace) / kMiB;
  state.counters["saved_MiB"] = at_once ? 0 : static_cast<double>(ours.sizes().saved) / kMiB;
  // As many calls as the device does in about 0.3 s.
  const int calls = static_cast<int>(std::clamp(300 / times.a, 5.0, 301.0));
  state.counters["host_us"] = HostMicroseconds(pass.Of(&ours), calls, TheStream());
  state.counters["launches"] = static_cast<double>(Launches(pass.Of(&ours), TheStream()));
  const DeviceArray<float> one(1);
  state.counters["host_us_launch"] =
      HostMicroseconds([&] { FillNormal(one.data(), 1, 1, 1, TheStream()); }, 301, TheStream());
  state.counters["host_us_sizes"] = HostMicroseconds([&] { ours.AskSizes(); }, 301, TheStream());
  for (auto _ : state) state.SetIterationTime(times.a * 1e-3);
}

std::unique_ptr<EnergyMeter> meter;  // null where the device has none

enum class Regime { kPairs, kSustained, kBurst };

void BesideCublas(benchmark::State& state, const DeviceShape& shape, const Pass& pass,
                  Regime regime = Regime::kPairs) {
  Bench& bench = At(shape);
  const double flop = bench.theirs.flop_of_a_product();
  const std::function<void()> ours = pass.Of(&bench.ours), theirs = pass.Of(&bench.theirs);
  bench.ours.PoisonOutputs();
  RowTimes rows;
  switch (regime) {
    case Regime::kPairs:
      rows.times = TimePairs(ours, theirs, Pairs(2 * pass.products * flop), TheStream());
      break;
    case Regime::kSustained:
      rows = TimeRows(ours, theirs, {}, meter.get(), TheStream());
      break;
    case Regime::kBurst:
      rows.times = TimeBursts(ours, theirs, kBursts, kRestMs, TheStream());
      break;
  }
  if (pass.kind != Pass::kBackward) bench.theirs.CheckLogprob(bench.ours);
  if (pass.kind != Pass::kForward) bench.theirs.CheckGradients(bench.ours);
  Report(state, rows.times, 1, pass, bench.ours, flop, flop);
  if (rows.joules_b > 0) {
    state.counters["J"] = rows.joules_a;
    state.counters["J_reference"] = rows.joules_b;
    state.counters["J_ratio"] = rows.joules_a / rows.joules_b;
    state.counters["MHz"] = rows.clock_a;
    state.counters["MHz_reference"] = rows.clock_b;
  }
  state.SetLabel(pass.kind == Pass::kForward ? bench.theirs.choices_of_forward()
                                             : bench.theirs.choices());
}

double Flop(const OperatorRun& run) {
  return 2 * static_cast<double>(run.live_rows().size()) * static_cast<double>(run.shape().h) *
         static_cast<double>(run.shape().v);
}

// Throws unless the pass wrote the outputs it is asked for, all of them numbers, since PoisonOutputs.
void CheckOutputs(const OperatorRun& run, const Pass& pass) {
  if (pass.kind != Pass::kBackward) run.CheckForward();
  if (pass.kind != Pass::kForward) run.CheckGradients();
}

// Measures two problems of our own in turn. Backward alone reads what Forward saved, so Forward runs
// first.
void BesideOurselves(benchmark::State& state, const DeviceShape& shape, const DeviceShape& reference,
                     double scale, const Pass& pass) {
  current.reset();
  OperatorRun a(shape, TheStream()), b(reference, TheStream());
  a.Forward();
  b.Forward();
  a.PoisonOutputs();
  b.PoisonOutputs();
  const PairedTimes times =
      TimePairs(pass.Of(&a), pass.Of(&b), Pairs(pass.products * (Flop(a) + Flop(b))), TheStream());
  CheckOutputs(a, pass);
  CheckOutputs(b, pass);
  Report(state, times, scale, pass, a, Flop(a), scale * Flop(b));
}

// A copy of 2 GiB moves 4 GiB: each byte is read and written. Theirs stands for so many readings of
// weight.
void BesideCopy(benchmark::State& state, const DeviceShape& shape, const Pass& pass, int readings) {
  constexpr int64_t kCopied = int64_t{2} << 30;
  current.reset();
  OperatorRun ours(shape, TheStream());
  const DeviceArray<float> from(kCopied / 4), to(kCopied / 4);
  FillNormal(from.data(), from.size(), 1, 1, TheStream());
  const auto copy = [&] {
    Check(cudaMemcpyAsync(to.data(), from.data(), kCopied, cudaMemcpyDeviceToDevice, TheStream()),
          "cudaMemcpyAsync");
  };
  ours.PoisonOutputs();
  const PairedTimes times = TimePairs(pass.Of(&ours), copy, 100, TheStream());
  CheckOutputs(ours, pass);
  const auto weight = static_cast<double>(ours.weight().size()) * 2 * readings;
  Report(state, times, weight / (2 * static_cast<double>(kCopied)), pass, ours, Flop(ours), 0);
  state.counters["copy_GB/s"] = 2 * static_cast<double>(kCopied) / times.b * 1e-6;
}

int failures = 0;  // benchmarks that were skipped with an error

void Register(const std::string& name, std::function<void(benchmark::State&)> run) {
  benchmark::RegisterBenchmark(name.c_str(),
                               [run = std::move(run)](benchmark::State& state) {
                                 try {
                                   run(state);
                                 } catch (const std::exception& fault) {
                                   current.reset();
                                   ++failures;
                                   state.SkipWithError(fault.what());
                                 }
                               })
      ->Iterations(1)
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
}

void RegisterAll() {
  for (const DeviceShape& shape : kShapes) {
    for (const Pass& pass : {kForward, kBackward, kBoth, kAtOnce}) {
      for (const auto& [name, regime] :
           {std::pair("", Regime::kPairs), std::pair("sustained/", Regime::kSustained),
            std::pair("burst/", Regime::kBurst)}) {
        Register(std::string(name) + pass.name + "/" + shape.name(),
                 [&shape, pass, regime](benchmark::State& state) {
                   BesideCublas(state, shape, pass, regime);
                 });
      }
    }
  }
  for (const int64_t rows : kFewRows) {
    const DeviceShape shape = {rows, 4096, 151936};
    Register("few_rows/backward/" + shape.name(),
             [shape](benchmark::State& state) { BesideCublas(state, shape, kBackward); });
    Register("sustained/backward/" + shape.name(), [shape](benchmark::State& state) {
      BesideCublas(state, shape, kBackward, Regime::kSustained);
    });
  }
  for (const Pass& pass : {kForward, kBackward, kBoth}) {
    Register(std::string("per_token/") + pass.name + "/32768x4096x131072",
             [pass](benchmark::State& state) {
               BesideOurselves(state, {32768, 4096, 131072}, {8192, 4096, 131072}, 4, pass);
             });
  }
  Register("per_token/gradients_in_forward/131072x4096x131072", [](benchmark::State& state) {
    BesideOurselves(state, {131072, 4096, 131072}, {32768, 4096, 131072}, 4, kAtOnce);
  });
  Register("half_ignored/forward_backward/8192x4096x151936", [](benchmark::State& state) {
    BesideOurselves(state, {8192, 4096, 151936, true}, {8192, 4096, 151936}, 1, kBoth);
  });
  for (const int64_t vocabulary : kVocabularies) {
    for (const int64_t rows : kFewestRows) {
      const DeviceShape shape = {rows, 4096, vocabulary};
      Register("weight_once/forward/" + shape.name(),
               [shape](benchmark::State& state) { BesideCopy(state, shape, kForward, 1); });
    }
  }
  // Two calls multiply for the logits again, and so read weight once more.
  for (const Pass& pass : {kBoth, kAtOnce}) {
    Register(std::string("weight_thrice/") + pass.name + "/128x4096x151936",
             [pass](benchmark::State& state) {
               BesideCopy(state, {128, 4096, 151936}, pass, 3);
             });
  }
}

std::string Version(int number) {
  return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
}

// Returns why there is no device. Empty if there is one, which the context of the results then
// describes.
std::string WhyNoDevice() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || count == 0)
    return std::string("no CUDA device: ") + cudaGetErrorString(error);
  cudaDeviceProp device = {};
  int runtime = 0;
  Check(cudaGetDeviceProperties(&device, 0), "cudaGetDeviceProperties");
  Check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  std::string driver;
  std::ifstream version("/proc/driver/nvidia/version");
  std::getline(version, driver);
  benchmark::AddCustomContext("device", device.name);
  benchmark::AddCustomContext("multiprocessors", std::to_string(device.multiProcessorCount));
  benchmark::AddCustomContext("driver", driver.empty() ? "unknown" : driver);
  benchmark::AddCustomContext("cuda", Version(runtime));
  benchmark::AddCustomContext("cublas", CublasVersion());
  std::string energy;
  meter = EnergyMeter::Make(&energy);
  if (meter != nullptr)
    energy = "NVML, at most " + std::to_string(std::lround(meter->PowerLimit())) + " W";
  benchmark::AddCustomContext("energy", energy);
  return "";
}

}  // namespace
}  // namespace plumbline::bench

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  const std::string why = plumbline::bench::WhyNoDevice();
  if (!why.empty()) {
    std::fprintf(stderr, "cuda_bench: skipped: %s\n", why.c_str());
    return 0;
  }
  plumbline::bench::RegisterAll();
  benchmark::RunSpecifiedBenchmarks();
  plumbline::bench::current.reset();
  return plumbline::bench::failures == 0 ? 0 : 1;
}
