// SPDX-License-Identifier: Apache-2.0
//
// The fp64 reference against the arbiter, on every element of thousands of small problems whose values
// are anything that the dtypes hold. Fails if a value of the reference is wrong by more than the radius
// that it states, if a radius is left out, or if the two disagree about which elements are zero, NaN or
// infinite.

#include "oracle/judge/judge.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "oracle/arbiter.h"
#include "tests/oracle/small_problem.h"

namespace plumbline::oracle {
namespace {

using kernel::DType;
using kernel::Reduction;
using Class = ArbiterValue::Class;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// Draws from the generator's raw output, so that a seed means the same problem with every standard
// library.
class Dice {
 public:
  explicit Dice(uint64_t seed) : rng_(seed) {}
  uint64_t Bits() { return rng_(); }
  int64_t Range(int64_t low, int64_t high) {  // both included
    return low + static_cast<int64_t>(rng_() % static_cast<uint64_t>(high - low + 1));
  }
  bool OneIn(int64_t n) { return Range(1, n) == 1; }
  float Unit() { return static_cast<float>(Range(-0x7fffff, 0x7fffff)) * 0x1p-23f; }  // (-1, 1)
  float Scaled(int64_t low, int64_t high) {
    return std::ldexp(Unit(), static_cast<int>(Range(low, high)));
  }

 private:
  std::mt19937_64 rng_;
};

enum class Values : uint8_t {
  kOrdinary,
  kAnyExponent,  // elements of very different sizes
  kAnyBits,      // NaN, infinities and subnormals among them
  kConfident,    // one column far above the others
  kOffset,       // a large exact offset common to all columns
  kSubnormal,
  kTies,
  kSprinkled,  // ordinary, with a few NaN and infinities
};
constexpr int64_t kFamilies = 8;

// Returns the pattern of x truncated to the dtype. fp16 takes what is outside its range to 0 or
// infinity.
uint32_t Pattern(DType dtype, float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  if (dtype == DType::kF32) return bits;
  if (dtype == DType::kBf16) return std::isnan(x) ? 0x7fc0 : bits >> 16;
  const uint32_t sign = (bits >> 16) & 0x8000;
  if (std::isnan(x)) return 0x7e00;
  const float magnitude = std::fabs(x);
  if (magnitude >= 65536) return sign | 0x7c00;
  if (magnitude < 0x1p-14f) return sign | static_cast<uint32_t>(magnitude * 0x1p24f);
  return sign | (((bits & 0x7fffffff) >> 13) - (112u << 10));
}

struct Plan {
  Values family = Values::kOrdinary;
  int64_t top = 0;  // for kAnyExponent: hidden is below 2^top, weight below 2^(5 - top)
  // For kAnyExponent it lifts these limits. For kSprinkled hidden is positive and the weight may hold
  // -inf alone, which makes logits of -inf.
  bool wild = false;
};

std::vector<uint32_t> Draw(Dice* dice, const SmallProblem& p, const Plan& plan, bool weight) {
  const int64_t rows = weight ? p.v : p.n;
  const bool half = p.dtype == DType::kF16;
  const int64_t top = dice->Range(0, p.v > 0 ? p.v - 1 : 0);
  std::vector<uint32_t> out;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t d = 0; d < p.h; ++d) {
      float x = dice->Unit();
      switch (plan.family) {
        case Values::kOrdinary:
          x *= 2;
          break;
        case Values::kAnyExponent:
          if (plan.wild) {
            x = half ? dice->Scaled(-14, 15) : dice->Scaled(-120, 60);
          } else {
            const int64_t below = weight ? 5 - plan.top : plan.top;
            x = dice->Scaled(below - (half ? 12 : 60), below);
          }
          break;
        case Values::kAnyBits:
          out.push_back(static_cast<uint32_t>(dice->Bits()) & (p.dtype == DType::kF32 ? ~0u : 0xffffu));
          continue;
        case Values::kConfident:  // hidden is 1 in column 0
          if (d == 0) x = !weight ? 1 : i == top ? static_cast<float>(dice->Range(1, 800)) : x;
          break;
        case Values::kOffset:
          x = d == 0   ? std::ldexp(1.0f, half ? 15 : 20)
              : weight ? static_cast<float>(dice->Range(-3, 3))
                       : 1.0f;
          break;
        case Values::kSubnormal:
          x *= dice->OneIn(2) ? (half ? 0x1p-14f : 0x1p-126f) : 1;
          break;
        case Values::kTies:
          x = static_cast<float>(dice->Range(-1, 1));
          break;
        case Values::kSprinkled:
          if (plan.wild) {
            x = !weight ? std::fabs(x) + 0x1p-10f : dice->OneIn(6) ? -kInf : x;
          } else if (dice->OneIn(12)) {
            x = std::array{kNaN, kInf, -kInf}[static_cast<size_t>(dice->Range(0, 2))];
          }
          break;
      }
      out.push_back(Pattern(p.dtype, x));
    }
  }
  return out;
}

