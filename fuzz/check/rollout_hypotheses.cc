// SPDX-License-Identifier: Apache-2.0

#include "fuzz/check/rollout_hypotheses.h"

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <functional>
#include <memory>
#include <span>
#include <tuple>
#include <utility>

#include "fuzz/base/text.h"
#include "fuzz/check/kept_columns.h"
#include "kernel/dtype.h"
#include "oracle/numeric/threads.h"

namespace plumbline::fuzz {
namespace {

using kernel::DType;

// What is left of a row's log-ratio under a hypothesis, in nats; nullopt where it does not apply.
using LeftOf = std::function<std::optional<double>(size_t)>;

struct Guess {
  std::string what;
  LeftOf left;
};

double Narrowed(double value, DType dtype) {
  const auto narrow = static_cast<float>(value);
  return static_cast<double>(dtype == DType::kBf16 ? kernel::ToFloat(kernel::ToBFloat16(narrow))
                                                   : kernel::ToFloat(kernel::ToFloat16(narrow)));
}

// The rows' halves: a parameter is fitted on even places and tested on odd ones.
std::vector<size_t> Half(const RolloutRows& rows, size_t odd) {
  std::vector<size_t> half;
  for (size_t i = odd; i < rows.at.size(); i += 2) half.push_back(i);
  return half;
}

class Explainer {
 public:
  Explainer(const RolloutRows& rows, int threads) : rows_(rows), threads_(threads) {}

  RolloutHypothesis Test(const Guess& guess) const;
  std::vector<Guess> Guesses() const;

 private:
  // left(i) of each of these rows, in their order.
  std::vector<std::optional<double>> Over(const std::vector<size_t>& places, const LeftOf& left) const;
  // The sum of squares of what is left on the rows that parameters are fitted on.
  double Misfit(const LeftOf& left) const;
  // The row's logits, before the temperature.
  std::span<const double> z(size_t i) const { return rows_.logits->of(rows_.at[i]); }
  LeftOf AtTemperature(double t) const;
  double FittedTemperature() const;
  void AddSixteenBits(std::vector<Guess>* guesses) const;
  void AddShifts(std::vector<Guess>* guesses) const;
  void AddKeptColumns(std::vector<Guess>* guesses) const;

