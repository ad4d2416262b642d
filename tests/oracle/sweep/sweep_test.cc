// SPDX-License-Identifier: Apache-2.0
//
// The sweep's results do not depend on how it works: on the number of threads, on whether logits are
// kept from forward to backward, or on a lack of memory that makes it compute them again a row at a
// time.

#include "oracle/sweep/sweep.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "oracle/judge/judge.h"
#include "tests/oracle/agreement.h"
#include "tests/oracle/small_problem.h"

namespace plumbline::oracle {
namespace {

using kernel::DType;
using kernel::Reduction;

// Rows that are ignored, have no gradient or are unspecified lie between the others, so that the rows
// that take part form runs. Sizes are next to those of blocks and panels. Some elements are subnormal,
// because flushed operands lose them.
SmallProblem Draw(int64_t v, int64_t h, Reduction reduction, bool special) {
  std::mt19937_64 rng(11);
  const auto unit = [&rng] { return static_cast<float>(rng() >> 40) * 0x1p-23f - 1; };
  SmallProblem p;
  p.n = 23, p.v = v, p.h = h;
  p.reduction = reduction;
  const auto draw = [&] { return rng() % 8 == 0 ? 0x1p-130f * unit() : unit(); };
  std::vector<float> hidden, weight;
  for (int64_t e = 0; e < p.n * h; ++e) hidden.push_back(draw());
  for (int64_t e = 0; e < v * h; ++e) weight.push_back(draw());
  if (special && h > 0) hidden[static_cast<size_t>(9 * h)] = std::nanf("");
  p.hidden = BitsOf(hidden);
  p.weight = BitsOf(weight);
  for (int64_t i = 0; i < p.n; ++i) {
    p.labels.push_back(i % 7 == 4 ? -100 : static_cast<int64_t>(rng() % static_cast<uint64_t>(v)));
    p.temperature.push_back(i == 12 ? 1.0f : 1 + 0.5f * unit());
    p.grad_entropy.push_back(i % 5 == 2 ? 0.0f : unit());
  }
  if (reduction != Reduction::kNone) {
    p.grad_logprob.push_back(unit());
  } else {
    for (int64_t i = 0; i < p.n; ++i) p.grad_logprob.push_back(i % 5 == 2 ? 0.0f : unit());
  }
  return p;
}

void ExpectNear(double a, double b, double scale, const std::string& what) {
  if (std::isfinite(a) && std::isfinite(b)) {
    ASSERT_LE(std::fabs(a - b), 1e-12 * scale) << what;
  } else {
    ASSERT_TRUE(a == b || (std::isnan(a) && std::isnan(b))) << what << ": " << a << " and " << b;
  }
}

// Sums run in another order where threads share them. That moves a value by its radius at most, and a
// bound, whose terms have one sign, by a part in 1e12.
void ExpectAlike(const Expectation& a, const Expectation& b, const std::string& how) {
  for (const Output output : kOutputs) {
    const ExpectedTensor &x = a[output], &y = b[output];
    ASSERT_EQ(x.elements.size(), y.elements.size());
    double largest = 0;
    for (const Element& e : x.elements) {
      if (std::isfinite(e.value)) largest = std::max(largest, std::fabs(e.value));
    }
    for (size_t i = 0; i < x.elements.size(); ++i) {
      const Element &e = x.elements[i], &f = y.elements[i];
      const std::string what = how + std::string(Name(output)) + " " + std::to_string(i);
      ASSERT_EQ(e.expect, f.expect) << what;
      ExpectNear(e.value, f.value, largest, what + " value");
      ExpectNear(e.bound, f.bound, e.bound, what + " bound");
    }
  }
}

// Fails if a block of rows reads another's logits, if separate runs of rows are taken for one, if data
// of forward (the least bits of columns, what flushing loses) is missing or stale where logits are
// computed again, or if two threads write one place.
TEST(SweepTest, ThreadsAndMemoryChangeNothing) {
  struct Size {
    int64_t v, h;
  };
  for (const Size size : {Size{1, 1}, Size{23, 5}, Size{24, 0}, Size{203, 131}, Size{97, 24}}) {
    for (const Reduction reduction : {Reduction::kNone, Reduction::kMean}) {
      for (const bool special : {false, true}) {
        SmallProblem p = Draw(size.v, size.h, reduction, special);
        const kernel::Problem problem = p.View();
        const kernel::Results wanted = Everything(problem, DType::kBf16);
        for (const Flush flush : {Flush::kNone, Flush::kOperands}) {
          Contract contract;
          contract.flush = flush;
          const Expectation whole = Expected(problem, wanted, contract);
          for (const size_t memory : {size_t{0}, size_t{20'000}, SweepOptions{}.memory}) {
            for (const int threads : {1, 2, 3}) {
              SweepOptions options;
              options.memory = memory;
              options.threads = threads;
              ExpectAlike(whole, Expected(problem, wanted, contract, options),
                          "V " + std::to_string(size.v) + ", H " + std::to_string(size.h) +
                              ", memory " + std::to_string(memory) + ", threads " +
                              std::to_string(threads) + ": ");
              if (HasFatalFailure()) return;
            }
          }
        }
      }
    }
  }
}

// Raises a flag at the first row of an output.
class Interrupting final : public ElementSink {
 public:
  explicit Interrupting(Output at) : at_(at) {}
  void Take(const ElementRow& row) override {
    ++taken_[static_cast<size_t>(row.output)];
    if (row.output == at_) flag_.store(true);
  }
  const std::atomic<bool>* flag() const { return &flag_; }
  int64_t taken(Output output) const { return taken_[static_cast<size_t>(output)]; }

 private:
  Output at_;
  std::atomic<bool> flag_{false};
  std::array<std::atomic<int64_t>, kOutputs.size()> taken_{};
};

// Fails if a sweep runs on after the flag is raised, forward or backward, if it hands out gradients
// without some columns' share, or if it does not say that it stopped.
TEST(SweepTest, Interrupt) {
  SmallProblem p = Draw(500, 24, Reduction::kNone, /*special=*/false);
  const kernel::Problem problem = p.View();
  const kernel::Results wanted = Everything(problem, DType::kBf16);
  for (const Output at : {Output::kLse, Output::kGradWeight}) {
    Interrupting sink(at);
    SweepOptions options;
    options.memory = 0;
    options.interrupt = sink.flag();
    EXPECT_TRUE(Sweep(problem, wanted, Contract{}, options, &sink).interrupted);
    EXPECT_LT(sink.taken(at), at == Output::kLse ? p.n : p.v);
    if (at == Output::kGradWeight) {
      EXPECT_EQ(sink.taken(Output::kLse), p.n);
      EXPECT_LT(sink.taken(Output::kGradHidden), p.n);
    }
  }
  Interrupting sink(Output::kLse);
  EXPECT_FALSE(Sweep(problem, wanted, Contract{}, {}, &sink).interrupted);
  EXPECT_EQ(sink.taken(Output::kGradWeight), p.v);
}

// Four logprobs of -2^126 sum to 2^128, which fp32 does not have; three still fit. Fails if an overflow
// of the loss's own sum counts as a finite value, or if the mean of such a sum counts as one (found by
// a campaign of 10^6 cases on host, in 6 of them).
TEST(SweepTest, ALossBeyondFp32IsUnspecified) {
  for (const int64_t n : {3, 4}) {
    for (const kernel::Reduction reduction : {kernel::Reduction::kSum, kernel::Reduction::kMean}) {
      const auto rows = static_cast<size_t>(n);
      const std::vector<float> hidden(rows * 2, 1.0f), weight = {0, 0, 0x1p125f, 0x1p125f};
      const std::vector<int64_t> labels(rows, 0);
      float loss = 0;
      kernel::Problem problem;
      problem.hidden = {hidden.data(), kernel::DType::kF32, 2, {n, 2}, {2, 1}};
      problem.weight = {weight.data(), kernel::DType::kF32, 2, {2, 2}, {2, 1}};
      problem.labels = {labels.data(), kernel::DType::kI64, 1, {n, 1}, {1, 1}};
      problem.reduction = reduction;
      kernel::Results wanted;
      wanted.loss = kernel::Tensor{&loss, kernel::DType::kF32, 0, {1, 1}, {1, 1}};
      Contract contract;
      contract.shift = Shift::kExactMax;
      contract.scale = Scale::kAfter;  // T = 1 moves no logit; moved ones would exceed the range of exp
      const Expectation e = Expected(problem, wanted, contract);
      EXPECT_EQ(e[Output::kLoss].at(0, 0).expect, n == 4 ? Expect::kUnspecified : Expect::kFinite) << n;
    }
  }
}

}  // namespace
}  // namespace plumbline::oracle