std::vector<float> Upstream(Dice* dice, int64_t count) {
  std::vector<float> out;
  const int64_t wild = dice->Range(0, 3);
  for (int64_t i = 0; i < count; ++i) {
    float x = wild == 0 ? dice->Scaled(-60, 60) : dice->Unit();
    if (dice->OneIn(5)) x = dice->OneIn(2) ? 0.0f : -0.0f;
    if (wild == 1 && dice->OneIn(10)) x *= 0x1p-126f;
    if (wild == 1 && dice->OneIn(30)) x = dice->OneIn(2) ? kNaN : kInf;
    out.push_back(x);
  }
  return out;
}

SmallProblem Draw(uint64_t seed) {
  Dice dice(seed);
  SmallProblem p;
  p.n = dice.OneIn(20) ? 0 : dice.Range(1, 4);
  p.v = dice.OneIn(3) ? dice.Range(1, 3) : dice.Range(1, 14);
  p.h = dice.OneIn(20) ? 0 : dice.Range(1, 6);
  p.dtype = std::array{DType::kBf16, DType::kF16, DType::kF32}[static_cast<size_t>(dice.Range(0, 2))];
  Plan plan;
  plan.family = static_cast<Values>(dice.Range(0, kFamilies - 1));
  plan.top = p.dtype == DType::kF16 ? dice.Range(-2, 8) : dice.Range(-50, 50);
  plan.wild = dice.OneIn(3);
  p.hidden = Draw(&dice, p, plan, false);
  p.weight = Draw(&dice, p, plan, true);
  p.hidden_major = dice.OneIn(3);
  p.narrow_labels = dice.OneIn(3);
  p.row_padding = dice.OneIn(3) ? dice.Range(1, 5) : 0;
  if (dice.OneIn(4)) p.ignore_index = dice.Range(0, p.v - 1);
  for (int64_t i = 0; i < p.n; ++i) {
    int64_t label = dice.Range(0, p.v - 1);
    if (dice.OneIn(8)) label = p.ignore_index;
    if (dice.OneIn(40)) label = dice.OneIn(2) ? -1 : p.v;
    p.labels.push_back(label);
  }
  if (dice.OneIn(2)) {
    const bool wild = dice.OneIn(4);
    const int64_t count = dice.OneIn(3) ? 1 : p.n;
    for (int64_t i = 0; i < count; ++i) {
      const auto exponent = static_cast<int>(wild ? dice.Range(-99, 99) : dice.Range(-3, 3));
      float t = std::ldexp(1.5f + dice.Unit() / 2, exponent);
      if (dice.OneIn(60)) {
        t = std::array{0.0f, -1.0f, kInf, kNaN}[static_cast<size_t>(dice.Range(0, 3))];
      }
      p.temperature.push_back(t);
    }
  }
  p.reduction = static_cast<Reduction>(dice.OneIn(2) ? 0 : dice.Range(1, 2));
  if (!dice.OneIn(5)) p.grad_logprob = Upstream(&dice, p.reduction == Reduction::kNone ? p.n : 1);
  if (!dice.OneIn(3)) p.grad_entropy = Upstream(&dice, p.n);
  return p;
}

std::string Show(const SmallProblem& p) {
  std::ostringstream s;
  s << kernel::Name(p.dtype) << " N " << p.n << " V " << p.v << " H " << p.h << " reduction "
    << static_cast<int>(p.reduction) << " ignore " << p.ignore_index;
  const auto show = [&s](const char* name, const auto& values, auto flags) {
    s << "\n  " << name << flags;
    for (const auto& x : values) s << " " << x;
  };
  show("hidden", p.hidden, std::hex);
  show("weight", p.weight, std::hex);
  s << std::dec << std::hexfloat;
  show("labels", p.labels, std::dec);
  show("temperature", p.temperature, std::hexfloat);
  show("grad_logprob", p.grad_logprob, std::hexfloat);
  show("grad_entropy", p.grad_entropy, std::hexfloat);
  return s.str();
}

// Counts how much of what was compared could have failed.
struct Coverage {
  int64_t zero = 0, nan = 0, infinite = 0, unspecified = 0, vacuous = 0, loose = 0, finite = 0;
};

