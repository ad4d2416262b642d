// SPDX-License-Identifier: Apache-2.0

#include "fuzz/builtin/host.h"

#include "fuzz/base/version.h"
#include "fuzz/builtin/adapter.h"
#include "kernel/linear_cross_entropy.h"

namespace plumbline::fuzz {
namespace {

using kernel::Problem, kernel::Results, kernel::Status;

struct HostOperator {
  static constexpr DLDeviceType kDevice = kDLCPU;
  static Status Run(const Problem& problem, const Results& results, void*) {
    return kernel::Run(problem, results);
  }
  static Status GetSizes(const Problem& problem, const Results& results, kernel::Sizes* sizes) {
    return kernel::GetSizes(problem, results, {}, sizes);
  }
  static Status Forward(const Problem& problem, const Results& results, void* workspace, void* saved,
                        void*) {
    return kernel::Forward(problem, results, {}, workspace, saved);
  }
  static Status Backward(const Problem& problem, const Results& results, void* workspace,
                         const void* saved, void*) {
    return kernel::Backward(problem, results, {}, workspace, saved);
  }
  static std::string Describe() { return HostDescription("host"); }
};

}  // namespace

const plumbline_target_v1* HostTarget() { return Entry<HostOperator>::Table(); }

Json HostSoftmaxContract() {
  // Every number is a promise of kernel/OPERATION.md or, if that says nothing, of the headers of
  // kernel/host. They are repeated here rather than included: a target that changes must not change its
  // claim in passing.
  Json contract;
  contract["scale"] = "after";
  contract["scale_roundings"] = 1;
  contract["scale_exact_powers"] = true;
  contract["shift"] = "exact_max";
  contract["exp_error"] = 2;
  contract["exp_gradual"] = true;
  contract["argument_roundings"] = 1;
  contract["log_error_absolute"] = 0;
  contract["log_error_relative"] = 1.1;
  contract["division_error"] = 1;
  contract["tile"] = 64;
  contract["tile_depth"] = 7;
  contract["splits"] = 8;
  contract["label_logit_separate"] = false;
  contract["recompute_same_bits"] = true;
  contract["probability"] = "ratio";
  return contract;
}

std::string HostDescription(std::string_view name) {
  Json contract = HostSoftmaxContract();
  contract["accumulate"] = "fp32";
  contract["d_logits"] = "fp32";
  return DescribeTarget(name, "cpu", contract);
}

std::string DescribeTarget(std::string_view name, std::string_view device, const Json& contract) {
  Json description;
  description["name"] = name;
  description["version"] = kVersion;
  description["device"] = device;
  description["contract"] = contract;
  // The operator is held to kernel/OPERATION.md to the letter.
  description["contract"]["conventions"] = "definition";
  description["contract"]["signs"] = true;
  return description.Dump();
}

}  // namespace plumbline::fuzz
