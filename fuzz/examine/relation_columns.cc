// SPDX-License-Identifier: Apache-2.0
//
// Relations between problems with other columns, all of whose logits are 0 or so far below that they
// have no mass: each sum over the vocabulary has one term, 1, and is exact in any order.

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "fuzz/base/harness_defect.h"
#include "fuzz/base/mix.h"
#include "fuzz/examine/relation.h"
#include "fuzz/problem/values.h"

namespace plumbline::fuzz {
namespace {

// With more dimensions the certificate S <= 0.98 * 2^24 would not hold: S <= 2^15 + 16 H.
constexpr int64_t kMostHidden = int64_t{1} << 16;
// The exponents of the two factors of a logit without mass: it is -2^13 to -2^15.
constexpr int kHiddenExponent = 6, kWeightExponent = 7;
constexpr float kLeastTemperature = 0x1p-3F, kMostTemperature = 0x1p4F;  // t >= 2^13 / 2^4 = 512
constexpr float kLeastTemperatureInFp16 = 1;  // fp16 holds -2^15, and no more than -65504

size_t At(int64_t i) { return static_cast<size_t>(i); }

class Builder {
 public:
  // `hole`: these columns are to have no mass in any row and are no label: [first, second).
  Builder(OwnedProblem problem, const Description& target, uint64_t seed,
          std::pair<int64_t, int64_t> hole)
      : p_(std::move(problem)), target_(target), seed_(seed), hole_(hole) {}

  Related Build() {
    const int64_t n = p_.rows(), v = p_.vocab();
    for (int64_t i = 0; i < n; ++i) {
      if (InHole(p_.labels.GetInt(i))) p_.labels.SetInt(i, Kept(600, static_cast<uint64_t>(i)));
    }
    for (auto& mass : has_mass_) mass.assign(At(v), false);
    for (int64_t kind = 0; kind < kinds(); ++kind) ChooseMass(kind);
    Values();
    const bool half = AnyHalf({target_.contract.scaled_logits}, p_.hidden.dtype);
    const float least = half ? kLeastTemperatureInFp16 : kLeastTemperature;
    for (int64_t i = 0; p_.temperature && i < p_.temperature->size(); ++i) {
      const float t = p_.temperature->GetFloat(i);
      if (!(t >= least && t <= kMostTemperature)) p_.temperature->SetFloat(i, 1);
    }
    Upstream();
    Related related;
    related.entropy = false;  // a sum of what has no mass, in any order
    for (int64_t i = 0; i < n; ++i) {
      const bool ignored = p_.labels.GetInt(i) == p_.ignore_index;
      related.logprob.push_back(ignored || HasMass(i) || TemperatureOf(p_, i) == 1);
      related.loss = related.loss && related.logprob.back();
    }
    related.weight_columns = std::move(weight_columns_);
    related.before = std::move(p_);
    return related;
  }

 private:
  // Rows are of two kinds, each with its own columns of mass, if there are two dimensions to tell them.
  int64_t kinds() const { return p_.hidden_size() > 1 ? 2 : 1; }
  int64_t KindOf(int64_t row) const {
    return kinds() == 1 ? 0 : static_cast<int64_t>(Mix(seed_ + 1, static_cast<uint64_t>(row)) & 1);
  }
  // True if the label of a row that counts has mass.
  bool HasMass(int64_t row) const { return has_mass_[At(KindOf(row))][At(p_.labels.GetInt(row))]; }
  bool InHole(int64_t column) const { return column >= hole_.first && column < hole_.second; }
  int64_t kept() const { return p_.vocab() - (hole_.second - hole_.first); }
  // A column outside of the hole.
  int64_t Kept(uint64_t which, uint64_t index) const {
    const auto drawn =
        static_cast<int64_t>(Mix(Mix(seed_, which), index) % static_cast<uint64_t>(kept()));
    return drawn < hole_.first ? drawn : drawn + hole_.second - hole_.first;
  }

