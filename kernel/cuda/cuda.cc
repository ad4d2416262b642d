// SPDX-License-Identifier: Apache-2.0

#include "kernel/cuda/cuda.h"

#include <cuda_runtime_api.h>

#include <cstdio>
#include <string>

#include "kernel/checks.h"
#include "kernel/cuda/driver.h"
#include "kernel/cuda/kept.h"
#include "kernel/cuda/launch.h"
#include "kernel/cuda/planted.h"

namespace plumbline::kernel::cuda {
namespace {

constexpr int64_t kMostIndex = (int64_t{1} << 31) - 1;

// TMA and the lists of rows count with 32 bits.
Status CheckExtent(const char* name, int64_t extent) {
  if (extent <= kMostIndex) return Status::Ok();
  return Status::Error(Code::kUnsupported, std::string(name) + " = " + std::to_string(extent) +
                                               ": the CUDA implementation goes up to 2^31 - 1");
}

Status CheckMemory(const char* name, const void* memory, size_t bytes) {
  if (bytes == 0) return Status::Ok();
  if (memory == nullptr) {
    return Status::Error(Code::kInvalidArgument,
                         std::string(name) + " = null, " + std::to_string(bytes) + " bytes are needed");
  }
  if (reinterpret_cast<uintptr_t>(memory) % kWorkspaceAlignment != 0) {
    char text[32];
    std::snprintf(text, sizeof text, " = %p is not", memory);
    return Status::Error(Code::kInvalidArgument, name + std::string(text) + " aligned to " +
                                                     std::to_string(kWorkspaceAlignment) + " bytes");
  }
  return Status::Ok();
}

Status PlanFor(const Problem& problem, const Results& results, Layout* layout) {
  Status status = CheckExtent("hidden.shape[0]", problem.rows());
  if (status.ok()) status = CheckExtent("hidden.shape[1]", problem.hidden_size());
  if (status.ok()) status = CheckExtent("weight.shape[0]", problem.vocab());
  if (!status.ok()) return status;
  const std::optional<Layout> made = MakeLayout(problem, results);
  if (!made) {
    return Status::Error(Code::kInvalidArgument,
                         "hidden.shape = [" + std::to_string(problem.rows()) + ", " +
                             std::to_string(problem.hidden_size()) +
                             "] with weight.shape[0] = " + std::to_string(problem.vocab()) +
                             " needs a workspace of more than 2^62 bytes");
  }
  *layout = *made;
  return Status::Ok();
}

Status PlanKept(const Layout& layout, const Execution& execution, KeptLayout* kept) {
  const std::optional<KeptLayout> made = MakeKeptLayout(layout, execution.kept_logits_bytes);
  if (!made) {
    return Status::Error(Code::kInvalidArgument, "execution.kept_logits_bytes = " +
                                                     std::to_string(execution.kept_logits_bytes) +
                                                     " makes a workspace of more than 2^62 bytes");
  }
  *kept = *made;
  return Status::Ok();
}

bool InPortable(Defect defect) {
  for (const DefectEntry& entry : kDefects) {
    if (entry.defect == defect) return entry.portable;
  }
  return false;
}

Status ChoosePath(CudaPath asked, Defect planted, const Path** path) {
  int device = 0, major = 0, minor = 0;
  Status status = FromCuda(cudaGetDevice(&device), "cudaGetDevice");
  const auto attribute = [&](int* value, cudaDeviceAttr what) {
    if (status.ok())
      status = FromCuda(cudaDeviceGetAttribute(value, what, device), "cudaDeviceGetAttribute");
  };
  attribute(&major, cudaDevAttrComputeCapabilityMajor);
  attribute(&minor, cudaDevAttrComputeCapabilityMinor);
  if (!status.ok()) return status;
  const int capability = 10 * major + minor;
  if (capability < 75) {
    return Status::Error(Code::kUnsupported, "device " + std::to_string(device) +
                                                 " has compute capability " + std::to_string(major) +
                                                 "." + std::to_string(minor) + "; 7.5 is the least");
  }
  if (asked == CudaPath::kSimt || capability < 80) {
    *path = &kSimtPath;
  } else if (asked == CudaPath::kBest && capability == 90 && !InPortable(planted)) {
    *path = planted == Defect::kNone ? &kHopperPath : &kPlantedHopperPath;
  } else {
    *path = planted == Defect::kNone ? &kPortablePath : &kPlantedPortablePath;
  }
  return Status::Ok();
}

// The problem as a driver with this defect would see it.
Problem Seen(const Problem& problem, Defect defect) {
  Problem seen = problem;
  if (defect == Defect::kStrides32) {
    for (ConstTensor* matrix : {&seen.hidden, &seen.weight}) {
      for (int64_t& stride : matrix->stride) stride = static_cast<int32_t>(stride);
    }
  }
  return seen;
}

// The function's gradients of all rows, as those of the problem.
Status AskUpstream(const UpstreamGradients& upstream, const Kept& kept, float* g, float* k,
                   int64_t rows, cudaStream_t stream, Problem* problem) {
  for (float* const vector : {g, k}) {
    const Status zeroed =
        FromCuda(cudaMemsetAsync(vector, 0, static_cast<size_t>(rows) * sizeof(float), stream),
                 "cudaMemsetAsync");
    if (!zeroed.ok()) return zeroed;
  }
  const auto dense = [rows](const float* data) {
    return ConstTensor{data, DType::kF32, 1, {rows, 1}, {1, 1}};
  };
  problem->grad_logprob = dense(g);
  problem->grad_entropy = dense(k);
  return upstream.function(upstream.context, {.rows = rows,
                                              .logprob = kept.logprob,
                                              .entropy = kept.entropy,
                                              .lse = kept.lse,
                                              .grad_logprob = g,
                                              .grad_entropy = k,
                                              .stream = stream});
}

}  // namespace

bool Built() { return true; }

Status GetSizes(const Problem& problem, const Results& results, const Execution&, Sizes* sizes) {
  Layout layout;
  Status status = Check(problem, results,
                        {.forward_results = true, .backward_results = true, .host_memory = false});
  if (status.ok()) status = PlanFor(problem, results, &layout);
  if (status.ok()) *sizes = {layout.workspace_bytes, layout.saved_bytes};
  return status;
}

Status ForwardPlanted(const Problem& problem, const Results& results, const Execution& execution,
                      void* workspace, void* saved, Defect defect) {
  Layout layout;
  const Path* path = nullptr;
  Status status =
      Check(problem, results,
            {.forward_results = true, .input_data = true, .result_data = true, .host_memory = false});
  if (status.ok()) status = PlanFor(problem, results, &layout);
  if (status.ok()) status = CheckMemory("workspace", workspace, layout.workspace_bytes);
  if (status.ok()) status = CheckMemory("saved", saved, layout.saved_bytes);
  if (status.ok()) status = ChoosePath(execution.path, defect, &path);
  if (!status.ok()) return status;
  const Problem seen = Seen(problem, defect);
  const Call call = {seen,
                     results,
                     layout,
                     *path,
                     static_cast<cudaStream_t>(execution.stream),
                     static_cast<std::byte*>(workspace),
                     defect};
  return RunForward(call, layout.backward ? static_cast<SavedRow*>(saved) : nullptr);
}

Status BackwardPlanted(const Problem& problem, const Results& results, const Execution& execution,
                       void* workspace, const void* saved, Defect defect) {
  Layout layout;
  const Path* path = nullptr;
  Status status = Check(problem, results,
                        {.backward_results = true,
                         .input_data = true,
                         .gradient_data = true,
                         .result_data = true,
                         .host_memory = false});
  if (status.ok()) status = PlanFor(problem, results, &layout);
  if (!results.grad_hidden && !results.grad_weight) return status;
  if (status.ok()) status = CheckMemory("workspace", workspace, layout.workspace_bytes);
  if (status.ok()) status = CheckMemory("saved", saved, layout.saved_bytes);
  if (status.ok()) status = ChoosePath(execution.path, defect, &path);
  if (!status.ok()) return status;
  const Problem seen = Seen(problem, defect);
  const Call call = {seen,
                     results,
                     layout,
                     *path,
                     static_cast<cudaStream_t>(execution.stream),
                     static_cast<std::byte*>(workspace),
                     defect};
  return RunBackward(call, static_cast<const SavedRow*>(saved));
}

Status ForwardBackwardPlanted(const Problem& problem, const Results& results,
                              const Execution& execution, const UpstreamGradients& upstream,
                              void* workspace, Defect defect) {
  Layout layout;
  KeptLayout regions;
  const Path* path = nullptr;
  Status status = Check(problem, results,
                        {.forward_results = true,
                         .backward_results = true,
                         .input_data = true,
                         .gradient_data = true,
                         .result_data = true,
                         .host_memory = false});
  if (status.ok()) status = PlanFor(problem, results, &layout);
  if (status.ok()) status = PlanKept(layout, execution, &regions);
  if (status.ok()) status = CheckMemory("workspace", workspace, regions.bytes);
  if (status.ok()) status = ChoosePath(execution.path, defect, &path);
  if (!status.ok()) return status;
  std::byte* const memory = static_cast<std::byte*>(workspace);
  const auto floats = [memory](size_t at) { return reinterpret_cast<float*>(memory + at); };
  const bool called = upstream.function != nullptr && layout.backward && layout.n > 0;
  Kept kept = {.first_column = regions.first_column,
               .ld = regions.ld,
               .logits = floats(regions.logits),
               .slot = reinterpret_cast<int32_t*>(memory + regions.slot)};
  if (called) {
    kept.logprob = floats(regions.logprob);
    kept.entropy = floats(regions.entropy);
    kept.lse = floats(regions.lse);
  }
  Problem seen = Seen(problem, defect);
  const Call call = {seen,
                     results,
                     layout,
                     *path,
                     static_cast<cudaStream_t>(execution.stream),
                     memory + regions.passes,
                     defect,
                     layout.backward ? &kept : nullptr};
  SavedRow* const saved =
      layout.backward ? reinterpret_cast<SavedRow*>(memory + regions.saved) : nullptr;
  status = RunForward(call, saved);
  if (!status.ok() || !layout.backward) return status;
  if (called)
    status = AskUpstream(upstream, kept, floats(regions.grad_logprob), floats(regions.grad_entropy),
                         layout.n, call.stream, &seen);
  return status.ok() ? RunBackward(call, saved) : status;
}

Status GetForwardBackwardSize(const Problem& problem, const Results& results,
                              const Execution& execution, size_t* workspace) {
  Layout layout;
  KeptLayout regions;
  Status status = Check(problem, results,
                        {.forward_results = true, .backward_results = true, .host_memory = false});
  if (status.ok()) status = PlanFor(problem, results, &layout);
  if (status.ok()) status = PlanKept(layout, execution, &regions);
  if (status.ok()) *workspace = regions.bytes;
  return status;
}

Status ForwardBackward(const Problem& problem, const Results& results, const Execution& execution,
                       const UpstreamGradients& upstream, void* workspace) {
  return ForwardBackwardPlanted(problem, results, execution, upstream, workspace, Defect::kNone);
}

Status Forward(const Problem& problem, const Results& results, const Execution& execution,
               void* workspace, void* saved) {
  return ForwardPlanted(problem, results, execution, workspace, saved, Defect::kNone);
}

Status Backward(const Problem& problem, const Results& results, const Execution& execution,
                void* workspace, const void* saved) {
  return BackwardPlanted(problem, results, execution, workspace, saved, Defect::kNone);
}

}  // namespace plumbline::kernel::cuda
