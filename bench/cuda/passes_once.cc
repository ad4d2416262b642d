// SPDX-License-Identifier: Apache-2.0
//
// usage: passes_once NxHxV PASS SIDE
//        passes_once NxHxV first_calls ours
//
// Runs one pass (forward, backward, gradients_in_forward) of one side (ours; cublas: the products of
// the same work) once, on the data of cuda_bench, between cudaProfilerStart and cudaProfilerStop, after
// one call that is not profiled. `ncu --profile-from-start off` measures what it launches.
//
// first_calls prints, as JSON, the ms that a step takes on a CUDA context that is there, from the call
// until its end on the device: first_ms of the process's first step, which loads code and asks the
// driver, second_ms of the next.
//
// Exit status: 0; 1 CUDA, cuBLAS or the operator refused; 2 usage; 4 no CUDA device.

#include <cuda_profiler_api.h>
#include <cuda_runtime_api.h>

#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <string>

#include "bench/cuda/cublas_baseline.h"
#include "bench/cuda/memory.h"
#include "bench/cuda/operator_run.h"

namespace plumbline::bench {
namespace {

template <class Side>
std::function<void()> PassOf(Side* side, const std::string& pass) {
  if (pass == "forward") return [side] { side->Forward(); };
  if (pass == "backward") return [side] { side->Backward(); };
  if (pass == "gradients_in_forward") return [side] { side->ForwardBackward(); };
  return {};
}

// The ms of one step, from the call until its end on the device.
double StepMilliseconds(OperatorRun* run, cudaStream_t stream) {
  const auto begun = std::chrono::steady_clock::now();
  run->Forward();
  run->Backward();
  Check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begun).count();
}

int FirstCalls(const DeviceShape& shape) {
  cudaStream_t stream = nullptr;
  Check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  OperatorRun run(shape, stream);  // its kernels fill the operands
  Check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  const double first = StepMilliseconds(&run, stream), second = StepMilliseconds(&run, stream);
  std::printf("{\"first_ms\": %.3f, \"second_ms\": %.3f}\n", first, second);
  return 0;
}

int Run(const DeviceShape& shape, const std::string& pass, const std::string& side) {
  cudaStream_t stream = nullptr;
  Check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  OperatorRun ours(shape, stream);
  ours.Forward();  // backward alone reads what it saves
  CublasBaseline theirs(ours, stream);
  const std::function<void()> call = side == "ours" ? PassOf(&ours, pass) : PassOf(&theirs, pass);
  call();
  Check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  Check(cudaProfilerStart(), "cudaProfilerStart");
  call();
  Check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  Check(cudaProfilerStop(), "cudaProfilerStop");
  return 0;
}

}  // namespace
}  // namespace plumbline::bench

int main(int argc, char** argv) {
  plumbline::bench::DeviceShape shape = {};
  int read = 0;
  const bool given = argc == 4 && std::sscanf(argv[1], "%" SCNd64 "x%" SCNd64 "x%" SCNd64 "%n",
                                              &shape.n, &shape.h, &shape.v, &read) == 3;
  const std::string pass = given ? argv[2] : "", side = given ? argv[3] : "";
  if (!given || argv[1][read] != '\0' || shape.n < 1 || shape.h < 1 || shape.v < 1 ||
      (pass != "forward" && pass != "backward" && pass != "gradients_in_forward" &&
       pass != "first_calls") ||
      (side != "ours" && (side != "cublas" || pass == "first_calls"))) {
    std::fprintf(stderr,
                 "usage: passes_once NxHxV forward|backward|gradients_in_forward ours|cublas\n"
                 "       passes_once NxHxV first_calls ours\n");
    return 2;
  }
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::fprintf(stderr, "passes_once: no CUDA device\n");
    return 4;
  }
  try {
    if (pass == "first_calls") return plumbline::bench::FirstCalls(shape);
    return plumbline::bench::Run(shape, pass, side);
  } catch (const std::exception& fault) {
    std::fprintf(stderr, "passes_once: %s\n", fault.what());
    return 1;
  }
}
