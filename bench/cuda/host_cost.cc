// SPDX-License-Identifier: Apache-2.0

#include "bench/cuda/host_cost.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "bench/cuda/memory.h"
#include "bench/timing/median.h"

namespace plumbline::bench {

double HostMicroseconds(const std::function<void()>& call, int calls, cudaStream_t stream) {
  std::vector<double> times;
  for (int i = 0; i < calls; ++i) {
    Check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    const auto begin = std::chrono::steady_clock::now();
    call();
    const std::chrono::duration<double, std::micro> taken = std::chrono::steady_clock::now() - begin;
    times.push_back(taken.count());
  }
  Check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  return Median(std::move(times));
}

int64_t Launches(const std::function<void()>& call, cudaStream_t stream) {
  cudaGraph_t captured = nullptr;
  Check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
  try {
    call();
  } catch (...) {
    (void)cudaStreamEndCapture(stream, &captured);  // the stream is of use to the next benchmark
    (void)cudaGraphDestroy(captured);
    throw;
  }
  Check(cudaStreamEndCapture(stream, &captured), "cudaStreamEndCapture");
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

}  // namespace plumbline::bench