  const RolloutRows& rows_;
  const int threads_;
};

std::vector<std::optional<double>> Explainer::Over(const std::vector<size_t>& places,
                                                   const LeftOf& left) const {
  std::vector<std::optional<double>> values(places.size());
  oracle::ParallelRanges(
      threads_, static_cast<int64_t>(places.size()), [&](int /*worker*/, int64_t begin, int64_t end) {
        for (auto p = static_cast<size_t>(begin); p < static_cast<size_t>(end); ++p) {
          values[p] = left(places[p]);
        }
      });
  return values;
}

double Explainer::Misfit(const LeftOf& left) const {
  double sum = 0;
  for (const std::optional<double>& value : Over(Half(rows_, 0), left)) {
    sum += value ? *value * *value : 0;
  }
  return sum;
}

RolloutHypothesis Explainer::Test(const Guess& guess) const {
  const std::vector<size_t> places = Half(rows_, 1);
  const std::vector<std::optional<double>> values = Over(places, guess.left);
  RolloutHypothesis tested{guess.what};
  double energy = 0, left = 0, largest = 0, largest_left = 0;
  for (size_t p = 0; p < places.size(); ++p) {
    if (!values[p]) continue;
    const double ratio = rows_.exact[places[p]] - rows_.given[places[p]];
    const double square = ratio * ratio, square_left = *values[p] * *values[p];
    energy += square;
    left += square_left;
    ++tested.tested;
    if (square > largest) std::tie(largest, largest_left) = std::pair(square, square_left);
  }
  if (tested.tested == 0) return tested;
  const auto share = [](double of, double rest) { return of > 0 ? 1 - rest / of : 0; };
  tested.share =
      std::min(share(energy, left), share(energy - largest, std::max(0.0, left - largest_left)));
  tested.left = std::sqrt(left / static_cast<double>(tested.tested));
  return tested;
}

LeftOf Explainer::AtTemperature(double t) const {
  return [this, t](size_t i) -> std::optional<double> {
    return rows_.given[i] - LogprobOf(z(i), rows_.label[i], t);
  };
}

// The least squares over T: a grid from 1/8 to 8, then a golden section between the best one's
// neighbours, to 1e-6 relative.
double Explainer::FittedTemperature() const {
  constexpr int kGrid = 13;
  const auto misfit = [&](double log_t) { return Misfit(AtTemperature(std::exp2(log_t))); };
  const auto point = [](int at) { return -3 + 6.0 * at / (kGrid - 1); };
  int best = 0;
  double least = HUGE_VAL;
  for (int at = 0; at < kGrid; ++at) {
    const double now = misfit(point(at));
    if (now < least) std::tie(best, least) = std::pair(at, now);
  }
  const double golden = (std::sqrt(5.0) - 1) / 2;
  double low = point(best) - 0.5, high = point(best) + 0.5;
  double left = high - golden * (high - low), right = low + golden * (high - low);
  double at_left = misfit(left), at_right = misfit(right);
  while (high - low > 1.4e-6) {
    if (at_left <= at_right) {
      high = std::exchange(right, left);
      at_right = at_left;
      left = high - golden * (high - low);
      at_left = misfit(left);
    } else {
      low = std::exchange(left, right);
      at_left = at_right;
      right = low + golden * (high - low);
      at_right = misfit(right);
    }
  }
  return std::exp2((low + high) / 2);
}

void Explainer::AddSixteenBits(std::vector<Guess>* guesses) const {
  for (const DType dtype : {DType::kBf16, DType::kF16}) {
    const std::string name(kernel::Name(dtype));
    guesses->push_back({"logits rounded to " + name, [this, dtype](size_t i) -> std::optional<double> {
                          return rows_.given[i] -
                                 LogprobOf(z(i), rows_.label[i], rows_.temperature[i],
                                           [=](double logit) { return Narrowed(logit, dtype); });
                        }});
    guesses->push_back({"values stored in " + name, [this, dtype](size_t i) -> std::optional<double> {
                          return rows_.given[i] - Narrowed(rows_.exact[i], dtype);
                        }});
  }
}

void Explainer::AddShifts(std::vector<Guess>* guesses) const {
  const auto labels = [this](const std::vector<std::optional<int64_t>>& other) -> LeftOf {
    return [this, &other](size_t i) -> std::optional<double> {
      if (!other[i]) return std::nullopt;
      return rows_.given[i] - LogprobOf(z(i), *other[i], rows_.temperature[i]);
    };
  };
  const auto values = [this](const std::vector<std::optional<double>>& other) -> LeftOf {
    return [this, &other](size_t i) -> std::optional<double> {
      if (!other[i]) return std::nullopt;
      return *other[i] - rows_.exact[i];
    };
  };
  guesses->push_back({"each row has the logprob of the next row's label", labels(rows_.label_after)});
  guesses->push_back(
      {"each row has the logprob of the previous row's label", labels(rows_.label_before)});
  guesses->push_back({"each row has the previous row's value", values(rows_.given_after)});
  guesses->push_back({"each row has the next row's value", values(rows_.given_before)});
}

void Explainer::AddKeptColumns(std::vector<Guess>* guesses) const {
  const auto kept = std::make_shared<const KeptColumns>(rows_, threads_);
  const std::vector<size_t> fitted = Half(rows_, 0);
  const int64_t k = kept->FittedK(fitted);
  guesses->push_back({Text("only the top k = %" PRId64 " columns count (fitted), renormalised", k),
                      [this, kept, k](size_t i) -> std::optional<double> {
                        return rows_.given[i] - kept->TopK(i, k);
                      }});
  const double p = kept->FittedP(fitted);
  guesses->push_back({Text("only the top p = %.4g of the mass counts (fitted), renormalised", p),
                      [this, kept, p](size_t i) -> std::optional<double> {
                        return rows_.given[i] - kept->TopP(i, p);
                      }});
}

std::vector<Guess> Explainer::Guesses() const {
  std::vector<Guess> guesses;
  const bool any_temperature = std::ranges::any_of(rows_.temperature, [](double t) { return t != 1; });
  if (any_temperature) guesses.push_back({"the temperature was not applied", AtTemperature(1)});
  const double t = FittedTemperature();
  guesses.push_back({Text("another temperature: T = %.4g (fitted)", t), AtTemperature(t)});
  AddKeptColumns(&guesses);
  AddSixteenBits(&guesses);
  AddShifts(&guesses);
  guesses.push_back({"the opposite sign (a loss of each row)",
                     [this](size_t i) { return std::optional(-rows_.given[i] - rows_.exact[i]); }});
  return guesses;
}

}  // namespace

std::vector<RolloutHypothesis> ExplainRollout(const RolloutRows& rows, int threads) {
  if (rows.at.size() < 2 * RolloutHypothesis::kLeastTested || rows.exact == rows.given) return {};
  const Explainer explainer(rows, threads);
  std::vector<RolloutHypothesis> tested;
  for (const Guess& guess : explainer.Guesses()) {
    RolloutHypothesis hypothesis = explainer.Test(guess);
    if (hypothesis.tested > 0) tested.push_back(std::move(hypothesis));
  }
  // Where both fit, the one without a parameter stays first.
  std::ranges::stable_sort(tested, std::ranges::greater(), &RolloutHypothesis::share);
  double least = HUGE_VAL;
  const auto fits = [](const RolloutHypothesis& h) {
    return h.tested >= RolloutHypothesis::kLeastTested && h.share >= RolloutHypothesis::kLeastShare;
  };
  for (const RolloutHypothesis& h : tested) least = fits(h) ? std::min(least, h.left) : least;
  for (RolloutHypothesis& h : tested) {
    const bool poorer = least * least < (1 - RolloutHypothesis::kLeastShare) * h.left * h.left;
    h.explains = fits(h) && !poorer;
  }
  return tested;
}

}  // namespace plumbline::fuzz