  // One column: kernels that merge parts by their lse take exp(ln 1) = 1 exactly, and no other count.
  // For half of the kinds it is the label of a row.
  void ChooseMass(int64_t kind) {
    const uint64_t draw = Mix(seed_, 610 + static_cast<uint64_t>(kind));
    int64_t column = Kept(620 + static_cast<uint64_t>(kind), 0);
    if ((draw & 2) != 0) {
      const int64_t label = p_.labels.GetInt(static_cast<int64_t>((draw >> 32) % At(p_.rows())));
      if (p_.IsClass(label) && !InHole(label)) column = label;
    }
    has_mass_[At(kind)][At(column)] = true;
  }

  float Power(uint64_t which, int64_t i, int64_t j, int low, int count) const {
    const uint64_t draw = Mix(Mix(seed_, which) + static_cast<uint64_t>(i), static_cast<uint64_t>(j));
    return static_cast<float>(1 << (low + static_cast<int>(draw % static_cast<uint64_t>(count))));
  }

  // Dimension `first` decides the logits of rows of kind 0, the next one those of kind 1. The others
  // are filled with pairs of products that cancel, unless operands, or partial sums, are rounded.
  void Values() {
    const int64_t h = p_.hidden_size(), n = p_.rows(), v = p_.vocab();
    const auto first = static_cast<int64_t>(Mix(seed_, 630) % static_cast<uint64_t>(h));
    const std::array<int64_t, 2> of_kind = {first, (first + 1) % h};
    std::vector<int64_t> others;
    const bool pairs = target_.contract.input_rounding == 0 && !target_.contract.partials.Narrow();
    for (int64_t d = 0; d < h && pairs; ++d) {
      if (d != of_kind[0] && (kinds() == 1 || d != of_kind[1])) others.push_back(d);
    }
    p_.hidden = HostTensor::Zeros(p_.hidden.dtype, p_.hidden.shape);
    p_.weight = HostTensor::Zeros(p_.weight.dtype, p_.weight.shape);
    for (int64_t i = 0; i < n; ++i) {
      p_.hidden.SetFloat(i * h + of_kind[At(KindOf(i))], Power(640, i, 0, kHiddenExponent, 2));
      for (size_t k = 0; k + 1 < others.size(); k += 2) {
        const float x = Power(641, i, others[k], 0, 3);
        p_.hidden.SetFloat(i * h + others[k], x);
        p_.hidden.SetFloat(i * h + others[k + 1], x);
      }
    }
    for (int64_t c = 0; c < v; ++c) {
      for (int64_t kind = 0; kind < kinds(); ++kind) {
        if (has_mass_[At(kind)][At(c)]) continue;
        p_.weight.SetFloat(c * h + of_kind[At(kind)], -Power(642, c, kind, kWeightExponent, 2));
      }
      for (size_t k = 0; k + 1 < others.size(); k += 2) {
        const float w = Power(643, c, others[k], 0, 3);
        const bool negative = Power(644, c, others[k], 0, 2) == 1;
        p_.weight.SetFloat(c * h + others[k], negative ? -w : w);
        p_.weight.SetFloat(c * h + others[k + 1], negative ? w : -w);
      }
    }
  }

  // A row of grad_weight is compared where a single row of hidden takes part and its label has no mass:
  // each element is then one product, of g and h.
  void Upstream() {
    if (p_.grad_entropy) *p_.grad_entropy = HostTensor::Zeros(p_.grad_entropy->dtype, {p_.rows()});
    if (!p_.grad_logprob) return;
    constexpr int kLow = -3, kSpan = 6;
    const bool each = p_.reduction == kernel::Reduction::kNone;
    int64_t counted = 0, only = -1;
    for (int64_t k = 0; k < p_.rows(); ++k) {
      const int64_t i = (k + static_cast<int64_t>(Mix(seed_, 650) % At(p_.rows()))) % p_.rows();
      if (!p_.IsClass(p_.labels.GetInt(i))) continue;
      ++counted;
      if (only < 0 && (!each || !HasMass(i))) only = i;
    }
    Fold(&*p_.grad_logprob, kLow, kSpan);
    for (int64_t i = 0; i < p_.grad_logprob->size(); ++i) {
      float g = p_.grad_logprob->GetFloat(i);
      if (each && i != only) g = 0;
      if (each && i == only && g == 0) g = 1;
      p_.grad_logprob->SetFloat(i, g);
    }
    if (only < 0 || (!each && counted != 1) || TemperatureOf(p_, only) != 1) return;
    if (!HasMass(only)) weight_columns_.push_back(p_.labels.GetInt(only));
  }

