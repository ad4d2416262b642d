// SPDX-License-Identifier: Apache-2.0
//
// Relations between columns of the vocabulary, which are permuted, appended, repeated, or split into
// shards.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <limits>
#include <numeric>
#include <vector>

#include "tests/fuzz/properties/relation.h"

namespace plumbline::fuzz::testing {
namespace {

using kernel::Problem, kernel::Results, kernel::Reduction;

constexpr std::string_view kSharpLogits[] = {"ragged-tail", "exact-dot", "common-offset"};
constexpr std::string_view kGradual[] = {"exact-dot", "upstream-gradients", "ragged-tail"};

size_t At(int64_t i) { return static_cast<size_t>(i); }

// Compares every row's outputs and, for hidden columns below `columns`, its gradient.
void NearRows(const OwnedProblem& p, const Measured& a, const Measured& b, int64_t wide,
              Comparison* comparison) {
  for (const Output o : {Output::kLogprob, Output::kLoss, Output::kEntropy, Output::kLse}) {
    if (a.size(o) != b.size(o)) continue;
    for (size_t i = 0; i < a.size(o); ++i) comparison->Near(o, i, a.term(o, i), 0, b.term(o, i));
  }
  if (a.size(Output::kGradHidden) == 0) return;
  const int64_t h = p.hidden_size();
  for (int64_t i = 0; i < p.rows(); ++i) {
    for (int64_t d = 0; d < h; ++d) {
      comparison->Near(Output::kGradHidden, At(i * h + d), a.term(Output::kGradHidden, At(i * h + d)),
                       0, b.term(Output::kGradHidden, At(i * wide + d)));
    }
  }
}

// Fails for a column that is treated by its number: the last one, those of a tile's edge, the label's.
Checked VocabularyOrderIsIrrelevant(const OwnedProblem& given, const Subject& s) {
  const OwnedProblem p = Plain(given);
  const int64_t n = p.rows(), v = p.vocab(), h = p.hidden_size();
  std::vector<int64_t> order(At(v));
  std::iota(order.rbegin(), order.rend(), 0);
  OwnedProblem other = p;
  other.weight = SelectRowsOf(p.weight, order);
  for (int64_t i = 0; i < n; ++i) {
    if (Counts(p, i)) other.labels.SetInt(i, v - 1 - p.labels.GetInt(i));
  }
  Comparison comparison("with the vocabulary reversed");
  const Measured a(p, s), b(other, s);
  if (!a.ok() || !b.ok()) return {};
  NearRows(p, a, b, h, &comparison);
  if (a.size(Output::kGradWeight) == 0) return std::move(comparison).Result();
  for (int64_t c = 0; c < v; ++c) {
    for (int64_t d = 0; d < h; ++d) {
      comparison.Near(Output::kGradWeight, At(c * h + d), a.term(Output::kGradWeight, At(c * h + d)), 0,
                      b.term(Output::kGradWeight, At((v - 1 - c) * h + d)));
    }
  }
  return std::move(comparison).Result();
}

// Adds one hidden column of ones, whose weight is 0 in the old rows of weight, and `extra` more rows of
// weight that hold only that column's `logit`.
OwnedProblem Appended(const OwnedProblem& p, int extra, float logit) {
  OwnedProblem wide = p;
  wide.hidden = WithColumn(p.hidden, 1);
  wide.weight = WithColumn(p.weight, 0);
  std::vector<float> row(At(p.hidden_size() + 1), 0.0F);
  row.back() = logit;
  for (int k = 0; k < extra; ++k) wide.weight = WithRow(wide.weight, row);
  return wide;
}

Checked WithoutWeight(const OwnedProblem& given, const Subject& s, float logit, bool bits,
                      const char* words) {
  constexpr int kExtra = 3;
  const OwnedProblem p = Plain(given);
  if (p.vocab() < 1 || !AllFinite(p.hidden) || !AllFinite(p.weight)) return {};
  for (int64_t i = 0; i < p.rows(); ++i) {
    if (Ignored(p, i)) continue;
    if (!Counts(p, i)) return {};
    // e^-t is 0, subnormals included, from t = 104 on.
    const Logits logits = LogitsOf(p, i);
    const double highest = *std::max_element(logits.x.begin(), logits.x.end());
    if (!(highest - logit / TemperatureOf(p, i) > 120)) return {};
  }
  Comparison comparison(words);
  const OwnedProblem narrow = Appended(p, 0, 0), tall = Appended(p, kExtra, logit);
  const Measured a(narrow, s), b(tall, s);
  if (!a.ok() || !b.ok()) return {};
  const int64_t h = p.hidden_size() + 1, v = p.vocab();
  if (bits) {
    for (const Output o : {Output::kLogprob, Output::kLoss, Output::kEntropy, Output::kLse}) {
      comparison.AllSame(o, a, b);
    }
  }
  NearRows(narrow, a, b, h, &comparison);
  if (a.size(Output::kGradWeight) == 0) return std::move(comparison).Result();
  for (int64_t e = 0; e < v * h; ++e) {
    comparison.Near(Output::kGradWeight, At(e), a.term(Output::kGradWeight, At(e)), 0,
                    b.term(Output::kGradWeight, At(e)));
  }
  for (int64_t e = v * h; e < (v + kExtra) * h; ++e) {
    comparison.Near(Output::kGradWeight, At(e), b.value(Output::kGradWeight, At(e)), 0, 0);
  }
  return std::move(comparison).Result();
}

// Fails for an underflow that is treated as a value: exp of a large negative argument that wraps, a
// floor under p.
Checked VeryNegativeColumnsChangeNothing(const OwnedProblem& p, const Subject& s) {
  return WithoutWeight(p, s, -0x1p14F, false, "with very negative columns appended");
}

// Fails for a masked column that is not masked, (-inf) - (-inf), 0 * inf in entropy. The results agree
// bit for bit if the vocabulary stays within the same tiles: tiles may depend on V, but not on their
// contents.
Checked MaskedColumnsChangeNothing(const OwnedProblem& p, const Subject& s) {
  const int64_t tile = s.target->description().contract.tile;
  const bool same_tiles = (p.vocab() + tile - 1) / tile == (p.vocab() + 3 + tile - 1) / tile;
  return WithoutWeight(p, s, -std::numeric_limits<float>::infinity(), same_tiles,
                       "with masked columns appended");
}

void ALaneForEachPaddedColumn(const Problem& p, const Results& r) {
  float* lse = Floats(r.lse);
  const auto* w = static_cast<const unsigned char*>(p.weight.data);
  if (lse != nullptr && w != nullptr && p.vocab() % 4 == 0) lse[0] += 1;
}

// Fails for sums that stop before the end, a factor in p. With all columns twice, lse and entropy grow
// by ln 2.
Checked TheVocabularyTwice(const OwnedProblem& given, const Subject& s) {
  const OwnedProblem p = Plain(given);
  const int64_t n = p.rows(), v = p.vocab(), h = p.hidden_size();
  std::vector<int64_t> twice(At(2 * v));
  for (int64_t c = 0; c < 2 * v; ++c) twice[At(c)] = c % std::max<int64_t>(v, 1);
  OwnedProblem doubled = p;
  doubled.weight = SelectRowsOf(p.weight, twice);
  Comparison comparison("with every column twice");
  const Measured a(p, s), b(doubled, s);
  if (!a.ok() || !b.ok() || p.reduction != Reduction::kNone) return {};
  const double ln2 = std::log(2.0);
  for (int64_t i = 0; i < n; ++i) {
    if (!Counts(p, i)) continue;
    comparison.Near(Output::kLse, At(i), a.term(Output::kLse, At(i)), ln2, b.term(Output::kLse, At(i)));
    comparison.Near(Output::kEntropy, At(i), a.term(Output::kEntropy, At(i)), ln2,
                    b.term(Output::kEntropy, At(i)));
    comparison.Near(Output::kLogprob, At(i), a.term(Output::kLogprob, At(i)), -ln2,
                    b.term(Output::kLogprob, At(i)));
  }
  for (size_t e = 0; e < a.size(Output::kGradHidden); ++e) {
    comparison.Near(Output::kGradHidden, e, a.term(Output::kGradHidden, e), 0,
                    b.term(Output::kGradHidden, e));
  }
  for (size_t e = 0; e < a.size(Output::kGradWeight); ++e) {
    const auto first = b.term(Output::kGradWeight, e),
               second = b.term(Output::kGradWeight, e + At(v * h));
    comparison.Near(
        Output::kGradWeight, e, a.term(Output::kGradWeight, e), 0,
        {first.judged && second.judged, first.value + second.value, first.bound + second.bound});
  }
  return std::move(comparison).Result();
}

void TheLastColumnIsNotSummed(const Problem& p, const Results& r) {
  float *lse = Floats(r.lse), *entropy = Floats(r.entropy);
  if (lse != nullptr && p.vocab() > 2) lse[0] -= 1.0F / 128;
  if (entropy != nullptr && p.vocab() > 8) entropy[0] *= 0.99F;
}

// Repeats a row's label column. With p its probability, lse grows by ln(1 + p), logprob falls by it,
// and entropy becomes (H - p ln p) / (1 + p) + ln(1 + p). Fails for an entropy whose two sums do not
// belong together.
Checked TheLabelsColumnTwice(const OwnedProblem& given, const Subject& s) {
  const OwnedProblem p = Plain(given);
  if (p.rows() < 1 || !Counts(p, 0) || p.reduction != Reduction::kNone) return {};
  const OwnedProblem one = SelectRows(p, {0});
  OwnedProblem more = one;
  std::vector<int64_t> columns(At(p.vocab() + 1));
  std::iota(columns.begin(), columns.end(), 0);
  columns.back() = p.labels.GetInt(0);
  more.weight = SelectRowsOf(p.weight, columns);
  Comparison comparison("with the label's column twice");
  const Measured a(one, s), b(more, s);
  if (!a.ok() || !b.ok()) return {};
  const auto logprob = a.term(Output::kLogprob, 0), lse = a.term(Output::kLse, 0),
             entropy = a.term(Output::kEntropy, 0);
  if (!logprob.judged || !lse.judged) return {};
  const double prob = std::exp(std::min(logprob.value, 0.0)), grown = std::log1p(prob);
  // d ln(1 + p) / d logprob = p / (1 + p) < 1.
  comparison.Near(Output::kLse, 0, {true, lse.value, lse.bound + logprob.bound}, grown,
                  b.term(Output::kLse, 0));
  // The slope of logprob - ln(1 + p) is 1 minus that, which is < 1.
  comparison.Near(Output::kLogprob, 0, logprob, -grown, b.term(Output::kLogprob, 0));
  if (!entropy.judged) return std::move(comparison).Result();
  // The derivative by logprob is p (-ln p - H) / (1 + p)^2: at most 1/e + H in magnitude.
  const double required = (entropy.value - prob * logprob.value) / (1 + prob) + grown;
  const double slope = 1 / std::exp(1.0) + std::fabs(entropy.value) + entropy.bound;
  comparison.Near(Output::kEntropy, 0, {true, required, entropy.bound + slope * logprob.bound}, 0,
                  b.term(Output::kEntropy, 0));
  return std::move(comparison).Result();
}

void EntropyOfHalfTheColumns(const Problem& p, const Results& r) {
  float* entropy = Floats(r.entropy);
  if (entropy != nullptr && p.vocab() % 2 == 0) entropy[0] *= 0.98F;
}

// Splits the vocabulary into two shards whose states are merged, as in tensor parallelism. With q the
// share of a shard, lse = ln sum e^lse_s and H = sum q (H_s - ln q). Labels lie in either shard. Fails
// for a label's offset dropped, a shard's lse that is not its own.
Checked ShardsMergeIntoTheWhole(const OwnedProblem& given, const Subject& s) {
  const OwnedProblem p = Plain(given);
  const int64_t v = p.vocab();
  if (v < 2 || p.rows() < 1 || p.reduction != Reduction::kNone) return {};
  const int64_t cuts[] = {0, 1 + (v - 1) / 3, v};
  std::deque<Measured> shards;
  for (int k = 0; k < 2; ++k) {
    OwnedProblem shard = p;
    std::vector<int64_t> columns(At(cuts[k + 1] - cuts[k]));
    std::iota(columns.begin(), columns.end(), cuts[k]);
    shard.weight = SelectRowsOf(p.weight, columns);
    for (int64_t i = 0; i < p.rows(); ++i) {
      if (!Counts(p, i)) continue;
      const int64_t label = p.labels.GetInt(i) - cuts[k];
      // If the label is in the other shard, any column serves: lse and entropy do not depend on it.
      shard.labels.SetInt(i, label >= 0 && label < shard.vocab() ? label : 0);
    }
    shard.wanted.grad_hidden = shard.wanted.grad_weight = false;
    shards.emplace_back(shard, s);
  }
  OwnedProblem forward = p;
  forward.wanted.grad_hidden = forward.wanted.grad_weight = false;
  const Measured whole(forward, s);
  if (!whole.ok() || !shards[0].ok() || !shards[1].ok()) return {};
  Comparison comparison("merged from two shards of the vocabulary");
  for (int64_t i = 0; i < p.rows(); ++i) {
    if (!Counts(p, i)) continue;
    const Measured::Term lse[] = {shards[0].term(Output::kLse, At(i)),
                                  shards[1].term(Output::kLse, At(i))};
    const Measured::Term entropy[] = {shards[0].term(Output::kEntropy, At(i)),
                                      shards[1].term(Output::kEntropy, At(i))};
    const size_t mine = p.labels.GetInt(i) < cuts[1] ? 0 : 1;
    const auto logprob = shards[mine].term(Output::kLogprob, At(i));
    if (!lse[0].judged || !lse[1].judged || !entropy[0].judged || !entropy[1].judged) continue;
    const double m = std::max(lse[0].value, lse[1].value);
    const double total = m + std::log(std::exp(lse[0].value - m) + std::exp(lse[1].value - m));
    const double off = std::max(lse[0].bound, lse[1].bound);
    comparison.Near(Output::kLse, At(i), {true, total, off}, 0, whole.term(Output::kLse, At(i)));
    comparison.Near(Output::kLogprob, At(i),
                    {logprob.judged, logprob.value, logprob.bound + lse[mine].bound + off},
                    lse[mine].value - total, whole.term(Output::kLogprob, At(i)));
    // d H / d lse_s = q (H_s - ln q - H). If the lse are off by `off`, q is off by a factor of at most
    // e^(2 off) and ln q by 2 off. H is at most the larger H_s plus ln 2.
    double merged = 0, allowed = 0, highest = 0;
    for (int k = 0; k < 2; ++k) {
      const double ln = lse[k].value - total;
      merged += std::exp(ln) * (entropy[k].value - ln);
      highest = std::max(highest, entropy[k].value + entropy[k].bound);
    }
    for (int k = 0; k < 2; ++k) {
      const double ln = lse[k].value - total, q = std::exp(ln + 2 * off);
      allowed +=
          q * entropy[k].bound + off * q * (2 * highest + std::fabs(ln) + 2 * off + std::log(2.0));
    }
    comparison.Near(Output::kEntropy, At(i), {true, merged, allowed}, 0,
                    whole.term(Output::kEntropy, At(i)));
  }
  return std::move(comparison).Result();
}

constexpr Relation kRelations[] = {
    {"VocabularyOrderIsIrrelevant", kGradual, VocabularyOrderIsIrrelevant, "label-off-by-one"},
    {"VeryNegativeColumnsChangeNothing", kGradual, VeryNegativeColumnsChangeNothing, "",
     ALaneForEachPaddedColumn},
    {"MaskedColumnsChangeNothing", kGradual, MaskedColumnsChangeNothing, "", ALaneForEachPaddedColumn},
    {"TheVocabularyTwice", kSharpLogits, TheVocabularyTwice, "", TheLastColumnIsNotSummed},
    {"TheLabelsColumnTwice", kSharpLogits, TheLabelsColumnTwice, "", EntropyOfHalfTheColumns},
    {"ShardsMergeIntoTheWhole", kSharpLogits, ShardsMergeIntoTheWhole, "tail-unmasked"},
};

}  // namespace

std::span<const Relation> VocabularyRelations() { return kRelations; }

}  // namespace plumbline::fuzz::testing
