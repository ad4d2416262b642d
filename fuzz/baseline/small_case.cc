// SPDX-License-Identifier: Apache-2.0
#include "fuzz/baseline/small_case.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>

#include "oracle/judge/judge.h"
#include "oracle/sweep/sweep.h"
#include "oracle/verdict/element_row.h"
#include "oracle/verdict/verdict.h"

namespace plumbline::fuzz {
namespace {

using oracle::Output;

constexpr int64_t kMostMultiplyAdds = int64_t{1} << 20;
constexpr double kLeft = 0.1, kShare = 0.9;

// The distance from the nearest of several simulations.
double Nearest(const SmallCase::Element& e, Output output, const std::vector<ExactValues>& sides) {
  double left = std::numeric_limits<double>::infinity();
  for (const ExactValues& side : sides) left = std::min(left, std::abs(e.got - side[output][e.at]));
  return left;
}

bool IsSmall(double left, const SmallCase::Element& e) {
  return left <= kLeft * std::abs(e.got - e.exact);
}

bool IsNear(double left, const SmallCase::Element& e) { return left <= e.bound || IsSmall(left, e); }

}  // namespace

// Takes the elements of normal rows. The sweep runs in one thread.
class SmallCase::Sink final : public oracle::ElementSink {
 public:
  explicit Sink(SmallCase* small) : small_(*small) {}

  void Take(const oracle::ElementRow& row) override {
    if (row.output == Output::kLoss) return;
    const bool weight = row.output == Output::kGradWeight;
    const std::vector<int64_t>& rows = small_.places_.rows;
    const auto at = std::ranges::lower_bound(rows, row.row);
    if (!weight && (at == rows.end() || *at != row.row)) return;
    const int64_t unit = weight ? row.row : at - rows.begin();
    const kernel::ConstTensor got = kernel::AsConst(*oracle::Find(small_.results_, row.output));
    for (int64_t j = 0; j < row.count; ++j) {
      const oracle::Element e = row.at(j);
      if (e.expect != oracle::Expect::kFinite) continue;
      small_.elements_[static_cast<size_t>(row.output)].push_back(
          {static_cast<size_t>(unit * row.count + j), e.value, e.bound,
           oracle::ReadElement(got, row.row, j)});
    }
  }

 private:
  SmallCase& small_;
};

SmallCase::SmallCase(const kernel::Problem& problem, const kernel::Results& results,
                     const oracle::Contract& contract, oracle::Inputs inputs)
    : inputs_(std::move(inputs)), family_(FamilyOf(contract, problem.hidden.dtype)), results_(results) {
  results_.loss.reset();
  places_.rows = inputs_.NormalRows();
  places_.hidden_columns.resize(static_cast<size_t>(inputs_.h));
  std::iota(places_.hidden_columns.begin(), places_.hidden_columns.end(), 0);
  places_.weight_rows.resize(static_cast<size_t>(inputs_.v));
  std::iota(places_.weight_rows.begin(), places_.weight_rows.end(), 0);
  options_.grad_hidden = results_.grad_hidden.has_value();
  options_.grad_weight = results_.grad_weight.has_value();
  Sink sink(this);
  oracle::Sweep(problem, results_, contract, {}, &sink);
  comparison_.emplace(problem, results_, contract, inputs_, places_);
  fp32_.emplace(problem, inputs_, places_, options_);
  exact_.emplace(problem, inputs_, family_, places_, options_, *comparison_, &*fp32_);
}

std::unique_ptr<SmallCase> SmallCase::Of(const kernel::Problem& problem, const kernel::Results& results,
                                         const oracle::Contract& contract) {
  oracle::Inputs inputs = oracle::LoadInputs(problem, contract);
  if (inputs.NormalRows().empty() || inputs.v == 0 || inputs.h == 0 || inputs.first_invalid_row >= 0) {
    return nullptr;
  }
  if (inputs.n * inputs.v > kMostMultiplyAdds / inputs.h) return nullptr;
  std::unique_ptr<SmallCase> small(new SmallCase(problem, results, contract, std::move(inputs)));
  for (const std::vector<Element>& of_output : small->elements_) {
    if (std::ranges::any_of(of_output, [](const Element& e) { return !std::isfinite(e.got); })) {
      return nullptr;
    }
  }
  return small;
}

int64_t SmallCase::failing() const {
  int64_t count = 0;
  for (const std::vector<Element>& of_output : elements_) {
    count += std::ranges::count_if(of_output, &Element::Fails);
  }
  return count;
}

std::optional<double> SmallCase::LeftUnder(const Shortcuts& shortcuts) {
  const std::vector<ExactValues> sides = exact_->Under(shortcuts);
  int64_t failing = 0, small = 0;
  double squares = 0;
  for (const Output o : oracle::kOutputs) {
    for (const Element& e : elements_[static_cast<size_t>(o)]) {
      const double left = Nearest(e, o, sides);
      if (!(left <= e.bound)) return std::nullopt;
      if (!e.Fails()) continue;
      ++failing;
      squares += left * left;
      small += IsSmall(left, e);
    }
  }
  if (static_cast<double>(small) < kShare * static_cast<double>(failing)) return std::nullopt;
  return squares;
}

SmallCase::Shown SmallCase::ShownIn(const Shortcuts& shortcuts, Output output) {
  Shown shown;
  const std::vector<Element>& elements = elements_[static_cast<size_t>(output)];
  if (elements.empty()) return shown;
  const std::vector<ExactValues> sides = exact_->Under(shortcuts);
  for (const Element& e : elements) {
    if (!(std::abs(sides.front()[output][e.at] - e.exact) > 2 * e.bound)) continue;
    shown.absent += !e.Fails();
    shown.present += e.Fails() && IsNear(Nearest(e, output, sides), e);
  }
  return shown;
}

std::vector<size_t> SmallCase::Failing(Output output) const {
  const std::vector<Element>& elements = elements_[static_cast<size_t>(output)];
  std::vector<size_t> failing;
  for (size_t i = 0; i < elements.size(); ++i) {
    if (elements[i].Fails()) failing.push_back(i);
  }
  return failing;
}

void SmallCase::TakeExplained(const Shortcuts& shortcuts, Output output, std::vector<size_t>* failing) {
  const std::vector<Element>& elements = elements_[static_cast<size_t>(output)];
  const std::vector<ExactValues> sides = exact_->Under(shortcuts);
  std::erase_if(*failing, [&](size_t i) {
    const Element& e = elements[i];
    const double left = Nearest(e, output, sides);
    return left <= 2 * e.bound || left <= std::abs(e.got - e.exact) / 2;
  });
}

bool SmallCase::Explains(const Shortcuts& shortcuts, Output output) {
  const std::vector<Element>& elements = elements_[static_cast<size_t>(output)];
  if (std::ranges::none_of(elements, &Element::Fails)) return false;
  const std::vector<ExactValues> sides = exact_->Under(shortcuts);
  int64_t failing = 0, near = 0;
  for (const Element& e : elements) {
    if (!e.Fails()) continue;
    ++failing;
    near += IsNear(Nearest(e, output, sides), e);
  }
  return static_cast<double>(near) >= kShare * static_cast<double>(failing);
}

}  // namespace plumbline::fuzz
