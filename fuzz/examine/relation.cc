// SPDX-License-Identifier: Apache-2.0

#include "fuzz/examine/relation.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cinttypes>
#include <cmath>
#include <limits>
#include <utility>

#include "fuzz/base/harness_defect.h"
#include "fuzz/base/mix.h"
#include "fuzz/base/text.h"
#include "fuzz/examine/compare_runs.h"
#include "fuzz/problem/values.h"
#include "kernel/dtype.h"
#include "oracle/budget/inputs.h"

namespace plumbline::fuzz {
namespace {

using kernel::DType;

constexpr std::array kRelations = {
    Relation{"rows-permuted", "the target promises batch_invariant", RowsPermuted},
    Relation{"columns-permuted", "every logit is 0 or has no mass", ColumnsPermuted},
    Relation{"shard-without-mass", "every logit is 0 or has no mass", ShardWithoutMass},
    Relation{"factors-scaled", "no product comes near an underflow", FactorsScaled},
    Relation{"temperature-scaled", "the target promises scale_exact_powers", TemperatureScaled},
    Relation{"upstream-scaled", "no gradient comes near an underflow", UpstreamScaled}};

// One case in this many is related to another: a relation takes up to two runs, and the oracle none.
constexpr uint64_t kEvery = 8;
// Larger cases are related to none, nor are those whose strides take long to lay out: a run of one took
// as long as a hundred others.
constexpr int64_t kMostWork = int64_t{1} << 20, kMostLogits = int64_t{1} << 15,
                  kMostInputs = int64_t{1} << 16, kMostStride = 4096;
bool IsSmall(const OwnedProblem& p) {
  const int64_t n = p.rows(), v = p.vocab(), h = p.hidden_size();
  const Layout& l = p.layout;
  return n * v <= kMostLogits && n * v * h <= kMostWork && (n + v) * h <= kMostInputs &&
         std::max({l.hidden_padding, l.weight_padding, l.grad_stride, l.label_stride,
                   l.temperature_stride, l.output_stride, l.gradient_step}) <= kMostStride;
}
// Nothing that an underflow leaves of a column without mass is larger (RELATIONS.md, "Shards").
constexpr double kUnderflowLeaves = 0x1p-80;

// Outputs in the order of OutputBits.
enum : size_t { kLogprob, kLoss, kEntropy, kLse, kGradHidden, kGradWeight };
constexpr std::array kNamesOfOutputs = {"logprob", "loss",        "entropy",
                                        "lse",     "grad_hidden", "grad_weight"};

// The value of an output's element.
float ValueOf(uint64_t bits, DType dtype) {
  const auto half = static_cast<uint16_t>(bits);
  if (dtype == DType::kBf16) return kernel::ToFloat(kernel::BFloat16{half});
  if (dtype == DType::kF16) return kernel::ToFloat(kernel::Float16{half});
  return std::bit_cast<float>(static_cast<uint32_t>(bits));
}

class RelationComparison {
 public:
  RelationComparison(const Relation& relation, const Related& related, const OutputBits& before,
                     const OutputBits& after)
      : relation_(relation), related_(related), before_(before), after_(after) {}

  RelationChecked Run() && {
    const OwnedProblem& p = related_.before;
    for (int64_t i = 0; i < p.rows(); ++i) {
      if (p.labels.GetInt(i) == p.ignore_index) continue;
      const int64_t to = To(related_.row_to, i);
      if (related_.logprob.empty() || related_.logprob[At(i)]) Compare(kLogprob, i, 0, to, 1, 0);
      Compare(kLse, i, 0, to, 1, 0);
      if (related_.entropy) Compare(kEntropy, i, 0, to, 1, 0);
      for (int64_t d = 0; related_.grad_hidden && d < p.hidden_size(); ++d) {
        Compare(kGradHidden, i, d, to, p.hidden_size(), related_.hidden_exponent);
      }
    }
    if (related_.loss) Compare(kLoss, 0, 0, 0, 1, 0);
    for (const int64_t v : related_.weight_columns) {
      for (int64_t d = 0; d < p.hidden_size(); ++d) {
        Compare(kGradWeight, v, d, To(related_.column_to, v), p.hidden_size(),
                related_.weight_exponent);
      }
    }
    for (int64_t v = 0; v < static_cast<int64_t>(related_.column_to.size()); ++v) {
      if (related_.column_to[At(v)] < 0) NearlyNothing(v);
    }
    return std::move(checked_);
  }

