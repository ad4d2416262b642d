// SPDX-License-Identifier: Apache-2.0

#include "fuzz/triage/shrink/select.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "fuzz/problem/values.h"

namespace plumbline::fuzz {
namespace {

HostTensor GatherColumns(const HostTensor& from, const std::vector<int64_t>& columns) {
  const auto count = static_cast<int64_t>(columns.size());
  HostTensor to = HostTensor::Zeros(from.dtype, {from.shape[0], count});
  for (int64_t i = 0; i < from.shape[0]; ++i) {
    for (int64_t j = 0; j < count; ++j) {
      to.SetBits(i * count + j, from.GetBits(i * from.shape[1] + columns[static_cast<size_t>(j)]));
    }
  }
  return to;
}

OwnedProblem KeepVocab(const OwnedProblem& problem, const std::vector<int64_t>& indices) {
  OwnedProblem kept = problem;
  kept.weight = GatherRows(problem.weight.View(), indices);
  const auto count = static_cast<int64_t>(indices.size());
  for (int64_t i = 0; i < problem.rows(); ++i) {
    const int64_t label = problem.labels.GetInt(i);
    if (!problem.IsClass(label)) continue;
    const int64_t next = std::lower_bound(indices.begin(), indices.end(), label) - indices.begin();
    kept.labels.SetInt(i, std::min(next, count - 1));
  }
  return kept;
}

int64_t Position(const std::vector<int64_t>& indices, int64_t index) {
  const auto at = std::lower_bound(indices.begin(), indices.end(), index);
  return at != indices.end() && *at == index ? at - indices.begin() : -1;
}

// NaN ranks above everything: it spreads.
double Weight(double x) { return std::isnan(x) ? std::numeric_limits<double>::infinity() : x; }

class Order {
 public:
  explicit Order(int64_t extent) : seen_(static_cast<size_t>(extent)) {}
  void Add(int64_t index) {
    if (index < 0 || index >= static_cast<int64_t>(seen_.size()) || seen_[static_cast<size_t>(index)]) {
      return;
    }
    seen_[static_cast<size_t>(index)] = true;
    order_.push_back(index);
  }
  // Adds the remaining indices, those with the largest score first, equal ones in their order.
  std::vector<int64_t> Finish(const std::vector<double>& score) {
    std::vector<int64_t> rest = Iota(static_cast<int64_t>(seen_.size()));
    std::stable_sort(rest.begin(), rest.end(), [&](int64_t a, int64_t b) {
      return score[static_cast<size_t>(a)] > score[static_cast<size_t>(b)];
    });
    for (const int64_t index : rest) Add(index);
    return std::move(order_);
  }

 private:
  std::vector<bool> seen_;
  std::vector<int64_t> order_;
};

std::vector<int64_t> RowsByImportance(const OwnedProblem& p, const Focus& focus) {
  Order order(p.rows());
  order.Add(focus.row);
  for (int64_t i = 0; i < p.rows() && focus.vocab >= 0; ++i) {
    if (p.labels.GetInt(i) == focus.vocab) order.Add(i);
  }
  order.Add(0);
  order.Add(p.rows() - 1);
  return order.Finish(std::vector<double>(static_cast<size_t>(p.rows())));
}

std::vector<int64_t> VocabByImportance(const OwnedProblem& p, const Focus& focus, int64_t row) {
  constexpr int64_t kFewRows = 8;  // the labels of this many rows are used
  const std::vector<double> logits = Logits(p, row);
  std::vector<double> score(static_cast<size_t>(p.vocab()));
  for (size_t v = 0; v < logits.size(); ++v) score[v] = Weight(logits[v]);
  Order order(p.vocab());
  order.Add(focus.vocab);
  if (p.rows() > 0) order.Add(p.labels.GetInt(row));
  if (!score.empty()) {
    order.Add(std::max_element(score.begin(), score.end()) - score.begin());
    order.Add(std::min_element(score.begin(), score.end()) - score.begin());
  }
  for (int64_t i = 0; i < std::min(p.rows(), kFewRows); ++i) order.Add(p.labels.GetInt(i));
  order.Add(p.vocab() - 1);
  order.Add(0);
  return order.Finish(score);
}

std::vector<int64_t> HiddenByImportance(const OwnedProblem& p, const Focus& focus, int64_t row) {
  const int64_t width = p.hidden_size();
  std::vector<double> score(static_cast<size_t>(width));
  for (int64_t v = 0; v < p.vocab() && p.rows() > 0; ++v) {
    for (int64_t d = 0; d < width; ++d) {
      const double product = std::abs(static_cast<double>(p.hidden.GetFloat(row * width + d)) *
                                      static_cast<double>(p.weight.GetFloat(v * width + d)));
      double& largest = score[static_cast<size_t>(d)];
      largest = std::max(largest, Weight(product));
    }
  }
  Order order(width);
  order.Add(focus.column);
  return order.Finish(score);
}

}  // namespace

int64_t Extent(const OwnedProblem& problem, Axis axis) {
  return axis == Axis::kRows    ? problem.rows()
         : axis == Axis::kVocab ? problem.vocab()
                                : problem.hidden_size();
}

OwnedProblem Keep(const OwnedProblem& problem, Axis axis, const std::vector<int64_t>& indices) {
  if (axis == Axis::kRows) return SelectRows(problem, indices);
  if (axis == Axis::kVocab) return KeepVocab(problem, indices);
  OwnedProblem kept = problem;
  kept.hidden = GatherColumns(problem.hidden, indices);
  kept.weight = GatherColumns(problem.weight, indices);
  return kept;
}

Focus Follow(const Focus& focus, Axis axis, const std::vector<int64_t>& indices) {
  Focus followed = focus;
  int64_t& index = axis == Axis::kRows    ? followed.row
                   : axis == Axis::kVocab ? followed.vocab
                                          : followed.column;
  index = Position(indices, index);
  return followed;
}

std::vector<int64_t> ByImportance(const OwnedProblem& problem, Axis axis, const Focus& focus) {
  const int64_t row = std::max<int64_t>(focus.row, 0);
  if (axis == Axis::kRows) return RowsByImportance(problem, focus);
  return axis == Axis::kVocab ? VocabByImportance(problem, focus, row)
                              : HiddenByImportance(problem, focus, row);
}

}  // namespace plumbline::fuzz
