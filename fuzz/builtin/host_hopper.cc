// SPDX-License-Identifier: Apache-2.0

#include "fuzz/builtin/host_hopper.h"

#include "fuzz/builtin/adapter.h"
#include "fuzz/builtin/host.h"
#include "kernel/host/operator.h"
#include "kernel/stretches.h"

namespace plumbline::fuzz {
namespace {

using kernel::Problem, kernel::Results, kernel::Status;

struct OnTensorCores : kernel::host::NoHooks {
  using Dots = kernel::host::TensorCores;
};

struct HostHopperOperator {
  static constexpr DLDeviceType kDevice = kDLCPU;
  static Status Run(const Problem& problem, const Results& results, void*) {
    return kernel::host::RunImpl(problem, results, /*threads=*/0, OnTensorCores());
  }
  static Status GetSizes(const Problem& problem, const Results& results, kernel::Sizes* sizes) {
    return kernel::host::SizesImpl(problem, results, /*threads=*/0, sizes, OnTensorCores());
  }
  static Status Forward(const Problem& problem, const Results& results, void* workspace, void* saved,
                        void*) {
    return kernel::host::ForwardImpl(problem, results, /*threads=*/0, workspace, saved,
                                     OnTensorCores());
  }
  static Status Backward(const Problem& problem, const Results& results, void* workspace,
                         const void* saved, void*) {
    return kernel::host::BackwardImpl(problem, results, /*threads=*/0, workspace, saved,
                                      OnTensorCores());
  }
  static std::string Describe() { return HostHopperDescription("host-hopper"); }
};

}  // namespace

const plumbline_target_v1* HostHopperTarget() { return Entry<HostHopperOperator>::Table(); }

std::string HostHopperDescription(std::string_view name) {
  Json contract = HostSoftmaxContract();
  contract["accumulate"] = "tensor_core";
  contract["block"] = 16;
  contract["extra_bits"] = 2;
  contract["input_planes"] = 3;
  contract["grad_hidden_stretch"] = kernel::kStretchUnit;
  contract["grad_hidden_stretches"] = kernel::kMostStretches;
  contract["kept_argument"] = 0x1p-11;
  return DescribeTarget(name, "cpu", contract);
}

}  // namespace plumbline::fuzz
