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
// In <pass>/<shape>, theirs is the cuBLAS products of the same work (bench/cuda/cublas_baseline.h): one
// for forward, three for backward, and four for both, in two calls or in one. The one call is
// gradients_in_forward, which may keep as many logits as kernel/linear_cross_entropy.h says by default.
// Three more benchmarks have another reference: per_token (four times 8192 rows for 32768), weight_once
// (a device-to-device copy that moves as many bytes as weight has) and half_ignored (no row ignored).
//
// Outputs are poisoned before each measurement and checked after it: beside cuBLAS against its
// products, elsewhere for being numbers (bench/cuda/operator_run.h). A benchmark that fails is an error
// in the results. Exit status: 0; 1 if a benchmark failed; 2 usage.

#include <benchmark/benchmark.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/cuda/cublas_baseline.h"
#include "bench/cuda/cublas_products.h"
#include "bench/cuda/fill.h"
#include "bench/cuda/memory.h"
#include "bench/cuda/operator_run.h"
#include "bench/timing/median.h"
#include "bench/timing/paired_timing.h"

namespace plumbline::bench {
namespace {

constexpr DeviceShape kShapes[] = {
    {8192, 4096, 131072}, {8192, 4096, 151936},  {8192, 2048, 131072},
    {8192, 1024, 151936}, {8192, 2304, 256000},  {4096, 7168, 129280},
    {128, 4096, 151936},  {32768, 4096, 131072}, {8192, 4096, 151936, true},
};
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

// Returns the median of the microseconds that `call` takes of this thread, the device being idle.
double HostMicroseconds(const std::function<void()>& call, int calls) {
  std::vector<double> times;
  for (int i = 0; i < calls; ++i) {
    Check(cudaStreamSynchronize(TheStream()), "cudaStreamSynchronize");
    const auto begin = std::chrono::steady_clock::now();
    call();
    const std::chrono::duration<double, std::micro> taken = std::chrono::steady_clock::now() - begin;
    times.push_back(taken.count());
  }
  Check(cudaStreamSynchronize(TheStream()), "cudaStreamSynchronize");
  return Median(std::move(times));
}

// Returns the number of kernels and memsets that `call` enqueues. It is captured, not run.
int64_t Launches(const std::function<void()>& call) {
  cudaGraph_t captured = nullptr;
  Check(cudaStreamBeginCapture(TheStream(), cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
  try {
    call();
  } catch (...) {
    (void)cudaStreamEndCapture(TheStream(), &captured);  // the stream is of use to the next benchmark
    (void)cudaGraphDestroy(captured);
    throw;
  }
  Check(cudaStreamEndCapture(TheStream(), &captured), "cudaStreamEndCapture");
  const std::unique_ptr<CUgraph_st, decltype(&cudaGraphDestroy)> graph(captured, cudaGraphDestroy);
  size_t count = 0;
  Check(cudaGraphGetNodes(graph.get(), nullptr, &count), "cudaGraphGetNodes");
  std::vector<cudaGraphNode_t> nodes(count);
  Check(cudaGraphGetNodes(graph.get(), nodes.data(), &count), "cudaGraphGetNodes");
  return std::ranges::count_if(nodes, [](cudaGraphNode_t node) {
    cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
    Check(cudaGraphNodeGetType(node, &type), "cudaGraphNodeGetType");
    return type == cudaGraphNodeTypeKernel || type == cudaGraphNodeTypeMemset;
  });
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
  state.counters["host_us"] = HostMicroseconds(pass.Of(&ours), calls);
  state.counters["launches"] = static_cast<double>(Launches(pass.Of(&ours)));
  const DeviceArray<float> one(1);
  state.counters["host_us_launch"] =
      HostMicroseconds([&] { FillNormal(one.data(), 1, 1, 1, TheStream()); }, 301);
  state.counters["host_us_sizes"] = HostMicroseconds([&] { ours.AskSizes(); }, 301);
  for (auto _ : state) state.SetIterationTime(times.a * 1e-3);
}

void BesideCublas(benchmark::State& state, const DeviceShape& shape, const Pass& pass) {
  Bench& bench = At(shape);
  const double flop = bench.theirs.flop_of_a_product();
  bench.ours.PoisonOutputs();
  const PairedTimes times = TimePairs(pass.Of(&bench.ours), pass.Of(&bench.theirs),
                                      Pairs(2 * pass.products * flop), TheStream());
  if (pass.kind != Pass::kBackward) bench.theirs.CheckLogprob(bench.ours);
  if (pass.kind != Pass::kForward) bench.theirs.CheckGradients(bench.ours);
  Report(state, times, 1, pass, bench.ours, flop, flop);
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

// A copy of 2 GiB moves 4 GiB: each byte is read and written.
void BesideCopy(benchmark::State& state, const DeviceShape& shape, const Pass& pass) {
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
  const auto weight = static_cast<double>(ours.weight().size()) * 2;
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
      Register(pass.name + ("/" + shape.name()),
               [&shape, pass](benchmark::State& state) { BesideCublas(state, shape, pass); });
    }
  }
  for (const Pass& pass : {kForward, kBackward, kBoth}) {
    Register(std::string("per_token/") + pass.name + "/32768x4096x131072",
             [pass](benchmark::State& state) {
               BesideOurselves(state, {32768, 4096, 131072}, {8192, 4096, 131072}, 4, pass);
             });
  }
  Register("half_ignored/forward_backward/8192x4096x151936", [](benchmark::State& state) {
    BesideOurselves(state, {8192, 4096, 151936, true}, {8192, 4096, 151936}, 1, kBoth);
  });
  Register("weight_once/forward/128x4096x151936", [](benchmark::State& state) {
    BesideCopy(state, {128, 4096, 151936}, kForward);
  });
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