 private:
  static size_t At(int64_t i) { return static_cast<size_t>(i); }
  static int64_t To(const std::vector<int64_t>& map, int64_t i) { return map.empty() ? i : map[At(i)]; }

  DType DTypeOf(size_t output) const {
    const bool gradient = output == kGradHidden || output == kGradWeight;
    return gradient && !related_.before.wanted.fp32_grads ? related_.before.hidden.dtype : DType::kF32;
  }

  void Compare(size_t output, int64_t row, int64_t column, int64_t to, int64_t columns, int exponent) {
    const ElementBits &all_a = before_.outputs[output], &all_b = after_.outputs[output];
    if (all_a.empty() || all_b.empty()) return;
    const uint64_t a = all_a[At(row * columns + column)], b = all_b[At(to * columns + column)];
    // A zero is the same at every scale, but for fp16, where it may be an underflow.
    if (a == b && (exponent == 0 || a == 0)) {
      ++checked_.compared;
      return;
    }
    const DType dtype = DTypeOf(output);
    const float x = ValueOf(a, dtype), y = ValueOf(b, dtype), required = std::ldexp(x, exponent);
    if (exponent != 0 && !Scales(x, dtype, required)) return;
    ++checked_.compared;
    const bool zeros = !related_.as_given && required == 0 && y == 0;
    const bool same = exponent == 0 ? false : y == required;
    if (same || zeros || (std::isnan(x) && std::isnan(y))) return;
    Break(output, row, column, x, y,
          Text(" = %.9g (bits %" PRIx64 "), and %.9g (bits %" PRIx64 ") where %.9g is required", x, a,
               y, b, required));
  }

  // A gradient in fp16 has fewer bits where it is subnormal, and may overflow. 2^-14 may be a subnormal
  // number that was rounded up.
  static bool Scales(float x, DType dtype, float required) {
    if (dtype != DType::kF16) return true;
    const auto normal = [](float z) { return std::fabs(z) > 0x1p-14F && std::fabs(z) <= 0x1p15F; };
    return normal(x) && normal(required);
  }

  void NearlyNothing(int64_t v) {
    const ElementBits& all = before_.outputs[kGradWeight];
    if (all.empty()) return;
    const int64_t h = related_.before.hidden_size();
    for (int64_t d = 0; d < h; ++d) {
      ++checked_.compared;
      const float x = ValueOf(all[At(v * h + d)], DTypeOf(kGradWeight));
      if (std::fabs(x) <= kUnderflowLeaves) continue;
      Break(kGradWeight, v, d, x, 0, Text(" = %.9g in a column without mass, where 0 is required", x));
      return;
    }
  }

  // Keeps the first element of each output.
  void Break(size_t output, int64_t row, int64_t column, float x, float y, const std::string& what) {
    if (Planted(HarnessDefect::kRelationNotCompared)) return;
    for (const Finding& f : checked_.findings) {
      if (f.output == kNamesOfOutputs[output]) return;
    }
    Finding f;
    f.kind = FindingKind::kRelation;
    f.relation = relation_.name;
    f.output = kNamesOfOutputs[output];
    f.row = row;
    f.column = column;
    f.expected = x;
    f.got = y;
    f.tightness = std::numeric_limits<double>::infinity();
    f.what = Text("%s: ", f.relation.c_str()) + Place(f.output, row, column) + what + "; " +
             std::string(relation_.condition) +
             (related_.as_given ? "" : " (values made from the case's, fuzz/examine/RELATIONS.md)");
    checked_.findings.push_back(std::move(f));
  }

