// SPDX-License-Identifier: Apache-2.0
//
// The arbiter against what is known without it: constants to 40 digits, computed with mpmath 1.3 at
// 4000 bits from the definitions, and identities that hold exactly. tests/oracle/arbiter_rows_test.cc
// has the special rows. Each comment names a defect that makes its test fail.

#include "oracle/arbiter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/oracle/small_problem.h"

namespace plumbline::oracle {
namespace {

using kernel::DType;
using Class = ArbiterValue::Class;

// One row with H = 1 and hidden = 1: the logits are the weights.
SmallProblem Logits(const std::vector<float>& logits, int64_t label) {
  SmallProblem p;
  p.n = p.h = 1;
  p.v = static_cast<int64_t>(logits.size());
  p.hidden = BitsOf({1});
  p.weight = BitsOf(logits);
  p.labels = {label};
  return p;
}

std::string Digits(Arbiter* arbiter, Output output, int64_t row = 0, int64_t column = 0) {
  return arbiter->Evaluate(output, row, column).digits;
}

// Fails if the vocabulary is miscounted, if lse forgets the maximum or if ln is short of 40 digits.
TEST(Arbiter, Ties) {
  SmallProblem p = Logits(std::vector<float>(7, 1.5f), 4);
  Arbiter arbiter(p.View());
  EXPECT_EQ(Digits(&arbiter, Output::kLse), "3.445910149055313305105352743443179729637e+00");
  EXPECT_EQ(Digits(&arbiter, Output::kEntropy), "1.945910149055313305105352743443179729637e+00");
  EXPECT_EQ(Digits(&arbiter, Output::kLogprob), "-1.945910149055313305105352743443179729637e+00");
}

// Fails for a wrong sign or factor in either gradient, for an entropy that is not -sum p ln p, and for
// an exponential or a logarithm with fewer than 40 good digits.
TEST(Arbiter, TwoTokens) {
  SmallProblem p = Logits({0, -0.75f}, 1);
  p.grad_logprob = {1};
  p.grad_entropy = {0};
  Arbiter first(p.View());
  EXPECT_EQ(Digits(&first, Output::kLse), "3.868710061148999436698402692140229086689e-01");
  EXPECT_EQ(Digits(&first, Output::kLogprob), "-1.136871006114899943669840269214022908669e+00");
  EXPECT_EQ(Digits(&first, Output::kEntropy), "6.274869817333552138000801823815886427433e-01");
  EXPECT_EQ(Digits(&first, Output::kGradWeight, 0), "-6.791786991753929731596801157765790212342e-01");
  EXPECT_EQ(Digits(&first, Output::kGradWeight, 1), "6.791786991753929731596801157765790212342e-01");
  p.grad_logprob = {0};
  p.grad_entropy = {1};
  Arbiter second(p.View());
  EXPECT_EQ(Digits(&second, Output::kGradWeight, 0), "-1.634212453213605221101878751231305923352e-01");
  EXPECT_EQ(Digits(&second, Output::kGradWeight, 1), "1.634212453213605221101878751231305923352e-01");
  // grad_hidden = sum of dz_v w_v = -0.75 dz_1.
  EXPECT_EQ(second.Evaluate(Output::kGradHidden, 0, 0).high,
            -0.75 * second.Evaluate(Output::kGradWeight, 1, 0).high);
}

// Fails if the temperature multiplies, is left out of the logits, or is left out of the gradient.
TEST(Arbiter, Temperature) {
  SmallProblem p = Logits({0, -0.75f}, 1);
  p.temperature = {0.5f};
  p.grad_logprob = {1};
  Arbiter first(p.View());
  EXPECT_EQ(Digits(&first, Output::kLse), "2.014132779827524094994828090570911052544e-01");
  EXPECT_EQ(Digits(&first, Output::kLogprob), "-1.701413277982752409499482809057091105254e+00");
  EXPECT_EQ(Digits(&first, Output::kEntropy), "4.750515636922869200886570410727187339350e-01");
  EXPECT_EQ(Digits(&first, Output::kGradWeight, 1), "1.635148952387287319214434357312496495092e+00");
  p.grad_logprob = {};
  p.grad_entropy = {1};
  Arbiter second(p.View());
  EXPECT_EQ(Digits(&second, Output::kGradWeight, 1), "4.474393562109985695046002313020340901555e-01");
}

// Fails for what a single column does not survive: an empty remainder, or ln of less than 1.
TEST(Arbiter, OneToken) {
  SmallProblem p = Logits({-3.25f}, 0);
  p.grad_logprob = {2};
  p.grad_entropy = {3};
  Arbiter arbiter(p.View());
  EXPECT_EQ(arbiter.Evaluate(Output::kLse, 0, 0).high, -3.25);
  for (Output o : {Output::kLogprob, Output::kEntropy, Output::kGradHidden, Output::kGradWeight}) {
    EXPECT_EQ(Digits(&arbiter, o), "0") << Name(o);
  }
}

// A common offset of 2^126 or -2^126 changes no digit of logprob and entropy. Fails with a mantissa
// under 126 + 133 bits for 40 digits, and if the exponentials are not shifted by the maximum.
TEST(Arbiter, CommonOffset) {
  for (float offset : {0x1p63f, -0x1p63f}) {
    SmallProblem p;
    p.n = 1, p.v = 4, p.h = 2;
    p.hidden = BitsOf({0x1p63f, 1});
    p.weight = BitsOf({offset, 0.5f, offset, -1.25f, offset, 2, offset, 0});
    p.labels = {3};
    Arbiter arbiter(p.View());
    EXPECT_EQ(arbiter.Evaluate(Output::kLse, 0, 0).high, offset * 0x1p63);
    p.hidden = BitsOf({0, 1});
    Arbiter plain(p.View());
    EXPECT_EQ(Digits(&arbiter, Output::kLogprob), Digits(&plain, Output::kLogprob));
    EXPECT_EQ(Digits(&arbiter, Output::kEntropy), Digits(&plain, Output::kEntropy));
    p.temperature = {4};
    Arbiter warm(p.View());
    EXPECT_EQ(Digits(&warm, Output::kLogprob), "-1.507069660533923309435465023636065817979e+00");
    EXPECT_EQ(Digits(&warm, Output::kEntropy), "1.343698285573269487428542589289026527213e+00");
  }
}

// 1 - p_y is 2^-100 and 2^-1010. Fails with fewer than 100 + 133 and 1010 + 133 bits anywhere, in the
// exponential, the logarithm near 1 or the sums.
TEST(Arbiter, NearOneHot) {
  struct Expected {
    float gap;
    const char *logprob, *entropy, *by_logprob, *by_entropy;
  };
  for (const Expected& e : {Expected{69.5f, "-6.554408540191793025411169503431826324718e-31",
                                     "4.620858020835214082914874499917944689498e-29",
                                     "6.554408540191793025411169503429678311153e-31",
                                     "-4.555313935433296152660762804880640687395e-29"},
                            Expected{700, "-9.859676543759770856705372947849465105116e-305",
                                     "6.911633257175599370550466436442475038686e-302",
                                     "9.859676543759770856705372947849465105116e-305",
                                     "-6.901773580631839599693761063494625573581e-302"}}) {
    SmallProblem p = Logits({e.gap, 0}, 0);
    p.grad_logprob = {1};
    Arbiter first(p.View());
    EXPECT_EQ(Digits(&first, Output::kLogprob), e.logprob);
    EXPECT_EQ(Digits(&first, Output::kEntropy), e.entropy);
    EXPECT_EQ(Digits(&first, Output::kGradWeight, 0), e.by_logprob);
    p.grad_logprob = {};
    p.grad_entropy = {1};
    Arbiter second(p.View());
    EXPECT_EQ(Digits(&second, Output::kGradWeight, 0), e.by_entropy);
  }
}

// Fails if a weight of e^-(2^30) raises an error or makes a NaN, in any output.
TEST(Arbiter, Underflow) {
  SmallProblem p = Logits({0, -0x1p30f, -0x1p100f}, 2);
  p.grad_logprob = {1};
  p.grad_entropy = {1};
  Arbiter arbiter(p.View());
  EXPECT_EQ(arbiter.Evaluate(Output::kLogprob, 0, 0).high, -0x1p100);
  EXPECT_EQ(Digits(&arbiter, Output::kEntropy), "0");
  EXPECT_EQ(Digits(&arbiter, Output::kGradWeight, 1), "0");
  EXPECT_EQ(arbiter.Evaluate(Output::kGradWeight, 2, 0).high, 1);
  EXPECT_EQ(arbiter.Evaluate(Output::kGradWeight, 0, 0).high, -1);
}

// lse of a single column is the logit, so every pattern is read back as it was decoded. Fails for a
// wrong bias, width of the fraction, sign, or handling of subnormals. The list holds the boundaries of
// each class.
TEST(Arbiter, Decodes) {
  const double inf = std::numeric_limits<double>::infinity();
  struct Pattern {
    DType dtype;
    uint32_t one, bits;
    double value;
  };
  const auto half = [](uint32_t bits, double value) {
    return Pattern{DType::kF16, 0x3c00, bits, value};
  };
  const auto bf16 = [](uint32_t bits, double value) {
    return Pattern{DType::kBf16, 0x3f80, bits, value};
  };
  const auto fp32 = [](uint32_t bits, double value) {
    return Pattern{DType::kF32, 0x3f800000, bits, value};
  };
  for (const Pattern& x : {
           half(0x0000, 0),
           half(0x8000, 0),
           half(0x0001, 0x1p-24),
           half(0x83ff, -1023 * 0x1p-24),
           half(0x0400, 0x1p-14),
           half(0x3c01, 1 + 0x1p-10),
           half(0xc500, -5),
           half(0x7bff, 65504),
           half(0x7c00, inf),
           half(0xfe01, NAN),
           half(0x7c01, NAN),
           bf16(0x0000, 0),
           bf16(0x8000, 0),
           bf16(0x0001, 0x1p-133),
           bf16(0x807f, -127 * 0x1p-133),
           bf16(0x0080, 0x1p-126),
           bf16(0x3f81, 1 + 0x1p-7),
           bf16(0xc0a0, -5),
           bf16(0x7f7f, 255 * 0x1p120),
           bf16(0x7f80, inf),
           bf16(0xffc1, NAN),
           bf16(0x7f81, NAN),
           fp32(0x00000000, 0),
           fp32(0x80000000, 0),
           fp32(0x00000001, 0x1p-149),
           fp32(0x807fffff, -8388607 * 0x1p-149),
           fp32(0x00800000, 0x1p-126),
           fp32(0x3f800001, 1 + 0x1p-23),
           fp32(0xc0a00000, -5),
           fp32(0x7f7fffff, 16777215 * 0x1p104),
           fp32(0x7f800000, inf),
           fp32(0xffc00001, NAN),
           fp32(0x7f800001, NAN),
       }) {
    SmallProblem p;
    p.n = p.v = p.h = 1;
    p.dtype = x.dtype;
    p.hidden = {x.one};
    p.weight = {x.bits};
    p.labels = {0};
    Arbiter as_weight(p.View());
    std::swap(p.hidden, p.weight);
    SmallProblem q = p;
    Arbiter as_hidden(q.View());
    for (Arbiter* arbiter : {&as_weight, &as_hidden}) {
      const ArbiterValue got = arbiter->Evaluate(Output::kLse, 0, 0);
      // A row is NaN if its only logit is infinite or NaN.
      ASSERT_EQ(got.kind, std::isfinite(x.value) ? Class::kFinite : Class::kNaN) << std::hex << x.bits;
      if (std::isfinite(x.value)) {
        EXPECT_EQ(got.high, x.value) << std::hex << x.bits;
        EXPECT_EQ(got.low, 0) << std::hex << x.bits;
      }
    }
  }
}

// Inputs are multiples of 1/16 below 8, so that adding 2^-18 to any of them is exact in fp32.
SmallProblem Random(uint64_t seed) {
  std::mt19937_64 rng(seed);
  SmallProblem p;
  p.n = 3, p.v = 6, p.h = 4;
  const auto draw = [&rng](size_t count) {
    std::vector<float> values(count);
    for (float& x : values) x = static_cast<float>(static_cast<int>(rng() % 65) - 32) / 16;
    return BitsOf(values);
  };
  p.hidden = draw(12);
  p.weight = draw(24);
  p.labels = {static_cast<int64_t>(rng() % 6), static_cast<int64_t>(rng() % 6),
              static_cast<int64_t>(rng() % 6)};
  p.temperature = {1, 0.75f, 3};
  p.grad_logprob = {1.5f, -0.25f, 0};
  p.grad_entropy = {-0.5f, 0, 2};
  return p;
}

// The sum of g logprob + k entropy.
long double Objective(SmallProblem* p) {
  Arbiter arbiter(p->View());
  long double sum = 0;
  for (int64_t i = 0; i < p->n; ++i) {
    const auto r = static_cast<size_t>(i);
    sum += static_cast<long double>(p->grad_logprob[r]) *
           static_cast<long double>(arbiter.Evaluate(Output::kLogprob, i, 0).high);
    sum += static_cast<long double>(p->grad_entropy[r]) *
           static_cast<long double>(arbiter.Evaluate(Output::kEntropy, i, 0).high);
  }
  return sum;
}

// Gradients are the derivative of the objective: central differences with a step of 2^-18 in one input.
// Their error is at most step^2 / 6 times the third derivative. For logits that move as x + tau d, with
// the ranges X of x and D of d over the vocabulary, d^3/dtau^3 of logprob is the third cumulant of d,
// at most D^3, and of the entropy -kappa(x, d, d, d) - 2 kappa_3(d), at most (4 X + 2) D^3. Here |w|,
// |h| <= 2, H = 4, T >= 0.75, hence X <= 43, D <= 2 * 2 / 0.75 < 6, and |g|, |k| <= 2 over three rows:
// 3 * 2 * (4 * 43 + 3) * 6^3 * 2^-36 / 6 < 6e-7. Rounding the
// values to fp64 adds at most 3 * 2 * 2 * 45 * 2^-53 * 2^17 < 8e-9.
//
// Fails for any term of dx that is missing or has a wrong sign or factor, and for 1/T left out.
TEST(Arbiter, GradientsAreDerivatives) {
  constexpr double kTolerance = 6.1e-7;
  SmallProblem p = Random(1);
  Arbiter arbiter(p.View());
  double largest = 0;
  for (Output output : {Output::kGradHidden, Output::kGradWeight}) {
    const size_t count = (output == Output::kGradHidden ? p.hidden : p.weight).size();
    for (size_t e = 0; e < count; ++e) {
      SmallProblem up = p, down = p;
      for (SmallProblem* q : {&up, &down}) {
        uint32_t& bits = (output == Output::kGradHidden ? q->hidden : q->weight)[e];
        const float step = q == &up ? 0x1p-18f : -0x1p-18f;
        bits = std::bit_cast<uint32_t>(std::bit_cast<float>(bits) + step);
      }
      const auto slope = static_cast<double>((Objective(&up) - Objective(&down)) * 0x1p17L);
      const auto row = static_cast<int64_t>(e) / p.h, column = static_cast<int64_t>(e) % p.h;
      const double gradient = arbiter.Evaluate(output, row, column).high;
      EXPECT_NEAR(gradient, slope, kTolerance) << Name(output) << " " << row << " " << column;
      largest = std::max(largest, std::fabs(gradient));
    }
  }
  EXPECT_GT(largest, 0.1);  // without this the tolerance would say little
}

// The sum of dz over v is 0. It is seen as grad_hidden of a column of ones, which is formed with all
// bits. Fails if p does not sum to 1, if H is not the mean of -ln p, or with fewer than 1000 bits
// anywhere.
TEST(Arbiter, GradientsOfTheLogitsSumToZero) {
  SmallProblem p = Random(2);
  for (size_t v = 0; v < 6; ++v) p.weight[4 * v + 2] = std::bit_cast<uint32_t>(1.0f);
  Arbiter arbiter(p.View());
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_LT(std::fabs(arbiter.Evaluate(Output::kGradHidden, i, 2).high), 1e-300) << i;
    EXPECT_GT(std::fabs(arbiter.Evaluate(Output::kGradHidden, i, 1).high), 1e-3) << i;
  }
}

// Reversing the vocabulary reorders every sum. Fails if a column is taken by its position, at the label
// or elsewhere, or if the digits depend on the order.
TEST(Arbiter, VocabularyMayBePermuted) {
  SmallProblem p = Random(3), q = p;
  for (size_t v = 0; v < 6; ++v) {
    std::copy_n(p.weight.begin() + static_cast<int64_t>(4 * v), 4,
                q.weight.begin() + static_cast<int64_t>(4 * (5 - v)));
  }
  for (int64_t& label : q.labels) label = 5 - label;
  Arbiter a(p.View()), b(q.View());
  for (int64_t i = 0; i < 3; ++i) {
    for (Output o : {Output::kLogprob, Output::kEntropy, Output::kLse, Output::kGradHidden}) {
      EXPECT_EQ(Digits(&a, o, i, 1), Digits(&b, o, i, 1)) << Name(o);
    }
  }
  for (int64_t v = 0; v < 6; ++v) {
    EXPECT_EQ(Digits(&a, Output::kGradWeight, v, 3), Digits(&b, Output::kGradWeight, 5 - v, 3));
  }
  EXPECT_NE(Digits(&a, Output::kGradWeight, 0, 3), Digits(&b, Output::kGradWeight, 0, 3));
}

// Fails if g or k enters other than as a factor. 3 and -5 times a number known to 2^-106 are known to
// 2^-103, and fma gives the rounding error of the product with its high part.
TEST(Arbiter, GradientsAreLinear) {
  SmallProblem p = Random(4);
  p.grad_logprob.assign(3, 3);
  p.grad_entropy.assign(3, -5);
  SmallProblem of_g = p, of_k = p;
  of_g.grad_logprob.assign(3, 1);
  of_g.grad_entropy.clear();
  of_k.grad_logprob.clear();
  of_k.grad_entropy.assign(3, 1);
  Arbiter both(p.View()), g(of_g.View()), k(of_k.View());
  for (Output o : {Output::kGradHidden, Output::kGradWeight}) {
    for (int64_t e = 0; e < 3; ++e) {
      const ArbiterValue sum = both.Evaluate(o, e, 0), x = g.Evaluate(o, e, 0), y = k.Evaluate(o, e, 0);
      const double a = 3 * x.high, b = -5 * y.high;
      const double rest = std::fma(3, x.high, -a) + std::fma(-5, y.high, -b) + 3 * x.low - 5 * y.low;
      // a + b = c + carried, exactly (Knuth's TwoSum).
      const double c = a + b, part = c - a, carried = (a - (c - part)) + (b - part);
      EXPECT_LE(std::fabs((sum.high - c) + (sum.low - carried - rest)),
                0x1p-100 * (std::fabs(a) + std::fabs(b)));
    }
  }
}

}  // namespace
}  // namespace plumbline::oracle
