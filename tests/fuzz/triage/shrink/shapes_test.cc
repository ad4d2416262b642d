// SPDX-License-Identifier: Apache-2.0
//
// Shrinking for a target that compiles for each shape.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "fuzz/triage/shrink/shrink.h"
#include "tests/fuzz/triage/shrink/shrinking.h"

namespace plumbline::fuzz {
namespace {

using Shape = std::array<int64_t, 3>;

Shape ShapeOf(const OwnedProblem& p) { return {p.rows(), p.vocab(), p.hidden_size()}; }

// A target that compiles: it knows the shapes that it was asked about.
class Compiler {
 public:
  Compiler(const OwnedProblem& start, StillFails fails, std::set<Shape> compiled = {})
      : fails_(std::move(fails)), compiled_(std::move(compiled)) {
    compiled_.insert(ShapeOf(start));
  }

  ShrinkResult Shrunk(const OwnedProblem& start, ShrinkOptions options = Unhurried()) {
    options.compiles =
        Compiles{.is_new = [this](const OwnedProblem& p) { return !compiled_.contains(ShapeOf(p)); },
                 .known = [this] { return std::vector<Shape>(compiled_.begin(), compiled_.end()); },
                 .least = least_};
    const StillFails asked = [this](const OwnedProblem& p) {
      if (asked_.empty() || asked_.back() != ShapeOf(p)) asked_.push_back(ShapeOf(p));
      if (compiled_.insert(ShapeOf(p)).second) {
        ++first_calls_;
        std::this_thread::sleep_for(first_call_);
      }
      return fails_(p);
    };
    return Checked(start, {}, asked, options);
  }

  int64_t first_calls() const { return first_calls_; }
  const std::vector<Shape>& asked() const { return asked_; }  // repeats left out
  void FirstCallTakes(std::chrono::milliseconds time) { first_call_ = time; }
  // What takes less is no first call; 0: each new shape is one.
  void LeastIs(std::chrono::milliseconds time) { least_ = time; }

 private:
  StillFails fails_;
  std::set<Shape> compiled_;
  std::vector<Shape> asked_;
  int64_t first_calls_ = 0;
  std::chrono::milliseconds first_call_{0}, least_{0};
};

OwnedProblem Start() {
  OwnedProblem start = Busy(40, 1001, 60);
  start.hidden.SetFloat(17 * 60 + 23, 3.25f);
  return start;
}

bool LargeAtOneResidue(const OwnedProblem& p) { return Largest(p.hidden) > 3 && p.vocab() % 8 == 1; }

// Fails if more shapes are compiled than allowed, if what they are spent on reaches no small problem,
// or if values do not change before shapes.
TEST(ShrinkShapes, FewFirstCallsReachASmallProblem) {
  Compiler compiler(Start(), LargeAtOneResidue);
  const ShrinkResult r = compiler.Shrunk(Start());
  EXPECT_LE(compiler.first_calls(), Compiles{}.first_calls);
  EXPECT_EQ(r.first_calls, compiler.first_calls());
  EXPECT_LE(ValueCount(r.problem), 32);
  EXPECT_THAT(Floats(r.problem.weight), ::testing::Each(0));
  EXPECT_EQ(r.problem.temperature, std::nullopt);
}

TEST(ShrinkShapes, ValuesChangeFirst) {
  const Shape shape = ShapeOf(Start());
  bool moved = false, options_before = false;
  Compiler compiler(Start(), [&](const OwnedProblem& p) {
    if (ShapeOf(p) == shape && !moved) options_before |= p.temperature == std::nullopt;
    moved |= ShapeOf(p) != shape;
    EXPECT_TRUE(options_before || !moved);
    return LargeAtOneResidue(p);
  });
  compiler.Shrunk(Start());
  EXPECT_TRUE(moved);
}

// Fails if shapes that cost nothing are not tried before those that do.
TEST(ShrinkShapes, CompiledShapesComeFirst) {
  const Shape small = {1, 9, 2}, passes = {1, 8, 1}, larger = {50, 9, 1};
  Compiler compiler(Start(), LargeAtOneResidue, {small, passes, larger});
  compiler.Shrunk(Start());
  ASSERT_GE(compiler.asked().size(), 3u);
  EXPECT_EQ(compiler.asked()[1], passes);
  EXPECT_EQ(compiler.asked()[2], small);
}

// Fails if it is said that nothing simpler fails where shapes were not tried.
TEST(ShrinkShapes, WhatWasNotCompiledIsNotComplete) {
  const auto needs_many = [](const OwnedProblem& p) {
    return Largest(p.hidden) > 3 && p.rows() >= 7 && p.vocab() >= 411 && p.hidden_size() >= 23;
  };
  Compiler compiler(Start(), needs_many);
  EXPECT_FALSE(compiler.Shrunk(Start()).complete);
  EXPECT_EQ(compiler.first_calls(), Compiles{}.first_calls);
}

// Fails if a limit that is shorter than a few first calls ends shrinking before values are tried in the
// shapes that they reached, or if first calls may take any time.
TEST(ShrinkShapes, FirstCallsHaveTimeOfTheirOwn) {
  using std::chrono::milliseconds;
  Compiler slow(Start(), LargeAtOneResidue);
  slow.FirstCallTakes(milliseconds(100));
  ShrinkOptions options;
  options.time_limit = milliseconds(500);
  slow.Shrunk(Start(), options);
  EXPECT_LE(slow.first_calls(), 11);
}

// Fails if a target that compiles for few of the new shapes is held to the number of first calls that
// one has that compiles for each.
TEST(ShrinkShapes, ShapesThatCostNothingAreNoFirstCalls) {
  const auto needs_many = [](const OwnedProblem& p) {
    return Largest(p.hidden) > 3 && p.rows() >= 7 && p.vocab() >= 411 && p.hidden_size() >= 23;
  };
  Compiler compiler(Start(), needs_many);
  compiler.LeastIs(std::chrono::hours(1));
  const ShrinkResult r = compiler.Shrunk(Start());
  EXPECT_EQ(r.first_calls, 0);
  EXPECT_GT(compiler.first_calls(), Compiles{}.first_calls);
  EXPECT_EQ(ShapeOf(r.problem), (Shape{7, 411, 23}));
  EXPECT_TRUE(r.complete);
}

}  // namespace
}  // namespace plumbline::fuzz
