// SPDX-License-Identifier: Apache-2.0

#include <cmath>
#include <utility>

#include "fuzz/problem/values.h"
#include "fuzz/triage/shrink/passes.h"

namespace plumbline::fuzz {
namespace {

using kernel::DType;
using kernel::Reduction;

// A tensor that was read with stride 0 keeps the value that every row read.
void MaterialiseBroadcast(OwnedProblem& p) { p = SelectRows(p, Iota(p.rows())); }

void DefaultLayout(OwnedProblem& p) {
  MaterialiseBroadcast(p);
  p.layout = {};
}

// Makes the reduction none, and asks each row for the same gradient of its logprob.
void NoReduction(OwnedProblem& p) {
  if (p.reduction == Reduction::kNone) return;
  if (p.grad_logprob) {
    int64_t counted = 0;
    for (int64_t i = 0; i < p.rows(); ++i) counted += p.labels.GetInt(i) != p.ignore_index ? 1 : 0;
    const float divisor =
        p.reduction == Reduction::kMean && counted > 0 ? static_cast<float>(counted) : 1;
    const float g = -p.grad_logprob->GetFloat(0) / divisor;
    p.grad_logprob = HostTensor::Zeros(DType::kF32, {p.rows()});
    for (int64_t i = 0; i < p.rows(); ++i) p.grad_logprob->SetFloat(i, g);
    p.layout.grad_stride = 1;
  }
  p.reduction = Reduction::kNone;
}

void ScalarTemperature(OwnedProblem& p) {
  if (!p.temperature || p.temperature->size() == 0) return p.temperature.reset();
  const float first = p.temperature->GetFloat(0);
  p.temperature = HostTensor::Zeros(DType::kF32, {});
  p.temperature->SetFloat(0, first);
}

void WideLabels(OwnedProblem& p) { p.labels = LabelsAs(DType::kI64, p.labels); }

void DefaultIgnoreIndex(OwnedProblem& p) {
  constexpr int64_t kDefault = -100;
  for (int64_t i = 0; i < p.rows(); ++i) {
    if (p.labels.GetInt(i) == p.ignore_index) p.labels.SetInt(i, kDefault);
  }
  p.ignore_index = kDefault;
}

constexpr void (*kSteps[])(OwnedProblem&) = {
    DefaultLayout,
    NoReduction,
    [](OwnedProblem& p) { p.temperature.reset(); },
    ScalarTemperature,
    [](OwnedProblem& p) { p.grad_entropy.reset(); },
    [](OwnedProblem& p) { p.grad_logprob.reset(); },
    [](OwnedProblem& p) { p.wanted = {false, false, false, false, false}; },
    [](OwnedProblem& p) { p.wanted.entropy = false; },
    [](OwnedProblem& p) { p.wanted.lse = false; },
    [](OwnedProblem& p) { p.wanted.grad_hidden = false; },
    [](OwnedProblem& p) { p.wanted.grad_weight = false; },
    [](OwnedProblem& p) { p.wanted.fp32_grads = false; },
    WideLabels,
    DefaultIgnoreIndex,
    [](OwnedProblem& p) { p.layout.weight_hidden_major = false; },
    [](OwnedProblem& p) { p.layout.hidden_padding = 0; },
    [](OwnedProblem& p) { p.layout.weight_padding = 0; },
    [](OwnedProblem& p) { p.layout.label_offset = 0; },
    [](OwnedProblem& p) {
      MaterialiseBroadcast(p);
      p.layout.grad_stride = p.layout.label_stride = 1;
      p.layout.hidden_broadcast = false;
    },
    [](OwnedProblem& p) { p.layout.temperature_stride = p.layout.output_stride = 1; },
    [](OwnedProblem& p) { p.layout.gradient_step = 1; },
    [](OwnedProblem& p) { p.layout.single_stride = 1; },
    [](OwnedProblem& p) { p.layout.reversed = false; },
    [](OwnedProblem& p) { p.layout.offset = 0; },
    [](OwnedProblem& p) { p.layout.hidden_padding = 1; },
    [](OwnedProblem& p) { p.layout.weight_padding = 1; },
    [](OwnedProblem& p) { p.layout.label_offset = 1; },
    [](OwnedProblem& p) {
      if (p.reduction == Reduction::kMean) p.reduction = Reduction::kSum;
    },
};

// Resets everything that a plain forward and backward pass does not need.
void Plain(OwnedProblem& p) {
  DefaultLayout(p);
  NoReduction(p);
  p.temperature.reset();
  WideLabels(p);
  DefaultIgnoreIndex(p);
}

}  // namespace

std::optional<OwnedProblem> Convert(const OwnedProblem& problem, DType dtype, bool exact) {
  OwnedProblem converted = problem;
  for (HostTensor* tensor : {&converted.hidden, &converted.weight}) {
    HostTensor to = HostTensor::Zeros(dtype, tensor->shape);
    for (int64_t i = 0; i < to.size(); ++i) {
      const float value = tensor->GetFloat(i);
      to.SetFloat(i, value);
      const float became = to.GetFloat(i);
      if (std::isfinite(value) && (std::isinf(became) || (exact && became != value)))
        return std::nullopt;
    }
    *tensor = std::move(to);
  }
  return converted;
}

bool SimplifyOptions(ShrinkSession& session) {
  bool changed = false;
  OwnedProblem plain = session.best();
  Plain(plain);
  if (session.Try(std::move(plain))) changed = true;
  for (const auto step : kSteps) {
    OwnedProblem candidate = session.best();
    step(candidate);
    if (session.Try(std::move(candidate))) changed = true;
  }
  for (const bool exact : {true, false}) {
    for (const DType dtype : {DType::kBf16, DType::kF16}) {
      auto candidate = Convert(session.best(), dtype, exact);
      if (candidate && session.Try(std::move(*candidate))) changed = true;
    }
  }
  return changed;
}

}  // namespace plumbline::fuzz
