// SPDX-License-Identifier: Apache-2.0

#include "fuzz/builtin/cuda.h"

#include <stdexcept>

#include "fuzz/builtin/adapter.h"
#include "fuzz/builtin/cuda_way.h"
#include "fuzz/builtin/host.h"
#include "fuzz/target/interface/cuda_device.h"
#include "kernel/stretches.h"

namespace plumbline::fuzz {
namespace {

using kernel::CudaPath, kernel::Problem, kernel::Results, kernel::Status;

// The contract that all paths have in common. These promises of kernel/OPERATION.md and of the headers
// of kernel/cuda are repeated here rather than included: a target that changes must not change its
// claim in passing.
Json CudaSoftmaxContract() {
  Json contract;
  contract["input_planes"] = 3;
  contract["scale"] = "after";
  contract["scale_roundings"] = 1;
  contract["scale_exact_powers"] = true;
  contract["shift"] = "exact_max";
  contract["exp_error"] = 2.5;
  contract["exp_gradual"] = false;
  contract["argument_roundings"] = 2.25;
  contract["log_error_absolute"] = 0;
  contract["log_error_relative"] = 2;
  contract["division_error"] = 2.1;
  // The narrowest tile and the deepest of any path: 192 columns are summed as four lanes' chains of 24.
  contract["tile"] = 128;
  contract["tile_depth"] = 27;
  contract["splits"] = 32;
  contract["rescales"] = 1;
  contract["label_logit_separate"] = false;
  contract["recompute_same_bits"] = true;
  contract["probability"] = "ratio";
  return contract;
}

template <CudaPath kPath>
struct CudaOperator {
  static constexpr DLDeviceType kDevice = kDLCUDA;
  static constexpr std::string_view kName = kPath == CudaPath::kSimt       ? "cuda-simt"
                                            : kPath == CudaPath::kPortable ? "cuda-portable"
                                                                           : "cuda";
  static Status Run(const Problem& problem, const Results& results, void* stream) {
    return RunInScratch<CudaOperator>(problem, results, stream);
  }
  static Status GetSizes(const Problem& problem, const Results& results, kernel::Sizes* sizes) {
    return fuzz::GetSizes(problem, results, SavingSome(problem, nullptr, kPath), sizes);
  }
  static Status Forward(const Problem& problem, const Results& results, void* workspace, void* saved,
                        void* stream) {
    return fuzz::Forward(problem, results, SavingSome(problem, stream, kPath), workspace, saved);
  }
  static Status Backward(const Problem& problem, const Results& results, void* workspace,
                         const void* saved, void* stream) {
    return fuzz::Backward(problem, results, SavingSome(problem, stream, kPath), workspace, saved);
  }
  static std::string Describe() { return CudaDescription(kName, kPath); }
};

}  // namespace

const plumbline_target_v1* CudaTarget() { return Entry<CudaOperator<CudaPath::kBest>>::Table(); }
const plumbline_target_v1* CudaPortableTarget() {
  return Entry<CudaOperator<CudaPath::kPortable>>::Table();
}
const plumbline_target_v1* CudaSimtTarget() { return Entry<CudaOperator<CudaPath::kSimt>>::Table(); }

std::string CudaDescription(std::string_view name, CudaPath path, int capability) {
  Json contract = CudaSoftmaxContract();
  if (path == CudaPath::kSimt || capability < 80) {  // no tensor cores
    contract["accumulate"] = "fp32";
  } else if (capability < 90) {
    contract["accumulate"] = "tensor_core";
    contract["block"] = 8;
    contract["extra_bits"] = 1;
  } else if (capability == 90) {
    contract["accumulate"] = "tensor_core";
    contract["block"] = 16;
    contract["extra_bits"] = 2;
  } else {
    contract["accumulate"] = "unknown";
  }
  contract["grad_hidden_stretch"] = kernel::kStretchUnit;
  contract["grad_hidden_stretches"] = kernel::kMostStretches;
  contract["kept_argument"] = 0x1p-11;
  return DescribeTarget(name, "cuda", contract);
}

std::string CudaDescription(std::string_view name, CudaPath path) {
  const int capability = CudaCapability();
  return CudaDescription(name, path, capability == 0 ? 90 : capability);
}

CudaScratch KeepCudaScratch(const kernel::Sizes& sizes) {
  std::string error;
  Device* const device = CudaDevice(&error);
  if (device == nullptr) throw std::runtime_error(error);
  constexpr size_t kLine = 256;
  const size_t workspace = (sizes.workspace + kLine - 1) / kLine * kLine;
  std::byte* const memory = device->Keep(Device::Use::kScratch, workspace + sizes.saved);
  return {memory, memory + workspace};
}

}  // namespace plumbline::fuzz
