// SPDX-License-Identifier: Apache-2.0
//
// The order of columns, hidden dimensions and rows must not matter. Permuting them leaves every value
// within the sum of the two radii, every bound the same up to the error of its evaluation, and every
// class as it was.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "oracle/judge/judge.h"
#include "tests/oracle/agreement.h"
#include "tests/oracle/small_problem.h"

namespace plumbline::oracle {
namespace {

using kernel::Reduction;
using Order = std::vector<int64_t>;

Order Identity(int64_t n) {
  Order order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

Order Reversed(int64_t n) {
  Order order = Identity(n);
  std::reverse(order.begin(), order.end());
  return order;
}

Order Shuffled(int64_t n, uint64_t seed) {
  Order order = Identity(n);
  std::mt19937_64 rng(seed);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[rng() % i]);
  return order;
}

// Draws sizes on both sides of the blocks that the sweep works in, a column that stands out, and an
// ignored row.
SmallProblem Draw(Reduction reduction) {
  std::mt19937_64 rng(7);
  const auto unit = [&rng] { return static_cast<float>(rng() >> 40) * 0x1p-23f - 1; };
  SmallProblem p;
  p.n = 21, p.v = 203, p.h = 37;
  std::vector<float> hidden, weight;
  for (int64_t e = 0; e < p.n * p.h; ++e) hidden.push_back(unit());
  for (int64_t e = 0; e < p.v * p.h; ++e) weight.push_back(unit() * (e / p.h == 100 ? 8.0f : 1.0f));
  p.hidden = BitsOf(hidden);
  p.weight = BitsOf(weight);
  p.reduction = reduction;
  for (int64_t i = 0; i < p.n; ++i) {
    p.labels.push_back(i == 4 ? -100 : static_cast<int64_t>(rng() % 203));
    p.temperature.push_back(1 + 0.5f * unit());
    p.grad_entropy.push_back(unit());
  }
  for (int64_t i = 0; i < (reduction == Reduction::kNone ? p.n : 1); ++i) {
    p.grad_logprob.push_back(unit());
  }
  return p;
}

template <class T>
std::vector<T> Pick(const std::vector<T>& from, const Order& order) {
  std::vector<T> to;
  for (const int64_t i : order) to.push_back(from[static_cast<size_t>(i)]);
  return to;
}

std::vector<uint32_t> Pick(const std::vector<uint32_t>& from, const Order& rows, const Order& columns) {
  std::vector<uint32_t> to;
  for (const int64_t i : rows) {
    for (const int64_t j : columns) {
      to.push_back(from[static_cast<size_t>(i) * columns.size() + static_cast<size_t>(j)]);
    }
  }
  return to;
}

// Fails for a column, dimension or row that is lost, counted twice or confused with another at the edge
// of a block, for a label that is looked up by block, and for a sum whose error its radius does not
// cover.
void ExpectSame(const Order& rows, const Order& vocab, const Order& hidden, Reduction reduction) {
  SmallProblem p = Draw(reduction);
  SmallProblem q = p;
  q.hidden = Pick(p.hidden, rows, hidden);
  q.weight = Pick(p.weight, vocab, hidden);
  q.labels = Pick(p.labels, rows);
  for (int64_t& label : q.labels) {
    if (label >= 0) label = std::find(vocab.begin(), vocab.end(), label) - vocab.begin();
  }
  q.temperature = Pick(p.temperature, rows);
  q.grad_entropy = Pick(p.grad_entropy, rows);
  if (reduction == Reduction::kNone) q.grad_logprob = Pick(p.grad_logprob, rows);

  const kernel::Problem a = p.View(), b = q.View();
  const Expectation before = Expected(a, Everything(a, kernel::DType::kF32), CarefulContract());
  const Expectation after = Expected(b, Everything(b, kernel::DType::kF32), CarefulContract());
  for (const Output output : kOutputs) {
    const ExpectedTensor &x = before[output], &y = after[output];
    ASSERT_EQ(x.elements.size(), y.elements.size());
    if (x.elements.empty()) continue;
    for (int64_t i = 0; i < y.rows; ++i) {
      for (int64_t j = 0; j < y.columns; ++j) {
        const int64_t row = output == Output::kLoss         ? 0
                            : output == Output::kGradWeight ? vocab[static_cast<size_t>(i)]
                                                            : rows[static_cast<size_t>(i)];
        const Element& from = x.at(row, y.columns == 1 ? 0 : hidden[static_cast<size_t>(j)]);
        const Element& to = y.at(i, j);
        ASSERT_EQ(to.expect, from.expect) << Name(output) << i << " " << j;
        ASSERT_LE(std::fabs(to.value - from.value), to.radius + from.radius) << Name(output) << i << j;
        ASSERT_NEAR(to.bound, from.bound, 1e-6 * from.bound) << Name(output) << i << " " << j;
      }
    }
  }
}

class PermutationTest : public ::testing::TestWithParam<Reduction> {};

TEST_P(PermutationTest, OfTheVocabulary) {
  ExpectSame(Identity(21), Reversed(203), Identity(37), GetParam());
  ExpectSame(Identity(21), Shuffled(203, 1), Identity(37), GetParam());
}

TEST_P(PermutationTest, OfTheHiddenDimension) {
  ExpectSame(Identity(21), Identity(203), Reversed(37), GetParam());
  ExpectSame(Identity(21), Identity(203), Shuffled(37, 2), GetParam());
}

TEST_P(PermutationTest, OfTheRows) {
  ExpectSame(Reversed(21), Identity(203), Identity(37), GetParam());
  ExpectSame(Shuffled(21, 3), Shuffled(203, 4), Shuffled(37, 5), GetParam());
}

INSTANTIATE_TEST_SUITE_P(Reductions, PermutationTest,
                         ::testing::Values(Reduction::kNone, Reduction::kSum, Reduction::kMean));

}  // namespace
}  // namespace plumbline::oracle