// Returns why the reference's element and the arbiter's cannot both be right, or nothing.
std::string Disagreement(const Element& e, const ArbiterValue& a, Coverage* coverage) {
  switch (e.expect) {
    case Expect::kUnspecified:
      ++coverage->unspecified;
      return "";
    case Expect::kPlusZero:
    case Expect::kEmptyMean:
    case Expect::kIgnored:
      ++coverage->zero;
      return a.kind == Class::kFinite && a.digits == "0" ? "" : "is not zero";
    case Expect::kNaN:
    case Expect::kEmptyLse:
      ++coverage->nan;
      return a.kind == Class::kNaN ? "" : "is not NaN";
    case Expect::kPlusInf:
    case Expect::kMinusInf:
      ++coverage->infinite;
      return a.kind == (e.expect == Expect::kPlusInf ? Class::kPlusInf : Class::kMinusInf)
                 ? ""
                 : "is not infinite";
    default:
      break;
  }
  if (a.kind != Class::kFinite) return "is not finite";
  // Radius and bound are the same formulas with 2^-53 and 2^-24. A radius that is not far below the
  // bound could hide large errors.
  const bool tight = e.radius <= 0x1p-20 * e.bound;
  ++(e.expect == Expect::kVacuous ? coverage->vacuous : tight ? coverage->finite : coverage->loose);
  // The subtractions round by 2^-53 of the difference at most.
  const double error = std::fabs((e.value - a.high) - a.low);
  return error <= e.radius * (1 + 0x1p-50) ? "" : "is further away than the radius";
}

// Compares every element of the problem. Stops at the first disagreement.
std::string Compare(SmallProblem* p, Coverage* coverage) {
  const kernel::Problem problem = p->View();
  kernel::Results wanted;
  const kernel::Tensor per_row{nullptr, DType::kF32, 1, {p->n, 1}, {1, 1}};
  if (p->reduction == Reduction::kNone) {
    wanted.logprob = per_row;
  } else {
    wanted.loss = kernel::Tensor{nullptr, DType::kF32, 0, {1, 1}, {1, 1}};
  }
  wanted.entropy = wanted.lse = per_row;
  wanted.grad_hidden = kernel::Tensor{nullptr, p->dtype, 2, {p->n, p->h}, {p->h, 1}};
  wanted.grad_weight = kernel::Tensor{nullptr, p->dtype, 2, {p->v, p->h}, {p->h, 1}};
  const Expectation expected = Expected(problem, wanted, Contract{});
  Arbiter arbiter(problem);
  for (Output o : kOutputs) {
    const ExpectedTensor& t = expected[o];
    if (t.elements.empty()) continue;
    for (int64_t i = 0; i < t.rows; ++i) {
      for (int64_t j = 0; j < t.columns; ++j) {
        const Element& e = t.at(i, j);
        const ArbiterValue a = arbiter.Evaluate(o, i, j);
        const std::string why = Disagreement(e, a, coverage);
        if (why.empty()) continue;
        std::ostringstream s;
        s.precision(17);
        s << Name(o) << "[" << i << ", " << j << "]: arbiter " << a.digits << " " << why << " "
          << e.radius << " of the reference's " << e.value << " (expect " << static_cast<int>(e.expect)
          << ", bound " << e.bound << ")\n"
          << Show(*p);
        return s.str();
      }
    }
  }
  return "";
}

void CompareMany(uint64_t first, uint64_t last) {
  Coverage coverage;
  int64_t disagreements = 0;
  for (uint64_t seed = first; seed < last && disagreements < 5; ++seed) {
    SmallProblem p = Draw(seed);
    const std::string why = Compare(&p, &coverage);
    if (why.empty()) continue;
    ++disagreements;
    ADD_FAILURE() << "seed " << seed << ": " << why;
  }
  // Otherwise the generator has lost a class, and its agreement would be empty.
  const auto problems = static_cast<int64_t>(last - first);
  EXPECT_GT(coverage.finite, 10 * problems);
  EXPECT_GT(coverage.zero, problems);
  EXPECT_GT(coverage.nan, problems);
  EXPECT_GT(coverage.infinite, problems / 100);
  EXPECT_EQ(coverage.loose, 0);
  EXPECT_LT(coverage.vacuous, coverage.finite / 2);
}

TEST(Expectation, AgreesWithTheArbiter) { CompareMany(0, 1000); }

TEST(SlowExpectation, AgreesWithTheArbiter) { CompareMany(1000, 14000); }

}  // namespace
}  // namespace plumbline::oracle