  OwnedProblem p_;
  const Description& target_;
  const uint64_t seed_;
  const std::pair<int64_t, int64_t> hole_;
  std::array<std::vector<bool>, 2> has_mass_;
  std::vector<int64_t> weight_columns_;
};

// Sets `after` from `before` by column_to: weight's rows and the labels move.
void MoveColumns(Related* related) {
  const OwnedProblem& from = related->before;
  OwnedProblem& to = related->after;
  to = from;
  const auto gone = std::count(related->column_to.begin(), related->column_to.end(), -1);
  to.weight = HostTensor::Zeros(from.weight.dtype, {from.vocab() - gone, from.hidden_size()});
  const size_t row = At(from.hidden_size()) * kernel::SizeOf(from.weight.dtype);
  for (int64_t c = 0; c < from.vocab(); ++c) {
    const int64_t at = related->column_to[At(c)];
    if (at < 0) continue;
    std::copy_n(from.weight.bytes.begin() + static_cast<std::ptrdiff_t>(At(c) * row), row,
                to.weight.bytes.begin() + static_cast<std::ptrdiff_t>(At(at) * row));
  }
  for (int64_t i = 0; i < from.rows(); ++i) {
    const int64_t label = from.labels.GetInt(i);
    if (from.IsClass(label)) to.labels.SetInt(i, related->column_to[At(label)]);
  }
}

// The related problem without its second half, and with the values of the case where the defect says
// so.
std::optional<Related> Begin(const OwnedProblem& given, const Description& target, uint64_t seed,
                             std::pair<int64_t, int64_t> hole) {
  // Partial sums and log-probabilities of -2^15 are outside of such a contract (OutsideOfContract).
  if (AnyHalf({target.contract.partials, target.contract.log_probs}, given.hidden.dtype)) {
    return std::nullopt;
  }
  std::optional<OwnedProblem> plain = WithPlainRows(given, seed);
  if (!plain || plain->hidden_size() > kMostHidden) return std::nullopt;
  if (plain->vocab() - (hole.second - hole.first) < 2) return std::nullopt;
  if (!Planted(HarnessDefect::kRelationMassUnchecked)) {
    return Builder(*std::move(plain), target, seed, hole).Build();
  }
  Related related;
  related.before = *std::move(plain);
  return related;
}

}  // namespace

std::optional<Related> ColumnsPermuted(const OwnedProblem& given, const Description& target,
                                       uint64_t seed) {
  std::optional<Related> related = Begin(given, target, seed, {0, 0});
  if (!related) return std::nullopt;
  const int64_t v = given.vocab();
  const auto shift = static_cast<int64_t>(Mix(seed, 520) % static_cast<uint64_t>(v - 1)) + 1;
  const bool reversed = (Mix(seed, 521) & 1) != 0;
  for (int64_t c = 0; c < v; ++c) related->column_to.push_back(reversed ? v - 1 - c : (c + shift) % v);
  MoveColumns(&*related);
  return related;
}

std::optional<Related> ShardWithoutMass(const OwnedProblem& given, const Description& target,
                                        uint64_t seed) {
  const int64_t v = given.vocab(), unit = target.capabilities.vocab_multiple;
  // The shard holds a multiple of `unit` columns and leaves at least two.
  const int64_t most = std::min(v / unit - 1, (v - 2) / unit);
  if (most < 1) return std::nullopt;
  const uint64_t draw = Mix(seed, 522);
  const int64_t units =
      (draw & 1) != 0 ? 1 : 1 + static_cast<int64_t>((draw >> 8) % static_cast<uint64_t>(most));
  const int64_t size = units * unit;
  const auto begin = static_cast<int64_t>(Mix(seed, 523) % static_cast<uint64_t>(v - size + 1));
  std::optional<Related> related = Begin(given, target, seed, {begin, begin + size});
  if (!related) return std::nullopt;
  for (int64_t c = 0; c < v; ++c) {
    related->column_to.push_back(c < begin ? c : c < begin + size ? -1 : c - size);
  }
  MoveColumns(&*related);
  return related;
}

}  // namespace plumbline::fuzz
