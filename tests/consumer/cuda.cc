// SPDX-License-Identifier: Apache-2.0
//
// Uses the operator on a CUDA device: device memory of the caller's own, workspace and saved state of
// the sizes asked for, everything on one stream. Where there is no device it says so and ends well;
// that it links is a test of the package.

#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstring>

#include "kernel/linear_cross_entropy.h"
#include "tiny_problem.h"

namespace {

using plumbline::kernel::Status;

bool Ok(cudaError_t error, const char* call) {
  if (error != cudaSuccess) std::printf("%s: %s\n", call, cudaGetErrorString(error));
  return error == cudaSuccess;
}

// A copy of host bytes on the device; freed with the process.
void* OnDevice(const void* bytes, size_t size) {
  void* memory = nullptr;
  if (!Ok(cudaMalloc(&memory, size + 1), "cudaMalloc")) return nullptr;
  return Ok(cudaMemcpy(memory, bytes, size, cudaMemcpyHostToDevice), "cudaMemcpy") ? memory : nullptr;
}

}  // namespace

int main() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::printf("no CUDA device here: built and linked, not run\n");
    return 0;
  }
  TinyProblem tiny;
  if (tiny.IsRight()) return 1;  // the check can tell
  plumbline::kernel::Problem problem = tiny.problem();
  plumbline::kernel::Results results = tiny.results();
  problem.hidden.data = OnDevice(tiny.hidden, sizeof tiny.hidden);
  problem.weight.data = OnDevice(tiny.weight, sizeof tiny.weight);
  problem.labels.data = OnDevice(tiny.labels, sizeof tiny.labels);
  results.logprob->data = OnDevice(tiny.logprob, sizeof tiny.logprob);
  results.entropy->data = OnDevice(tiny.entropy, sizeof tiny.entropy);

  cudaStream_t stream = nullptr;
  if (!Ok(cudaStreamCreate(&stream), "cudaStreamCreate")) return 1;
  const plumbline::kernel::Execution execution{.device = plumbline::kernel::Device::kCuda,
                                               .stream = stream};
  plumbline::kernel::Sizes sizes;
  Status status = plumbline::kernel::GetSizes(problem, results, execution, &sizes);
  void *workspace = nullptr, *saved = nullptr;
  if (!Ok(cudaMalloc(&workspace, sizes.workspace + 1), "cudaMalloc")) return 1;
  if (!Ok(cudaMalloc(&saved, sizes.saved + 1), "cudaMalloc")) return 1;
  if (status.ok()) {
    status = plumbline::kernel::Forward(problem, results, execution, workspace, saved);
  }
  if (!status.ok()) {
    std::printf("%s\n", status.message.c_str());
    return 1;
  }
  // The call has only enqueued its work: the stream is the caller's to wait for.
  if (!Ok(cudaStreamSynchronize(stream), "cudaStreamSynchronize")) return 1;
  cudaMemcpy(tiny.logprob, results.logprob->data, sizeof tiny.logprob, cudaMemcpyDeviceToHost);
  cudaMemcpy(tiny.entropy, results.entropy->data, sizeof tiny.entropy, cudaMemcpyDeviceToHost);
  std::printf("logprob %.9g entropy %.9g\n", static_cast<double>(tiny.logprob[0]),
              static_cast<double>(tiny.entropy[0]));
  return tiny.IsRight() ? 0 : 1;
}
