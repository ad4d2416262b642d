// SPDX-License-Identifier: Apache-2.0
//
// Relations of the gradients: they are linear in the upstream gradients, some of their sums vanish,
// they are the slope of the forward results, and one saved state serves any number of backward passes.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "fuzz/base/mix.h"
#include "fuzz/target/interface/views.h"
#include "tests/fuzz/properties/relation.h"

namespace plumbline::fuzz::testing {
namespace {

using kernel::DType, kernel::Problem, kernel::Results, kernel::Reduction;

constexpr std::string_view kUpstream[] = {"upstream-gradients", "exact-dot", "confident-label"};
constexpr std::string_view kSlopes[] = {"exact-dot", "upstream-gradients", "strides"};

size_t At(int64_t i) { return static_cast<size_t>(i); }

bool HasUpstream(const OwnedProblem& p) { return p.grad_logprob || p.grad_entropy; }

// Fails for a gradient that is not linear, a constant added to it.
Checked NegatedUpstreamNegates(const OwnedProblem& p, const Subject& s) {
  OwnedProblem negated = p;
  Negate(&negated.grad_logprob);
  Negate(&negated.grad_entropy);
  Comparison comparison("with the upstream gradients negated");
  const Measured a(p, s), b(negated, s);
  if (!a.ok() || !b.ok() || !HasUpstream(p)) return {};
  for (const Output o : kGradients) {
    for (size_t e = 0; e < a.size(o); ++e) comparison.Scaled(o, a, e, b, e, 0, /*negated=*/true);
  }
  return std::move(comparison).Result();
}

void AConstantInGradWeight(const Problem&, const Results& r) {
  if (float* grad = Floats(r.grad_weight)) grad[0] += 1;
}

// Fails for one of the two upstream gradients dropped, or one scaled by the other.
Checked TheTwoUpstreamGradientsAdd(const OwnedProblem& given, const Subject& s) {
  OwnedProblem p = Plain(given);
  if (!p.grad_logprob) return {};
  if (!p.grad_entropy) {
    p.grad_entropy = HostTensor::Zeros(DType::kF32, {p.rows()});
    for (int64_t i = 0; i < p.rows(); ++i) {
      p.grad_entropy->SetFloat(i, i % 2 == 0 ? 1.5F : -0.25F);
    }
  }
  OwnedProblem first = p, second = p;
  first.grad_entropy.reset();
  second.grad_logprob.reset();
  Comparison comparison("from grad_logprob alone and grad_entropy alone, added up");
  const Measured a(first, s), b(second, s), both(p, s);
  if (!a.ok() || !b.ok() || !both.ok()) return {};
  for (const Output o : kGradients) {
    for (size_t e = 0; e < both.size(o); ++e) {
      const auto one = a.term(o, e), other = b.term(o, e);
      if (!other.judged) continue;
      comparison.Near(o, e, {one.judged, one.value, one.bound + other.bound}, other.value,
                      both.term(o, e));
    }
  }
  return std::move(comparison).Result();
}

// Fails for forward results that depend on whether gradients are wanted; a gradient that is computed
// only beside the other one.
Checked WhatElseIsAskedForChangesNothing(const OwnedProblem& p, const Subject& s) {
  Comparison comparison("with fewer outputs asked for");
  const Measured all(p, s);
  if (!all.ok()) return {};
  for (const int left_out : {0, 1, 2}) {
    OwnedProblem fewer = p;
    if (left_out != 1) fewer.wanted.grad_hidden = false;
    if (left_out != 2) fewer.wanted.grad_weight = false;
    fewer.wanted.entropy = left_out == 1;
    fewer.wanted.lse = left_out == 0;
    const Measured some(fewer, s);
    if (!some.ok()) return {};
    for (const Output o : kAll) {
      if (some.size(o) > 0) comparison.AllSame(o, all, some);
    }
  }
  return std::move(comparison).Result();
}

void OtherBitsWithoutGradients(const Problem&, const Results& r) {
  if (!r.grad_hidden) Nudge(r.logprob, 0), Nudge(r.lse, 0);
}

// Fails for p rounded before 1 is subtracted, an entropy gradient without its H, columns left out.
// Every row of d_logits adds up to 0, and so does every column of grad_weight.
Checked GradWeightAddsUpToNothing(const OwnedProblem& given, const Subject& s) {
  const OwnedProblem p = Plain(given);
  Comparison comparison("the sum of a column of grad_weight");
  const Measured a(p, s);
  if (!a.ok() || !HasUpstream(p) || a.size(Output::kGradWeight) == 0) return {};
  const int64_t h = p.hidden_size();
  for (int64_t d = 0; d < h; ++d) {
    double sum = 0, allowed = 0;
    bool judged = true;
    for (int64_t v = 0; v < p.vocab(); ++v) {
      const auto term = a.term(Output::kGradWeight, At(v * h + d));
      judged = judged && term.judged;
      sum += term.value;
      allowed += term.bound + 0x1p-50 * std::fabs(term.value);
    }
    if (judged) comparison.Near(Output::kGradWeight, At(d), sum, 0, allowed);
  }
  return std::move(comparison).Result();
}

// Compares the target's gradients with the oracle's values along a short step of one factor. Over the
// step, with u the change of a row's logits and R its range, |logprob''| <= R^2 / 4 (half the
// variance's largest) and |entropy''| <= R^2 (1 + r), r the range of the logits on the way. Fails for a
// wrong sign, scale or layout of a gradient; 1/T forgotten.
Checked GradientsAreSlopes(const OwnedProblem& given, const Subject& s, bool of_weight) {
  const OwnedProblem p = Plain(given);
  if (p.reduction != Reduction::kNone || !p.grad_logprob) return {};
  if (!AllFinite(p.hidden) || !AllFinite(p.weight)) return {};
  OwnedProblem stepped = p;
  HostTensor& moved = of_weight ? stepped.weight : stepped.hidden;
  const HostTensor& from = of_weight ? p.weight : p.hidden;
  // One bit of the significand: a step of 2^-8 or so of each element that is moved.
  const uint64_t bit = p.hidden.dtype == DType::kF32 ? 1U << 15 : p.hidden.dtype == DType::kF16 ? 4 : 1;
  for (int64_t i = 0; i < moved.size(); ++i) {
    if (moved.GetFloat(i) != 0 && Mix(7, static_cast<uint64_t>(i)) % 2 == 0) {
      moved.SetBits(i, moved.GetBits(i) ^ bit);
    }
  }
  Comparison comparison("the gradient along a step, and the change of the objective");
  const Measured a(p, s), b(stepped, s);
  const Output o = of_weight ? Output::kGradWeight : Output::kGradHidden;
  if (!a.ok() || !b.ok() || a.size(o) == 0) return {};
  double slope = 0, allowed = 0;
  for (int64_t e = 0; e < from.size(); ++e) {
    const double step = double{moved.GetFloat(e)} - from.GetFloat(e);
    if (step == 0) continue;
    const auto term = a.term(o, At(e));
    if (!term.judged) return {};
    slope += term.value * step;
    allowed += (term.bound + 0x1p-50 * std::fabs(term.value)) * std::fabs(step);
  }
  double change = 0;
  for (int64_t i = 0; i < p.rows(); ++i) {
    if (Ignored(p, i)) continue;
    if (!Counts(p, i)) return {};
    const Logits x = LogitsOf(p, i), y = LogitsOf(stepped, i);
    double low = 0, high = 0, error = 0;
    for (size_t c = 0; c < x.x.size(); ++c) {
      const double u = y.x[c] - x.x[c];
      low = c == 0 ? u : std::min(low, u);
      high = c == 0 ? u : std::max(high, u);
      error = std::max({error, x.Error(c, p.hidden_size()), y.Error(c, p.hidden_size())});
    }
    const auto [least, most] = std::minmax_element(x.x.begin(), x.x.end());
    const double range = high - low + 4 * error, spread = *most - *least + range;
    const double g = p.grad_logprob->GetFloat(i), k = p.grad_entropy ? p.grad_entropy->GetFloat(i) : 0;
    const auto objective = [&](const Logits& logits, const OwnedProblem& of) {
      const double m = *std::max_element(logits.x.begin(), logits.x.end());
      double sum = 0, weighted = 0;
      for (const double z : logits.x) {
        sum += std::exp(z - m);
        weighted += std::exp(z - m) * (m - z);
      }
      const double log = std::log(sum);
      return g * (logits.x[At(of.labels.GetInt(i))] - m - log) + k * (log + weighted / sum);
    };
    change += objective(y, stepped) - objective(x, p);
    allowed += std::fabs(g) * range * range / 8 + std::fabs(k) * range * range * (1 + spread) / 2;
    // The logits' errors move logprob by twice themselves, entropy by (1 + spread) of it; the sums have
    // V terms of a relative error of a few 2^-53.
    const double own = 4 * error + 0x1p-50 * static_cast<double>(p.vocab() + 8) * (1 + spread);
    allowed += 2 * (std::fabs(g) + std::fabs(k) * (1 + spread)) * own;
  }
  comparison.Near(o, 0, slope, change, allowed);
  return std::move(comparison).Result();
}
Checked GradHiddenIsASlope(const OwnedProblem& p, const Subject& s) {
  return GradientsAreSlopes(p, s, false);
}
Checked GradWeightIsASlope(const OwnedProblem& p, const Subject& s) {
  return GradientsAreSlopes(p, s, true);
}

void GradientsAFiftiethTooLarge(const Problem&, const Results& r) {
  for (const auto* t : {&r.grad_hidden, &r.grad_weight}) {
    float* grad = Floats(*t);
    if (grad == nullptr) continue;
    for (int64_t i = 0; i < (*t)->shape[0]; ++i) {
      for (int64_t d = 0; d < (*t)->shape[1]; ++d) {
        grad[i * (*t)->stride[0] + d * (*t)->stride[1]] *= 1.02F;
      }
    }
  }
}

// Fails for a saved state that backward changes (the saved logits overwritten in place), and a backward
// pass that adds to what is there.
Checked AStateServesTwoBackwardPasses(const OwnedProblem& p, const Subject& s) {
  const plumbline_target_v1& table = s.target->table();
  if (table.sizes == nullptr || WhySkipped(s.target->description(), p)) return {};
  Comparison comparison("after a second backward pass over the same state");
  Placement placement(p);
  placement.Poison(0);
  AbiCall call(placement.problem(), placement.results());
  size_t workspace_size = 0, saved_size = 0;
  if (table.sizes(call.problem(), &workspace_size, &saved_size) != PLUMBLINE_OK) return {};
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::vector<Line> workspace(workspace_size / sizeof(Line) + 1), saved(saved_size / sizeof(Line) + 1);
  char error[256] = "";
  const auto backward = [&] {
    return table.backward(call.problem(), call.results(), workspace.data(), saved.data(), nullptr,
                          error, sizeof error) == PLUMBLINE_OK;
  };
  if (table.forward(call.problem(), call.results(), workspace.data(), saved.data(), nullptr, error,
                    sizeof error) != PLUMBLINE_OK ||
      !backward()) {
    return {};
  }
  if (s.tamper) s.tamper(placement.problem(), placement.results());
  const OutputBits once = CopyBits(placement.results());
  const Measured run(p, *s.target);
  if (!backward() || !run.ok()) return {};
  const OutputBits twice = CopyBits(placement.results());
  for (const Output o : kAll) {
    const auto& one = once.outputs[static_cast<size_t>(o)];
    const auto& other = twice.outputs[static_cast<size_t>(o)];
    for (size_t e = 0; e < one.size(); ++e) {
      comparison.Hold(o, e, one[e] == other[e], "other bits than after the first");
      comparison.Hold(o, e, other[e] == run.bits(o)[e], "other bits than in one call");
    }
  }
  return std::move(comparison).Result();
}

constexpr Relation kRelations[] = {
    {"NegatedUpstreamNegates", kUpstream, NegatedUpstreamNegates, "", AConstantInGradWeight},
    {"TheTwoUpstreamGradientsAdd", kUpstream, TheTwoUpstreamGradientsAdd, "", AConstantInGradWeight},
    {"WhatElseIsAskedForChangesNothing",
     {},
     WhatElseIsAskedForChangesNothing,
     "",
     OtherBitsWithoutGradients},
    {"GradWeightAddsUpToNothing", kUpstream, GradWeightAddsUpToNothing, "probability-rounded"},
    {"GradHiddenIsASlope", kSlopes, GradHiddenIsASlope, "backward-temperature"},
    {"GradWeightIsASlope", kSlopes, GradWeightIsASlope, "", GradientsAFiftiethTooLarge},
    {"AStateServesTwoBackwardPasses", kUpstream, AStateServesTwoBackwardPasses, "",
     AConstantInGradWeight},
};

}  // namespace

std::span<const Relation> GradientRelations() { return kRelations; }

}  // namespace plumbline::fuzz::testing
