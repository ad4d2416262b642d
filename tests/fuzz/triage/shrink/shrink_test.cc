// SPDX-License-Identifier: Apache-2.0

#include "fuzz/triage/shrink/shrink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "fuzz/base/mix.h"
#include "fuzz/problem/owned_problem.h"
#include "fuzz/triage/shrink/order.h"
#include "fuzz/triage/shrink/select.h"
#include "fuzz/triage/shrink/session.h"
#include "kernel/problem.h"
#include "tests/fuzz/triage/shrink/shrinking.h"

namespace plumbline::fuzz {
namespace {

using kernel::DType;
using kernel::Reduction;

void ExpectPlainOptions(const OwnedProblem& p) {
  EXPECT_EQ(p.temperature, std::nullopt);
  EXPECT_EQ(p.grad_logprob, std::nullopt);
  EXPECT_EQ(p.grad_entropy, std::nullopt);
  EXPECT_EQ(p.ignore_index, -100);
  EXPECT_EQ(p.reduction, Reduction::kNone);
  EXPECT_TRUE(p.layout == Layout{});
  EXPECT_TRUE((p.wanted == Wanted{false, false, false, false, false}));
  EXPECT_EQ(p.hidden.dtype, DType::kBf16);
  EXPECT_EQ(p.labels.dtype, DType::kI64);
}

double PositiveSum(const HostTensor& tensor) {
  double sum = 0;
  for (const float x : Floats(tensor)) sum += std::clamp(x, 0.0f, 2.0f);
  return sum;
}

// Fails if a pass stops before its minimum, if an option is left behind, or if the ragged vocabulary is
// lost (V = 1 is the smallest with V % 64 != 0).
TEST(Shrink, LargeValueAndRaggedVocabulary) {
  OwnedProblem start = Busy(40, 1000, 60);
  start.hidden.SetFloat(17 * 60 + 23, 3.25f);
  const ShrinkResult r = Checked(start, {"logprob", 17, -1}, [](const OwnedProblem& p) {
    return Largest(p.hidden) > 3 && p.vocab() % 64 != 0;
  });
  EXPECT_TRUE(r.complete);
  ExpectPlainOptions(r.problem);
  // 4 is simpler than 3.25: it has one significant bit.
  EXPECT_THAT(Floats(r.problem.hidden), ::testing::ElementsAre(4));
  EXPECT_THAT(Floats(r.problem.weight), ::testing::ElementsAre(0));
  EXPECT_EQ(r.problem.labels.GetInt(0), 0);
}

// Fails if the row is found only with the right hint: here there is none, then a wrong one.
TEST(Shrink, HintIsOnlyAHint) {
  OwnedProblem start = Busy(60, 90, 20);
  start.hidden.SetFloat(41 * 20 + 3, 8);
  for (const ShrinkHint& hint :
       {ShrinkHint{}, ShrinkHint{"grad_weight", 80, 7}, ShrinkHint{"lse", 5, -1}}) {
    const ShrinkResult r =
        Checked(start, hint, [](const OwnedProblem& p) { return Largest(p.hidden) > 3; });
    EXPECT_EQ(ValueCount(r.problem), 3) << hint.output;
  }
}

// A candidate's failing depends on its shape almost at random, as with a defect that depends on the
// tiling. Fails if the shrinker assumes that success is monotone and returns a problem that passes, or
// stops at the first obstacle.
TEST(Shrink, SlipperyShapes) {
  OwnedProblem start = Busy(30, 200, 33);
  start.hidden.SetFloat(100, 5);
  const auto fails = [](const OwnedProblem& p) {
    const auto key = static_cast<uint64_t>((p.rows() * 1009 + p.vocab()) * 1013 + p.hidden_size());
    const bool start_shape = p.rows() == 30 && p.vocab() == 200 && p.hidden_size() == 33;
    return Largest(p.hidden) > 3 && (start_shape || Mix(77, key) % 3 == 0);
  };
  const ShrinkResult r = Checked(start, {"logprob", 3, -1}, fails);
  EXPECT_TRUE(fails(r.problem));
  EXPECT_LE(ValueCount(r.problem), 24);
}

// Fails, or crashes, if a pass assumes that there is a first row, entry or column.
TEST(Shrink, EmptyAxes) {
  const auto always = [](const OwnedProblem&) { return true; };
  EXPECT_EQ(ValueCount(Checked(Busy(0, 8, 7), {}, always).problem), 1);
  const OwnedProblem no_columns = Checked(Busy(9, 8, 0), {"lse", 3, -1}, always).problem;
  EXPECT_EQ(ValueCount(no_columns), 1);
  EXPECT_EQ(no_columns.vocab(), 1);
  OwnedProblem no_entries = Busy(9, 8, 7);
  no_entries.weight = HostTensor::Zeros(DType::kBf16, {0, 7});
  EXPECT_EQ(ValueCount(Checked(no_entries, {"grad_weight", 3, 2}, always).problem), 2);
}

// Fails if a problem that passes is changed, or is judged more than once.
TEST(Shrink, WhatDoesNotFailComesBackAsItWas) {
  const OwnedProblem start = Busy(4, 5, 6);
  const ShrinkResult r = Checked(start, {}, [](const OwnedProblem&) { return false; });
  EXPECT_TRUE(r.problem == start);
  EXPECT_EQ(r.tried, 1);
  EXPECT_EQ(r.accepted, 0);
  EXPECT_FALSE(r.complete);
}

// Fails if a candidate is judged although the time is over. No time is left after the first judgement
// on any machine: the limit is 0, or the predicate alone takes longer.
TEST(Shrink, TimeLimitIsHeld) {
  const OwnedProblem start = Busy(20, 30, 10);
  ShrinkOptions options;
  options.time_limit = std::chrono::milliseconds(0);
  EXPECT_EQ(Checked(
                start, {}, [](const OwnedProblem&) { return true; }, options)
                .tried,
            1);

  options.time_limit = std::chrono::milliseconds(20);
  int64_t calls = 0;
  const ShrinkResult r = Checked(
      start, {},
      [&](const OwnedProblem&) {
        if (++calls == 4) {
          const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(25);
          while (std::chrono::steady_clock::now() < until) {
          }
        }
        return true;
      },
      options);
  // on_accept judges again, so at most three of the four calls were candidates.
  EXPECT_LE(r.tried, 4);
  EXPECT_FALSE(r.complete);
}

// Fails if the limit on steps is exceeded, or if reaching it is taken for a fixpoint.
TEST(Shrink, StepLimitIsHeld) {
  OwnedProblem start = Busy(40, 60, 10);
  start.hidden.SetFloat(5, 7);
  ShrinkOptions options = Unhurried();
  options.max_accepted = 2;
  const ShrinkResult r = Checked(
      start, {}, [](const OwnedProblem& p) { return Largest(p.hidden) > 3; }, options);
  EXPECT_EQ(r.accepted, 2);
  EXPECT_FALSE(r.complete);
}

// Fails if a stop requested from outside is not seen before the next try, or if stopping within a pass
// is taken for a fixpoint.
TEST(Shrink, StopsWhenAsked) {
  for (const int64_t limit : {5, 150}) {
    int64_t calls = 0;
    ShrinkOptions options = Unhurried();
    options.should_stop = [&] { return calls >= limit; };
    const ShrinkResult r = Shrink(
        Busy(40, 60, 10), {}, [&](const OwnedProblem&) { return ++calls == 1; }, options);
    EXPECT_EQ(r.tried, limit);
    EXPECT_FALSE(r.complete);
  }
}

// Fails if anything but the arguments affects the result: addresses, the clock, the order of a hash
// table.
TEST(Shrink, Deterministic) {
  const OwnedProblem start = Busy(12, 150, 20);
  const StillFails fails = [](const OwnedProblem& p) {
    return Largest(p.weight) > 1.5f && p.rows() > 1 && p.vocab() % 4 == 2;
  };
  std::vector<std::string> first, second;
  const auto run = [&](std::vector<std::string>* offered) {
    const auto watched = [&](const OwnedProblem& p) {
      offered->push_back(Everything(p));
      return fails(p);
    };
    return Shrink(start, {"lse", 3, -1}, watched, Unhurried());
  };
  const ShrinkResult a = run(&first), b = run(&second);
  EXPECT_TRUE(a.problem == b.problem);
  EXPECT_EQ(first, second);
}

// Every 20th step is submitted to the audit. Fails if a step is taken that it rejects, if a 20th step
// is taken without it, or if a rejection ends shrinking.
TEST(Shrink, EveryTwentiethStepIsAudited) {
  int64_t accepted = 0, asked = 0;
  ShrinkOptions options = Unhurried();
  options.on_accept = [&](const OwnedProblem&) { ++accepted; };
  options.audit = [&](const OwnedProblem&) {
    EXPECT_EQ(accepted % kAuditEvery, kAuditEvery - 1);
    return ++asked != 2;
  };
  const OwnedProblem start = Busy(2, 60, 2);
  const StillFails always = [](const OwnedProblem&) { return true; };
  ShrinkSession session(start, {}, always, options);
  ASSERT_TRUE(session.Confirm());
  std::vector<int64_t> refused;
  for (int64_t v = 59; v > 0; --v) {
    std::vector<int64_t> kept(static_cast<size_t>(v));
    std::iota(kept.begin(), kept.end(), 0);
    if (!session.Try(Keep(session.best(), Axis::kVocab, kept))) refused.push_back(v);
  }
  // The 40th step was offered with 20 entries. The next one took its place, and was audited too.
  EXPECT_THAT(refused, ::testing::ElementsAre(20));
  EXPECT_EQ(accepted, 58);
  EXPECT_EQ(asked, 3);
  EXPECT_EQ(session.best().vocab(), 1);
}

// The finding shows with fp32 gradients at two entries, with bf16 ones at 200. Fails if options are
// compared before values: the simpler option is then taken early and 200 entries stay.
TEST(Shrink, AnOptionComesBackWhereItSavesHundredsOfValues) {
  OwnedProblem start = Busy(2, 300, 4);
  start.wanted.grad_hidden = true;
  const ShrinkResult r = Checked(start, {"grad_hidden", 1, 2}, [](const OwnedProblem& p) {
    return p.wanted.grad_hidden && p.vocab() >= (p.wanted.fp32_grads ? 2 : 200);
  });
  EXPECT_TRUE(r.problem.wanted.fp32_grads);
  EXPECT_EQ(r.problem.vocab(), 2);
}

// Equal values cancel in every small problem. Fails if no pass gives up the values for the size.
TEST(Shrink, ValuesAreGivenUpForSize) {
  OwnedProblem start = Busy(1, 264, 3);
  for (int64_t i = 0; i < start.weight.size(); ++i) start.weight.SetFloat(i, 0);
  const ShrinkResult r = Checked(start, {"lse", 0, -1}, [](const OwnedProblem& p) {
    if (p.vocab() >= 264) return true;
    return p.vocab() >= 2 && Largest(p.weight) > 0;
  });
  EXPECT_EQ(r.problem.vocab(), 2);
}

// A predicate's needs: extents with residues, options, values, a sum over many entries.
struct Need {
  int64_t rows, vocab, modulus, hidden, sum;
  bool fp32_grads, entropy;
};

bool Holds(const Need& need, const OwnedProblem& p) {
  return p.rows() >= need.rows && p.vocab() >= need.vocab && p.vocab() % need.modulus != 0 &&
         p.hidden_size() >= need.hidden && PositiveSum(p.weight) > static_cast<double>(need.sum) &&
         (!need.fp32_grads || p.wanted.fp32_grads) && (!need.entropy || p.grad_entropy.has_value());
}

// For any needs, the result fails, costs no more than the start, and cannot be shrunk further, whatever
// the hint. Fails if a pass is left out of the loop to the fixpoint, or if only a hint keeps something
// in place.
RC_GTEST_PROP(ShrinkProperty, ShrinkingAShrunkProblemTakesNoStep, ()) {
  const Need need{*rc::gen::inRange<int64_t>(1, 4),
                  *rc::gen::inRange<int64_t>(1, 40),
                  *rc::gen::element<int64_t>(7, 16, 64),
                  *rc::gen::inRange<int64_t>(1, 4),
                  *rc::gen::inRange<int64_t>(0, 6),
                  *rc::gen::arbitrary<bool>(),
                  *rc::gen::arbitrary<bool>()};
  const OwnedProblem start = Busy(5, *rc::gen::inRange<int64_t>(60, 90), 6);
  const auto fails = [&](const OwnedProblem& p) { return Holds(need, p); };
  RC_PRE(fails(start));
  const ShrinkHint hint{"lse", *rc::gen::inRange<int64_t>(-1, 5), -1};
  const ShrinkResult once = Shrink(start, hint, fails, Unhurried());
  RC_ASSERT(once.complete);
  RC_ASSERT(fails(once.problem));
  RC_ASSERT(Cost(once.problem) <= Cost(start));
  const ShrinkResult twice = Shrink(once.problem, {}, fails, Unhurried());
  RC_ASSERT(twice.accepted == 0);
}

// The problem has 10^5 values, and the finding needs three rows, a column pair and two entries far
// apart. Fails if a pass needs a try for each value: a predicate of a millisecond leaves 30 000 tries.
TEST(Shrink, LargeProblemsTakeFewTries) {
  OwnedProblem start = Busy(150, 600, 128);
  for (const int64_t i : {7, 80, 149}) start.hidden.SetFloat(i * 128 + 99, 3);
  start.weight.SetFloat(13 * 128 + 99, 3);
  start.weight.SetFloat(577 * 128 + 5, -3);
  const ShrinkResult r = Checked(start, {"grad_weight", 13, 99}, [](const OwnedProblem& p) {
    const auto count = [](const HostTensor& t, auto test) {
      int64_t found = 0;
      for (int64_t i = 0; i < t.size(); ++i) found += test(t.GetFloat(i)) ? 1 : 0;
      return found;
    };
    return count(p.hidden, [](float x) { return x > 2; }) >= 3 &&
           count(p.weight, [](float x) { return x > 2; }) >= 1 &&
           count(p.weight, [](float x) { return x < -2; }) >= 1;
  });
  EXPECT_TRUE(r.complete);
  // Three rows of two columns, two entries and three labels remain when nothing can be deleted.
  EXPECT_LE(ValueCount(r.problem), 13);
  EXPECT_LE(r.tried, 3000);
}

}  // namespace
}  // namespace plumbline::fuzz
