// SPDX-License-Identifier: Apache-2.0

#include "fuzz/check/doubles.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string_view>

#include "fuzz/base/text.h"

namespace plumbline::fuzz {
namespace {

constexpr std::string_view kOutputsRounded[] = {"logprob", "entropy",         "lse",
                                                "loss",    "rollout_logprob", "old_logprob"};
constexpr std::string_view kInputsRounded[] = {"temperature", "grad_logprob", "grad_entropy"};
constexpr std::string_view kAsTheKernelHasIt[] = {"hidden", "weight", "labels", "grad_hidden",
                                                  "grad_weight"};

bool IsAmong(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

// True if rounding makes 0 or an infinity of a number that is neither.
bool Lost(double value, float rounded) {
  return std::isfinite(value) && value != 0 && (!std::isfinite(rounded) || rounded == 0);
}

}  // namespace

std::string RoundDoubles(SafeTensorsView* content, Dump* dump) {
  for (const auto& [name, wide] : content->doubles) {
    if (IsAmong(kAsTheKernelHasIt, name)) {
      return name + ": dtype F64, must be " +
             (name == "labels" ? "int32 or int64" : "bf16, fp16 or fp32, as the kernel has it");
    }
    const bool input = IsAmong(kInputsRounded, name);
    if (!input && !IsAmong(kOutputsRounded, name)) {
      dump->unknown.push_back(name);
      continue;
    }
    HostTensor& narrow = dump->storage.emplace_back(HostTensor::Zeros(kernel::DType::kF32, wide.shape));
    for (int64_t i = 0; i < wide.size(); ++i) {
      const double value = wide.at(i);
      const auto rounded = static_cast<float>(value);
      if (input && Lost(value, rounded)) {
        return name + ": " + Text("%.9g at %lld is beyond fp32", value, static_cast<long long>(i));
      }
      narrow.SetFloat(i, rounded);
    }
    content->tensors.emplace(name, narrow.View());
    dump->rounded.push_back(name);
  }
  content->doubles.clear();
  return {};
}

void ReportRounded(const Dump& dump, DumpReport* report) {
  if (dump.rounded.empty()) return;
  report->notes.push_back("rounded from fp64 to fp32: " + Joined(dump.rounded));
  report->more_json["rounded"] = Json::Array(dump.rounded.begin(), dump.rounded.end());
}

}  // namespace plumbline::fuzz