  const Relation& relation_;
  const Related& related_;
  const OutputBits &before_, &after_;
  RelationChecked checked_;
};

// The finding that a valid problem was not solved; nothing if it was, or was declined.
RelationChecked Refused(const Relation& relation, const RunOutcome& outcome) {
  RelationChecked checked;
  if (outcome.status == RunStatus::kUnsupported) return checked;
  // What a worker checks of every problem, a second backward among it, is a finding of the cases
  // themselves: each relation would say it again.
  if (outcome.failure.starts_with("misfit@")) return checked;
  Finding f;
  f.kind = FindingKind::kRelation;
  f.relation = relation.name;
  f.what = Text("%s: a valid problem made from the case was refused: ", f.relation.c_str()) +
           outcome.message;
  checked.compared = 1;
  checked.findings.push_back(std::move(f));
  return checked;
}

}  // namespace

bool AnyHalf(std::initializer_list<oracle::StepDType> steps, DType hidden) {
  return std::ranges::any_of(
      steps, [&](const oracle::StepDType& step) { return step.For(hidden) == DType::kF16; });
}

std::span<const Relation> Relations() { return kRelations; }

std::vector<const Relation*> RelationsToTry(uint64_t seed, std::string_view name) {
  std::vector<const Relation*> order;
  if (name.empty() && Mix(seed, 500) % kEvery != 0) return order;
  const size_t first = Mix(seed, 501) % kRelations.size();
  for (size_t i = 0; i < kRelations.size(); ++i) {
    const Relation& relation = kRelations[(first + i) % kRelations.size()];
    if (name.empty() || relation.name == name) order.push_back(&relation);
  }
  return order;
}

namespace {

bool SameShape(const OwnedProblem& a, const OwnedProblem& b) {
  return a.hidden.shape == b.hidden.shape && a.weight.shape == b.weight.shape;
}

}  // namespace

RelationChecked CheckRelation(const Relation& relation, const OwnedProblem& given,
                              const OutputBits& bits, const Description& target,
                              const RelationOptions& options, const RunProblem& run) {
  if (!target.capabilities.deterministic || !IsSmall(given)) return {};
  const std::optional<Related> related = relation.make(given, target, options.seed);
  if (!related || WhySkipped(target, related->before) || WhySkipped(target, related->after)) return {};
  if (options.same_shape && !(SameShape(related->before, given) && SameShape(related->after, given))) {
    return {};
  }
  Ran before, after;
  if (related->as_given) {
    before.bits = bits;
  } else {
    before = run(related->before, 0);
    if (before.outcome.status != RunStatus::kOk) return Refused(relation, before.outcome);
  }
  after = run(related->after, 0);
  if (after.outcome.status != RunStatus::kOk) return Refused(relation, after.outcome);
  RelationChecked checked = RelationComparison(relation, *related, before.bits, after.bits).Run();
  if (checked.findings.empty()) return checked;
  std::vector<Finding> unsteady;
  for (const auto& [problem, first] :
       {std::pair(&related->before, &before), std::pair(&related->after, &after)}) {
    const Ran again = run(*problem, 1);
    if (again.outcome.status != RunStatus::kOk) return {};
    CompareRuns(*problem, first->bits, again.bits, true, &unsteady);
  }
  if (!unsteady.empty()) checked.findings = std::move(unsteady);
  return checked;
}

std::optional<Related> RowsPermuted(const OwnedProblem& given, const Description& target,
                                    uint64_t seed) {
  const int64_t n = given.rows();
  if (!target.capabilities.batch_invariant || n < 2) return std::nullopt;
  // A target may refuse a problem with an invalid row, and answers such a row by convention.
  if (oracle::LoadInputs(DenseView(given)).first_invalid_row >= 0) return std::nullopt;
  Related related;
  related.as_given = true;
  related.before = given;
  related.loss = false;
  related.grad_hidden = true;
  related.row_to.resize(static_cast<size_t>(n));
  std::vector<int64_t> order(static_cast<size_t>(n));
  const auto shift = static_cast<int64_t>(Mix(seed, 510) % static_cast<uint64_t>(n - 1)) + 1;
  const bool reversed = (Mix(seed, 511) & 1) != 0;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t to = reversed ? n - 1 - i : (i + shift) % n;
    related.row_to[static_cast<size_t>(i)] = to;
    order[static_cast<size_t>(to)] = i;
  }
  related.after = SelectRows(given, order);
  return related;
}

}  // namespace plumbline::fuzz
