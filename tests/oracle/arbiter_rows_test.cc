// SPDX-License-Identifier: Apache-2.0
//
// The arbiter on the rows and values that kernel/OPERATION.md calls special, and on reductions, shapes
// and layouts. Expected values are written out, or are those of another problem that has no special
// row.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "oracle/arbiter.h"
#include "tests/oracle/small_problem.h"

namespace plumbline::oracle {
namespace {

using kernel::DType;
using kernel::Reduction;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

const std::vector<Output> kPerRow = {Output::kLogprob, Output::kEntropy, Output::kLse};

// Three rows, four columns, H = 2, every element and upstream gradient different from the others.
SmallProblem Three() {
  SmallProblem p;
  p.n = 3, p.v = 4, p.h = 2;
  p.hidden = BitsOf({1, -0.5f, 0.25f, 2, -1.5f, 0.75f});
  p.weight = BitsOf({0.5f, 1, -1, 0.125f, 2, -0.25f, 1.5f, 3});
  p.labels = {2, 0, 3};
  p.grad_logprob = {1, -2, 0.5f};
  p.grad_entropy = {0.25f, 1, -1};
  return p;
}

// A problem that has row i of p alone.
SmallProblem Only(const SmallProblem& p, size_t i) {
  SmallProblem q = p;
  q.n = 1;
  q.hidden = {p.hidden[2 * i], p.hidden[2 * i + 1]};
  q.labels = {p.labels[i]};
  q.grad_logprob = {p.grad_logprob[i]};
  q.grad_entropy = {p.grad_entropy[i]};
  return q;
}

std::string Digits(SmallProblem* p, Output output, int64_t row = 0, int64_t column = 0) {
  return Arbiter(p->View()).Evaluate(output, row, column).digits;
}

void ExpectRow(SmallProblem* p, int64_t i, const std::string& forward, const std::string& gradient) {
  Arbiter arbiter(p->View());
  for (Output o : kPerRow) EXPECT_EQ(arbiter.Evaluate(o, i, 0).digits, forward) << Name(o);
  for (int64_t d = 0; d < 2; ++d) {
    EXPECT_EQ(arbiter.Evaluate(Output::kGradHidden, i, d).digits, gradient);
  }
}

// Row i of p has the digits of row j of q. Fails if a neighbour affects it.
void ExpectSameRow(SmallProblem* p, int64_t i, SmallProblem* q, int64_t j) {
  Arbiter a(p->View()), b(q->View());
  for (Output o : {Output::kLogprob, Output::kEntropy, Output::kLse, Output::kGradHidden}) {
    EXPECT_EQ(a.Evaluate(o, i, 1).digits, b.Evaluate(o, j, 1).digits) << Name(o);
  }
}

void ExpectGradWeight(SmallProblem* p, const std::string& digits) {
  Arbiter arbiter(p->View());
  for (int64_t v = 0; v < p->v; ++v) {
    for (int64_t d = 0; d < p->h; ++d) {
      EXPECT_EQ(arbiter.Evaluate(Output::kGradWeight, v, d).digits, digits) << v << " " << d;
    }
  }
}

// Each row equals the row alone, and grad_weight is the sum of theirs. Fails if a row reads another's
// hidden, label or upstream gradient.
TEST(ArbiterRows, AreIndependent) {
  SmallProblem p = Three();
  double sum = 0;
  for (size_t i = 0; i < 3; ++i) {
    SmallProblem one = Only(p, i);
    ExpectSameRow(&p, static_cast<int64_t>(i), &one, 0);
    sum += Arbiter(one.View()).Evaluate(Output::kGradWeight, 3, 1).high;
  }
  // The sum has three roundings of terms below 8.
  EXPECT_NEAR(Arbiter(p.View()).Evaluate(Output::kGradWeight, 3, 1).high, sum, 24 * 0x1p-53);
}

// An ignored row is left out before anything of it is looked at, even where its label is a column.
// Fails if 0 * NaN reaches grad_weight or the loss, or if the label is looked up first.
TEST(ArbiterRows, Ignored) {
  for (int64_t ignore_index : {int64_t{-100}, int64_t{1}}) {
    SmallProblem p = Three();
    p.ignore_index = p.labels[1] = ignore_index;
    p.hidden[2] = BitsOf({kNaN})[0];
    p.temperature = {1, -1, 1};
    p.grad_logprob[1] = kInf;
    p.grad_entropy[1] = kNaN;
    ExpectRow(&p, 1, "0", "0");
    SmallProblem without = Three();
    without.n = 2;
    without.hidden = {p.hidden[0], p.hidden[1], p.hidden[4], p.hidden[5]};
    without.labels = {2, 3};
    without.grad_logprob = {1, 0.5f};
    without.grad_entropy = {0.25f, -1};
    ExpectSameRow(&p, 0, &without, 0);
    ExpectSameRow(&p, 2, &without, 1);
    EXPECT_EQ(Digits(&p, Output::kGradWeight, 3, 0), Digits(&without, Output::kGradWeight, 3, 0));
    for (Reduction reduction : {Reduction::kSum, Reduction::kMean}) {
      for (SmallProblem* q : {&p, &without}) {
        q->reduction = reduction;
        q->grad_logprob = {1};
      }
      EXPECT_EQ(Digits(&p, Output::kLoss), Digits(&without, Output::kLoss));
      EXPECT_EQ(Digits(&p, Output::kGradWeight, 3, 0), Digits(&without, Output::kGradWeight, 3, 0));
      p.grad_logprob = without.grad_logprob = Three().grad_logprob;
    }
  }
}

// g = k = 0 leaves a row out of backward whatever it holds, and its forward outputs stay. Fails if zero
// is multiplied by NaN, or if one of g and k alone is enough.
TEST(ArbiterRows, LeftOutOfBackward) {
  SmallProblem p = Three();
  p.hidden[2] = BitsOf({kNaN})[0];
  p.grad_logprob[1] = -0.0f;
  p.grad_entropy[1] = 0;
  ExpectRow(&p, 1, "nan", "0");
  SmallProblem q = Three();
  q.labels[1] = q.ignore_index;
  EXPECT_EQ(Digits(&p, Output::kGradWeight, 2, 1), Digits(&q, Output::kGradWeight, 2, 1));
  p.grad_entropy[1] = 0x1p-149f;
  ExpectRow(&p, 1, "nan", "nan");
  ExpectGradWeight(&p, "nan");
}

// Fails if a maximum drops a NaN, or if a NaN reaches another row.
TEST(ArbiterRows, NaN) {
  SmallProblem p = Three(), good = Three();
  p.hidden[3] = BitsOf({kNaN})[0];
  ExpectRow(&p, 1, "nan", "nan");
  ExpectSameRow(&p, 0, &good, 0);
  ExpectSameRow(&p, 2, &good, 2);
  ExpectGradWeight(&p, "nan");
  SmallProblem w = Three();
  w.weight[5] = BitsOf({kNaN})[0];
  for (int64_t i = 0; i < 3; ++i) ExpectRow(&w, i, "nan", "nan");
}

// Hidden is infinite. Beside a zero weight 0 * inf is NaN; weights of both signs give +inf among the
// logits; weights of one sign give all logits +inf, or all -inf. Each row is NaN. Fails if infinities
// are clamped, or if a row of -inf counts as empty.
TEST(ArbiterRows, InfiniteHidden) {
  struct Case {
    float hidden;
    std::vector<float> weight;
  };
  for (const Case& c : {Case{kInf, {0, 0, 1, 0}}, Case{-kInf, {1, -1, 2, 3}}, Case{kInf, {1, 1, 2, 3}},
                        Case{kInf, {-1, -1, -2, -3}}, Case{kInf, {-1, -2, 0, -3}}}) {
    SmallProblem p = Three(), good = Three();
    p.hidden[2] = BitsOf({c.hidden})[0];
    for (size_t v = 0; v < 4; ++v) p.weight[2 * v] = good.weight[2 * v] = BitsOf({c.weight[v]})[0];
    ExpectRow(&p, 1, "nan", "nan");
    ExpectSameRow(&p, 0, &good, 0);
    ExpectSameRow(&p, 2, &good, 2);
  }
}

// A weight row of -inf. Where the logit is -inf the column does not exist for the row, but grad_hidden
// multiplies its 0 by that column's infinite weight. A label there has g (1 - 0), and the product with
// the infinite weight is infinite. Fails if -inf - max or p ln p makes a NaN, or if the label is left
// out.
TEST(ArbiterRows, LogitOfMinusInfinity) {
  SmallProblem p = Three();
  p.weight[2] = BitsOf({-kInf})[0];  // column 1; row 0 has hidden 1 there, rows 1 and 2 0.25 and -1.5
  SmallProblem three = Only(Three(), 0);
  three.v = 3;
  three.weight = {p.weight[0], p.weight[1], p.weight[4], p.weight[5], p.weight[6], p.weight[7]};
  three.labels = {1};
  SmallProblem one = Only(p, 0);
  for (Output o : kPerRow) EXPECT_EQ(Digits(&one, o), Digits(&three, o)) << Name(o);
  EXPECT_EQ(Digits(&one, Output::kGradHidden, 0, 0), "nan");
  EXPECT_EQ(Digits(&one, Output::kGradHidden, 0, 1), Digits(&three, Output::kGradHidden, 0, 1));
  EXPECT_EQ(Digits(&one, Output::kGradWeight, 1, 0), "0");
  EXPECT_EQ(Digits(&one, Output::kGradWeight, 2, 0), Digits(&three, Output::kGradWeight, 1, 0));
  ExpectRow(&p, 2, "nan", "nan");  // -1.5 * -inf = +inf

  one.labels = {1};
  EXPECT_EQ(Digits(&one, Output::kLogprob), "-inf");
  EXPECT_EQ(Digits(&one, Output::kEntropy), Digits(&three, Output::kEntropy));
  // Column 0 is not the label in either problem, and its p is the same in both.
  EXPECT_EQ(Digits(&one, Output::kGradWeight, 0), Digits(&three, Output::kGradWeight, 0));
  one.temperature = {0.5f};
  one.grad_logprob = {-3};
  EXPECT_EQ(Arbiter(one.View()).Evaluate(Output::kGradWeight, 1, 0).high, -6);  // hidden is 1 there
  EXPECT_EQ(Digits(&one, Output::kGradHidden, 0, 0), "inf");
  one.grad_logprob = {0};
  EXPECT_EQ(Digits(&one, Output::kGradWeight, 1, 0), "0");
  EXPECT_EQ(Digits(&one, Output::kGradHidden, 0, 0), "nan");
  one.reduction = Reduction::kSum;
  EXPECT_EQ(Digits(&one, Output::kLoss), "inf");
}

// Fails if a bad label or temperature is clamped, is ignored, or reaches another row's outputs.
TEST(ArbiterRows, Invalid) {
  for (int64_t label : {int64_t{-1}, int64_t{4}, std::numeric_limits<int64_t>::min()}) {
    SmallProblem p = Three(), good = Three();
    p.labels[1] = label;
    p.grad_logprob[1] = p.grad_entropy[1] = 0;  // an invalid row is not left out
    ExpectRow(&p, 1, "nan", "nan");
    ExpectSameRow(&p, 0, &good, 0);
    ExpectSameRow(&p, 2, &good, 2);
    ExpectGradWeight(&p, "nan");
    p.reduction = Reduction::kSum;
    p.grad_logprob = {1};
    EXPECT_EQ(Digits(&p, Output::kLoss), "nan");
  }
  for (float temperature : {0.0f, -0.0f, -1.0f, kInf, kNaN}) {
    SmallProblem p = Three(), good = Three();
    p.temperature = {1, temperature, 1};
    ExpectRow(&p, 1, "nan", "nan");
    ExpectSameRow(&p, 2, &good, 2);
    p.temperature = {temperature};
    for (int64_t i = 0; i < 3; ++i) ExpectRow(&p, i, "nan", "nan");
  }
}

// Fails if sum and mean are mixed up, if an invalid row is not counted in n, or if g = -gamma / n is
// rounded: a third is no fp64 number, and 3 * (1/3) must be 1 to 2^-100.
TEST(ArbiterRows, Reductions) {
  SmallProblem p = Three();
  p.grad_entropy = {};
  double sum = 0;
  for (int64_t i = 0; i < 3; ++i) sum -= Arbiter(p.View()).Evaluate(Output::kLogprob, i, 0).high;
  p.reduction = Reduction::kSum;
  p.grad_logprob = {-3};
  Arbiter total(p.View());
  EXPECT_NEAR(total.Evaluate(Output::kLoss, 0, 0).high, sum, sum * 0x1p-51);
  p.reduction = Reduction::kMean;
  p.grad_logprob = {1};
  Arbiter mean(p.View());
  EXPECT_NEAR(mean.Evaluate(Output::kLoss, 0, 0).high, sum / 3, sum * 0x1p-51);
  SmallProblem plain = Three();
  plain.grad_entropy = {};
  plain.grad_logprob = {3, 3, 3};
  Arbiter none(plain.View());
  for (Output o : {Output::kGradHidden, Output::kGradWeight}) {
    const ArbiterValue whole = none.Evaluate(o, 1, 0), third = mean.Evaluate(o, 1, 0);
    EXPECT_EQ(total.Evaluate(o, 1, 0).digits, whole.digits);
    // whole is -9 times third. 8 times third.high is exact, the ninth multiple is added after it, and
    // the low parts are added last.
    const double rest = whole.high + 8 * third.high;
    EXPECT_LT(std::fabs((rest + third.high) + (whole.low + 9 * third.low)),
              std::fabs(whole.high) * 0x1p-100);
  }
  SmallProblem with_invalid = p;
  with_invalid.labels[2] = -1;
  EXPECT_EQ(Digits(&with_invalid, Output::kGradHidden, 1, 0), Digits(&p, Output::kGradHidden, 1, 0));
}

// No row is counted. Fails if the loss is 0/0 and not 0, or if a gradient is not 0.
TEST(ArbiterRows, NothingCounted) {
  for (Reduction reduction : {Reduction::kSum, Reduction::kMean}) {
    SmallProblem p = Three();
    p.labels.assign(3, p.ignore_index);
    p.reduction = reduction;
    p.grad_logprob = {kNaN};
    EXPECT_EQ(Digits(&p, Output::kLoss), "0");
    ExpectGradWeight(&p, "0");
    SmallProblem empty = Three();
    empty.n = 0;
    empty.hidden = {};
    empty.labels = {};
    empty.reduction = reduction;
    empty.grad_logprob = {1};
    empty.grad_entropy = {};
    EXPECT_EQ(Digits(&empty, Output::kLoss), "0");
    ExpectGradWeight(&empty, "0");
  }
}

// H = 0 makes every logit 0. V = 0 is harmless where every row is ignored. Fails if an empty dimension
// counts as an error or gives NaN.
TEST(ArbiterRows, EmptyDimensions) {
  SmallProblem p;
  p.n = 2, p.v = 7, p.h = 0;
  p.labels = {4, -100};
  EXPECT_EQ(Digits(&p, Output::kLse), "1.945910149055313305105352743443179729637e+00");
  EXPECT_EQ(Digits(&p, Output::kEntropy), "1.945910149055313305105352743443179729637e+00");
  EXPECT_EQ(Digits(&p, Output::kLogprob), "-1.945910149055313305105352743443179729637e+00");
  p.v = 0;
  EXPECT_EQ(Digits(&p, Output::kLogprob, 0), "nan");
  EXPECT_EQ(Digits(&p, Output::kLogprob, 1), "0");
}

// One problem in every layout. Fails if a stride, a padding element (a NaN) or the width of a label is
// misread.
TEST(ArbiterRows, Layouts) {
  SmallProblem p = Three();
  p.grad_entropy.assign(3, 0.25f);
  SmallProblem q = p;
  q.hidden_major = q.narrow_labels = true;
  q.row_padding = 3;
  q.grad_entropy = {0.25f};
  q.temperature = {1};
  p.labels[1] = q.labels[1] = -100;
  Arbiter a(p.View()), b(q.View());
  for (Output o : {Output::kLogprob, Output::kEntropy, Output::kGradHidden, Output::kGradWeight}) {
    for (int64_t row = 0; row < 3; ++row) {
      EXPECT_EQ(a.Evaluate(o, row, 1).digits, b.Evaluate(o, row, 1).digits) << Name(o) << row;
    }
  }
  // Hidden is one row, broadcast.
  kernel::Problem all_first = p.View();
  all_first.hidden.stride[0] = 0;
  EXPECT_EQ(Arbiter(all_first).Evaluate(Output::kLse, 2, 0).digits, Digits(&p, Output::kLse, 0));
}

// A repeated question is cheap, an element that needs every row costs as much as they do, and an
// ignored row costs nothing. Fails if a caller with a budget would be misled by a row's cost.
TEST(ArbiterRows, Cost) {
  SmallProblem p = Three();
  p.labels[2] = -100;
  Arbiter arbiter(p.View());
  const double one = arbiter.Cost(Output::kGradHidden, 0, 0);
  EXPECT_GT(one, 4 * 100);
  EXPECT_GT(arbiter.Cost(Output::kGradWeight, 0, 0), 1.9 * (one - 100));
  EXPECT_LT(arbiter.Cost(Output::kGradHidden, 2, 0), 10);
  arbiter.Evaluate(Output::kLogprob, 0, 0);
  EXPECT_LT(arbiter.Cost(Output::kGradHidden, 0, 0), one / 10);
  EXPECT_LT(arbiter.Cost(Output::kLoss, 0, 0), 1.5 * one);
}

}  // namespace
}  // namespace plumbline::oracle
