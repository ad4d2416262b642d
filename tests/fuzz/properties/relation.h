// SPDX-License-Identifier: Apache-2.0
//
// Metamorphic relations must hold between a problem's results and those of a problem made from it,
// without a second implementation. They hold bit for bit if the operator promises it
// (kernel/OPERATION.md), else within the sum of both results' bounds, which are the oracle's: no
// tolerance is chosen anywhere.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fuzz/examine/examine.h"
#include "fuzz/examine/output_bits.h"
#include "fuzz/examine/placement.h"
#include "fuzz/problem/owned_problem.h"
#include "fuzz/target/target.h"
#include "oracle/output.h"
#include "oracle/verdict/expectation.h"

namespace plumbline::fuzz::testing {

using oracle::Output;

// Changes the results of a target that has none of its defects, as a defect would.
using Tamper = void (*)(const kernel::Problem&, const kernel::Results&);

// The subject of a relation: a target, or one whose results are tampered with.
struct Subject {
  Subject(const Target& t, Tamper with = nullptr) : target(&t), tamper(with) {}
  const Target* target;
  Tamper tamper;
};

// The outcome of a relation on one problem.
struct Checked {
  std::optional<Finding> broken;
  int64_t compared = 0;  // elements; 0: the relation does not apply to this problem
};

// A problem, run once, and the results that the oracle allows.
class Measured {
 public:
  Measured(const OwnedProblem& problem, const Subject& subject, int poison = 0);

  bool ok() const { return ok_; }  // false: skipped, declined or refused
  size_t size(Output output) const { return bits(output).size(); }  // 0 where it is absent
  const ElementBits& bits(Output output) const;
  // Widened exactly; elements are counted row by row.
  double value(Output output, size_t element) const;
  // `judged`: the element is a number with a bound. NaN, infinities, and vacuous or unspecified
  // elements are not judged.
  struct Term {
    bool judged = false;
    double value = 0, bound = 0;
  };
  Term term(Output output, size_t element) const;

  const std::vector<Placement::Damage>& damage() const { return damage_; }

 private:
  const Target& target_;
  Placement placement_;
  OutputBits bits_;
  std::vector<Placement::Damage> damage_;
  bool ok_ = false;
  int64_t hidden_size_ = 1;
  mutable std::optional<oracle::Expectation> expected_;  // one sweep, when first asked
};

// Compares element by element and keeps the first violation.
class Comparison {
 public:
  explicit Comparison(std::string relation) : relation_(std::move(relation)) {}

  // Requires the same bits; every NaN is the same.
  void Same(Output output, const Measured& a, size_t i, const Measured& b, size_t j);
  // Requires the same bits in all elements of one output, in order.
  void AllSame(Output output, const Measured& a, const Measured& b);
  // Requires b to be a times 2^exponent or its negative, bit for bit except for the sign of a zero.
  // Numbers whose product is not normal are left out.
  void Scaled(Output output, const Measured& a, size_t i, const Measured& b, size_t j, int exponent,
              bool negated = false);
  // Requires |got - required| <= allowed, which a NaN does not satisfy.
  void Near(Output output, size_t i, double got, double required, double allowed);
  // Requires value(b) = value(a) + shift in exact arithmetic, so within both bounds and the rounding of
  // this comparison itself.
  void Near(Output output, size_t i, const Measured::Term& a, double shift, const Measured::Term& b);
  void Hold(Output output, size_t i, bool holds, const std::string& what);

  Checked Result() && { return std::move(checked_); }

 private:
  void Break(Output output, size_t element, const std::string& what);
  std::string relation_;
  Checked checked_;
};

inline constexpr Output kPerRow[] = {Output::kLogprob, Output::kEntropy, Output::kLse};
inline constexpr Output kGradients[] = {Output::kGradHidden, Output::kGradWeight};
inline constexpr Output kAll[] = {Output::kLogprob, Output::kLoss,       Output::kEntropy,
                                  Output::kLse,     Output::kGradHidden, Output::kGradWeight};

// --- Problems made from problems.

// The same problem in a form that can be changed row by row: gradients of stride 1, and an ignore_index
// that is no column.
OwnedProblem Plain(OwnedProblem problem);
bool Ignored(const OwnedProblem& problem, int64_t row);
// True if the row's label is neither ignored nor outside the vocabulary.
bool Counts(const OwnedProblem& problem, int64_t row);
bool AllFinite(const HostTensor& tensor);
double TemperatureOf(const OwnedProblem& problem, int64_t row);
HostTensor WithColumn(const HostTensor& tensor, float value);
HostTensor WithRow(const HostTensor& tensor, const std::vector<float>& row);
HostTensor SelectRowsOf(const HostTensor& tensor, const std::vector<int64_t>& rows);
// Multiplies every element by 2^exponent; returns false if one of them would not be normal.
bool ScaleBy(HostTensor* tensor, int exponent);
void Negate(std::optional<HostTensor>* tensor);

// The logits of a row in fp64, divided by the temperature, and sum_d |h w| / T of each. The error of a
// logit is at most (H + 2) 2^-53 times that sum.
struct Logits {
  std::vector<double> x, magnitude;
  double Error(size_t column, int64_t hidden_size) const;
};
Logits LogitsOf(const OwnedProblem& problem, int64_t row);

// The same problem without values near the ends of fp32's range: elements beyond 2^+-12 are 0, and the
// temperature is a power of two under which a row's logits lie within 20. No product, probability or
// gradient then comes near an underflow or an overflow, not even with a factor scaled by 2^-8 to 2^8:
// scaling by powers of two is then exact bit for bit. Nullopt if a row does not count, or if 2^4 is not
// temperature enough.
std::optional<OwnedProblem> Tamed(const OwnedProblem& problem);

// --- The relations.

struct Relation {
  std::string_view name;
  std::span<const std::string_view> regimes;  // that its problems are drawn from, in turn; empty: all
  Checked (*holds)(const OwnedProblem& problem, const Subject& subject);
  // The relation must be broken by this mutant, or by this tampering with host's results.
  std::string_view mutant;
  Tamper tamper = nullptr;
};

// Prints the relation's name in a test.
inline void PrintTo(const Relation& relation, std::ostream* out) { *out << relation.name; }

// The relations by theme: tests/fuzz/properties/relations_THEME.cc.
std::span<const Relation> RowRelations();
std::span<const Relation> VocabularyRelations();
std::span<const Relation> HiddenRelations();
std::span<const Relation> GradientRelations();
std::span<const Relation> ValueRelations();
std::span<const Relation> MemoryRelations();

// --- For tampering.

float* Floats(const std::optional<kernel::Tensor>& tensor);  // its first element; null where not fp32
void Nudge(const std::optional<kernel::Tensor>& tensor, int64_t i);  // element i by one ulp

}  // namespace plumbline::fuzz::testing
