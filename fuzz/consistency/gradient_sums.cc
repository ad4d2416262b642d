// SPDX-License-Identifier: Apache-2.0
#include "fuzz/consistency/gradient_sums.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <unordered_map>

#include "fuzz/base/text.h"
#include "oracle/numeric/pack.h"

namespace plumbline::fuzz {
namespace {

// Rounding errors of rows of weight that are alike, added up before they are squared.
class AlikeRounding {
 public:
  explicit AlikeRounding(const kernel::ConstTensor& weight) : first_(FirstAlike(weight)) {
    for (const int64_t row : first_) ++times_[row];
  }
  void Add(int64_t row, const std::vector<double>& rounding, const std::vector<double>& weight,
           WeightSums* sums) {
    const int64_t first = first_[static_cast<size_t>(row)];
    if (times_[first] == 1) return Square(rounding, weight, sums);
    std::vector<double>& all = pending_[first];
    all.resize(rounding.size());
    for (size_t d = 0; d < rounding.size(); ++d) all[d] += rounding[d];
    if (--left_.try_emplace(first, times_[first]).first->second == 0) Square(all, weight, sums);
  }

 private:
  static void Square(const std::vector<double>& rounding, const std::vector<double>& weight,
                     WeightSums* sums) {
    for (size_t d = 0; d < rounding.size(); ++d) {
      const double r = rounding[d], of_inner = r * weight[d];
      sums->rounding_squares[d] += r * r;
      sums->inner_rounding_squares += of_inner * of_inner;
    }
  }

  std::vector<int64_t> first_;
  std::unordered_map<int64_t, int64_t> times_, left_;
  std::unordered_map<int64_t, std::vector<double>> pending_;
};

}  // namespace

WeightSums SumGradWeight(const ConsistencyContext& c) {
  const int64_t v = c.problem.vocab(), h = c.problem.hidden_size();
  const auto size = static_cast<size_t>(h);
  const kernel::Tensor& tensor = *c.results.grad_weight;
  const GradientErrors of = GradientErrorsOf(c, oracle::Output::kGradWeight, c.arithmetic.any);
  WeightSums s;
  for (auto* each : {&s.sum, &s.magnitude, &s.rounding, &s.rounding_squares}) each->resize(size);
  s.underflow = of.underflow;
  std::vector<double> got(size), weight(size), rounding(size);
  std::optional<AlikeRounding> alike;
  if (c.statistical() && of.rounding > 0) alike.emplace(c.problem.weight);
  for (int64_t row = 0; row < v; ++row) {
    oracle::LoadRow(oracle::Matrix::Of(kernel::AsConst(tensor)), row, h, 0, got.data(), nullptr);
    oracle::LoadRow(oracle::Matrix::Of(c.problem.weight), row, h, 0, weight.data(), nullptr);
    for (size_t d = 0; d < size; ++d) {
      const double x = got[d], product = x * weight[d];
      s.sum[d] += x;
      s.magnitude[d] += std::fabs(x);
      s.inner += product;
      s.inner_magnitude += std::fabs(product);
    }
    if (!alike) continue;
    for (size_t d = 0; d < size; ++d) rounding[d] = of.rounding * std::fabs(got[d]) + of.rounding_eta;
    alike->Add(row, rounding, weight, &s);
  }
  for (size_t d = 0; d < size; ++d) {
    s.finite = s.finite && std::isfinite(s.magnitude[d]);
    s.rounding[d] = of.rounding * s.magnitude[d] + static_cast<double>(v) * of.rounding_eta;
  }
  s.inner_rounding = of.rounding * s.inner_magnitude + of.rounding_eta * c.operands.weight_sum;
  return s;
}

std::vector<double> TimesAlike(const ConsistencyContext& c) {
  const auto n = static_cast<size_t>(c.problem.rows());
  if (!c.statistical()) return std::vector<double>(n, 1);
  // Alike in their hidden alone, they may have other labels: taking their errors for the same is safe.
  const std::vector<int64_t> first = FirstAlike(c.problem.hidden);
  std::vector<double> times(n);
  for (size_t i = 0; i < n; ++i) {
    if (!c.in().LeftOut(static_cast<int64_t>(i))) times[i] = 1;
  }
  std::unordered_map<int64_t, double> count;
  for (size_t i = 0; i < n; ++i) count[first[i]] += times[i];
  for (size_t i = 0; i < n; ++i) times[i] *= std::sqrt(count[first[i]]);
  return times;
}

std::string UnfitForSums(const ConsistencyContext& c) {
  if (c.in().first_invalid_row >= 0) {
    return Text("row %lld has an invalid label or temperature", c.NameOf(c.in().first_invalid_row));
  }
  if (const int64_t row = c.FirstUnfitRow(); row >= 0) {
    return Text("nothing can be said of row %lld without its logits", c.NameOf(row));
  }
  return {};
}

bool FitsInSums(const ConsistencyContext& c) {
  double of_weight = 0, of_hidden = 0, largest = 0, weights = 0;
  weights = c.operands.weight_norm;
  for (int64_t i = 0; i < c.in().n; ++i) {
    if (c.in().LeftOut(i)) continue;
    const auto at = static_cast<size_t>(i);
    of_weight += 8 * c.rows[at].magnitude * c.operands.hidden_norm[at];
    of_hidden = std::max(of_hidden, 8 * c.rows[at].magnitude * weights);
  }
  largest = c.arithmetic.any.accumulator.largest;
  const auto limit = [&](const std::optional<kernel::Tensor>& tensor) {
    return tensor ? std::min(largest, oracle::RoundingOf(tensor->dtype).largest) : largest;
  };
  return (!c.results.grad_weight || of_weight <= limit(c.results.grad_weight)) &&
         (!c.results.grad_hidden || of_hidden <= limit(c.results.grad_hidden));
}

}  // namespace plumbline::fuzz
