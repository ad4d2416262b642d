// SPDX-License-Identifier: Apache-2.0
#include "fuzz/consistency/operands.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <unordered_map>

#include "fuzz/base/mix.h"
#include "oracle/numeric/pack.h"

namespace plumbline::fuzz {
namespace {

struct RowSums {
  double norm = 0, sum = 0, largest = 0;
  bool finite = true;
};

RowSums SumsOf(const std::vector<double>& magnitude) {
  RowSums s;
  double squares = 0;
  for (const double x : magnitude) {
    squares += x * x;
    s.sum += x;
    s.largest = std::max(s.largest, x);
  }
  s.finite = std::isfinite(s.sum);
  s.norm = std::sqrt(squares) * (1 + 0x1p-30);  // what the sum of squares may have lost in fp64
  s.sum *= 1 + 0x1p-30;
  return s;
}

// The dimensions in which no row of weight has differed from the first yet.
class EqualDimensions {
 public:
  void Add(const std::vector<double>& row) {
    if (first_.empty()) {
      first_ = row;
      for (size_t d = 0; d < row.size(); ++d) left_.push_back(d);
    }
    std::erase_if(left_, [&](size_t d) { return row[d] != first_[d]; });
  }
  void Give(Operands* to) const {
    for (const size_t d : left_) {
      to->equal_dimensions.push_back(static_cast<int64_t>(d));
      to->equal_value.push_back(first_[d]);
    }
  }

 private:
  std::vector<double> first_;
  std::vector<size_t> left_;
};

}  // namespace

Operands ReadOperands(const kernel::Problem& problem, const oracle::Contract& contract, double least,
                      std::optional<int64_t> counted, bool statistical) {
  Operands o;
  o.in = oracle::LoadInputs(problem, contract, counted);
  const int64_t n = problem.rows(), v = problem.vocab(), h = problem.hidden_size();
  std::vector<double> value(static_cast<size_t>(h)), magnitude(value.size());
  std::vector<double> mean_square(value.size(), 0.0), norms;
  EqualDimensions equal;
  for (int64_t row = 0; row < v; ++row) {
    oracle::LoadRow(oracle::Matrix::Of(problem.weight), row, h, least, value.data(), magnitude.data());
    const RowSums s = SumsOf(magnitude);
    equal.Add(value);
    for (size_t d = 0; statistical && d < value.size(); ++d) mean_square[d] += value[d] * value[d];
    norms.push_back(s.norm);
    o.weight_norm = std::max(o.weight_norm, s.norm);
    o.weight_sum += s.sum;
    o.weight_finite = o.weight_finite && s.finite;
    o.largest = std::max(o.largest, s.largest);
  }
  equal.Give(&o);
  for (int64_t row = 0; row < n; ++row) {
    oracle::LoadRow(oracle::Matrix::Of(problem.hidden), row, h, least, value.data(), magnitude.data());
    const RowSums s = SumsOf(magnitude);
    double usual = 0;
    for (size_t d = 0; statistical && d < value.size(); ++d) {
      usual += value[d] * value[d] * mean_square[d] / static_cast<double>(v);
    }
    o.hidden_norm.push_back(s.norm);
    o.hidden_sum.push_back(s.sum);
    o.hidden_finite.push_back(s.finite);
    o.usual_logit.push_back(std::sqrt(usual));
    const auto at = static_cast<size_t>(row);
    const bool normal = o.in.kind[at] == oracle::RowKind::kNormal;
    o.label_norm.push_back(normal ? norms[static_cast<size_t>(o.in.label[at])] : 0);
    if (normal && s.finite) o.largest = std::max(o.largest, s.largest);
  }
  return o;
}

std::vector<int64_t> FirstAlike(const kernel::ConstTensor& matrix) {
  const int64_t rows = matrix.shape[0], columns = matrix.shape[1];
  std::vector<double> value(static_cast<size_t>(columns));
  std::unordered_map<uint64_t, int64_t> first;
  std::vector<int64_t> alike;
  for (int64_t row = 0; row < rows; ++row) {
    oracle::LoadRow(oracle::Matrix::Of(matrix), row, columns, 0, value.data(), nullptr);
    uint64_t hash = 1;
    for (const double x : value) hash = Mix(hash, std::bit_cast<uint64_t>(x));
    alike.push_back(first.emplace(hash, row).first->second);
  }
  return alike;
}

}  // namespace plumbline::fuzz
