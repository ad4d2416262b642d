// SPDX-License-Identifier: Apache-2.0
//
// Predicates whose simplest failing problem is known by hand stand in for targets here, so every
// expectation is written down, not computed by the shrinker's own order.

#include "fuzz/shrink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "fuzz/mix.h"
#include "fuzz/owned_problem.h"
#include "kernel/problem.h"

namespace plumbline::fuzz {
namespace {

using kernel::DType;
using kernel::Reduction;

// Multiples of 1/64 in (-2, 2): exact in every dtype.
float Small(uint64_t seed, int64_t i) {
  return static_cast<float>(static_cast<int>(Mix(seed, static_cast<uint64_t>(i)) % 255) - 127) / 64;
}

void FillSmall(HostTensor& tensor, uint64_t seed) {
  for (int64_t i = 0; i < tensor.size(); ++i) tensor.SetFloat(i, Small(seed, i));
}

// Every option away from its default.
OwnedProblem Busy(int64_t n, int64_t v, int64_t h, DType dtype = DType::kBf16) {
  OwnedProblem p;
  p.hidden = HostTensor::Zeros(dtype, {n, h});
  p.weight = HostTensor::Zeros(dtype, {v, h});
  p.labels = HostTensor::Zeros(DType::kI32, {n});
  p.temperature = HostTensor::Zeros(DType::kF32, {n});
  p.grad_logprob = HostTensor::Zeros(DType::kF32, {n});
  p.grad_entropy = HostTensor::Zeros(DType::kF32, {n});
  FillSmall(p.hidden, 1);
  FillSmall(p.weight, 2);
  FillSmall(*p.grad_logprob, 3);
  FillSmall(*p.grad_entropy, 4);
  p.ignore_index = 7;
  for (int64_t i = 0; i < n; ++i) {
    p.labels.SetInt(i,
                    static_cast<int64_t>(Mix(5, static_cast<uint64_t>(i)) % static_cast<uint64_t>(v)));
    p.temperature->SetFloat(i, 1 + static_cast<float>(i % 3));
  }
  p.layout = {true, 3, 5, 1, 2};
  p.wanted.fp32_grads = true;
  return p;
}

// All bytes that a predicate can see, for telling candidates apart without the shrinker's hash.
std::string Everything(const OwnedProblem& p) {
  std::string all;
  const auto add = [&](const HostTensor& t) {
    all += std::to_string(static_cast<int>(t.dtype));
    for (const int64_t extent : t.shape) all += "x" + std::to_string(extent);
    all.append(reinterpret_cast<const char*>(t.bytes.data()), t.bytes.size());
    all += ";";
  };
  add(p.hidden);
  add(p.weight);
  add(p.labels);
  for (const auto* t : {&p.temperature, &p.grad_logprob, &p.grad_entropy}) {
    if (*t) add(**t);
    all += "|";
  }
  const Layout& l = p.layout;
  const Wanted& w = p.wanted;
  for (const int64_t x :
       {p.ignore_index, int64_t{static_cast<int>(p.reduction)}, int64_t{l.weight_hidden_major},
        l.hidden_padding, l.weight_padding, l.label_offset, l.grad_stride, int64_t{w.entropy},
        int64_t{w.lse}, int64_t{w.grad_hidden}, int64_t{w.grad_weight}, int64_t{w.fp32_grads}}) {
    all += std::to_string(x) + ",";
  }
  return all;
}

// Shrinks, and holds every run to what any run must keep.
ShrinkResult Checked(const OwnedProblem& start, const ShrinkHint& hint, const StillFails& still_fails,
                     ShrinkOptions options = {}) {
  std::set<std::string> seen;
  int64_t calls = 0, accepted_calls = 0;
  OwnedProblem last = start;
  const StillFails watched = [&](const OwnedProblem& candidate) {
    ++calls;
    EXPECT_EQ(Inconsistency(candidate), std::nullopt);
    EXPECT_TRUE(seen.insert(Everything(candidate)).second) << "judged twice";
    return still_fails(candidate);
  };
  options.on_accept = [&](const OwnedProblem& p) {
    ++accepted_calls;
    EXPECT_TRUE(still_fails(p));
    last = p;
  };
  ShrinkResult result = Shrink(start, hint, watched, options);
  EXPECT_EQ(result.tried, calls);
  EXPECT_EQ(result.accepted, accepted_calls);
  EXPECT_TRUE(result.problem == last);
  testing::Test::RecordProperty("tried", static_cast<int>(result.tried));
  testing::Test::RecordProperty("values", static_cast<int>(ValueCount(result.problem)));
  return result;
}

std::vector<float> Floats(const HostTensor& t) {
  std::vector<float> values;
  for (int64_t i = 0; i < t.size(); ++i) values.push_back(t.GetFloat(i));
  return values;
}

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

float Largest(const HostTensor& t) {
  float largest = -std::numeric_limits<float>::infinity();
  for (int64_t i = 0; i < t.size(); ++i) largest = std::max(largest, t.GetFloat(i));
  return largest;
}

// Fails if a pass stops before its minimum, if any option is left behind, or if the ragged vocabulary
// is lost on the way (V = 1 is the smallest with V % 64 != 0).
TEST(Shrink, LargeValueAndRaggedVocabulary) {
  OwnedProblem start = Busy(40, 1000, 60);
  start.hidden.SetFloat(17 * 60 + 23, 3.25f);
  const ShrinkResult r = Checked(start, {"logprob", 17, -1}, [](const OwnedProblem& p) {
    return Largest(p.hidden) > 3 && p.vocab() % 64 != 0;
  });
  EXPECT_TRUE(r.complete);
  ExpectPlainOptions(r.problem);
  // 4 is simpler than 3.25: one significant bit.
  EXPECT_THAT(Floats(r.problem.hidden), testing::ElementsAre(4));
  EXPECT_THAT(Floats(r.problem.weight), testing::ElementsAre(0));
  EXPECT_EQ(r.problem.labels.GetInt(0), 0);
}

// Fails if finding the row depends on the hint: here there is none, and a wrong one.
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

// Of the first column; no entry counts for more than 2.
double PositiveSum(const HostTensor& weight) {
  double sum = 0;
  for (int64_t v = 0; v < weight.shape[0]; ++v) {
    if (weight.shape[1] > 0) sum += std::clamp(weight.GetFloat(v * weight.shape[1]), 0.0f, 2.0f);
  }
  return sum;
}

// Needs many entries. Fails if deletion stops while an entry could still go.
TEST(Shrink, SumOverTheVocabularyEndsOneMinimal) {
  const auto fails = [](const OwnedProblem& p) { return PositiveSum(p.weight) > 40; };
  const ShrinkResult r = Checked(Busy(4, 700, 9), {"lse", 2, -1}, fails);
  EXPECT_TRUE(r.complete);
  EXPECT_EQ(r.problem.rows(), 1);
  EXPECT_EQ(r.problem.hidden_size(), 1);
  for (int64_t gone = 0; gone < r.problem.vocab(); ++gone) {
    OwnedProblem smaller = r.problem;
    const auto at = smaller.weight.bytes.begin() + gone * 2;
    smaller.weight.bytes.erase(at, at + 2);
    smaller.weight.shape[0] -= 1;
    EXPECT_FALSE(fails(smaller)) << "entry " << gone << " was not needed";
  }
  // No entry counts for more than 2.
  EXPECT_EQ(r.problem.vocab(), 21);
}

// A bug of the last, partial tile of a vocabulary of more than one tile. Fails if only deletion is
// tried (the other entries stay as they were), or if the residue is not kept.
TEST(Shrink, TailBugKeepsItsResidueAndLosesItsValues) {
  OwnedProblem start = Busy(6, 64 * 9 + 3, 16);
  start.weight.SetFloat((64 * 9 + 2) * 16 + 4, 6);
  const auto fails = [](const OwnedProblem& p) {
    if (p.vocab() < 64 || p.vocab() % 64 != 3) return false;
    float largest = 0;
    for (int64_t d = 0; d < p.hidden_size(); ++d) {
      largest = std::max(largest, p.weight.GetFloat((p.vocab() - 1) * p.hidden_size() + d));
    }
    return largest > 3;
  };
  const ShrinkResult r = Checked(start, {"logprob", 3, -1}, fails);
  EXPECT_EQ(r.problem.vocab(), 67);
  EXPECT_EQ(r.problem.hidden_size(), 1);
  std::vector<float> expected(67, 0.0f);
  expected.back() = 4;
  EXPECT_EQ(Floats(r.problem.weight), expected);
}

// A chunk-merge bug: what matters is that the first entries lie a whole tile below the last, wherever
// zero would put them. Fails if neutralising knows zeros only.
TEST(Shrink, NeutralisesWithACopyWhereZerosWillNotDo) {
  const auto fails = [](const OwnedProblem& p) {
    if (p.vocab() < 40) return false;
    for (const float w : Floats(p.weight)) {
      if (!(w < -0.5f)) return false;
    }
    return true;
  };
  OwnedProblem start = Busy(3, 300, 4);
  for (int64_t i = 0; i < start.weight.size(); ++i) {
    start.weight.SetFloat(i, start.weight.GetFloat(i) - 3);
  }
  const ShrinkResult r = Checked(start, {"lse", 0, -1}, fails);
  EXPECT_EQ(Floats(r.problem.weight), std::vector<float>(40, -1.0f));
}

// Fails if values change one at a time only: then both stay 1.734375.
TEST(Shrink, EqualValuesChangeTogether) {
  OwnedProblem start = Busy(1, 30, 50);
  start.hidden.SetFloat(11, 1.734375f);
  start.weight.SetFloat(29 * 50 + 11, 1.734375f);
  const auto fails = [](const OwnedProblem& p) {
    for (const float h : Floats(p.hidden)) {
      const std::vector<float> weight = Floats(p.weight);
      if (h > 1.5f && std::find(weight.begin(), weight.end(), h) != weight.end()) return true;
    }
    return false;
  };
  const ShrinkResult r = Checked(start, {"logprob", 0, -1}, fails);
  EXPECT_THAT(Floats(r.problem.hidden), testing::ElementsAre(2));
  EXPECT_THAT(Floats(r.problem.weight), testing::ElementsAre(2));
}

// Cancellation: h w = 1.59375 and its opposite. Fails if groups are of equal bits, not of equal
// magnitude.
TEST(Shrink, OppositeValuesChangeTogether) {
  OwnedProblem start = Busy(1, 2, 40);
  start.hidden.SetFloat(7, 1.59375f);
  start.hidden.SetFloat(31, -1.59375f);
  const auto fails = [](const OwnedProblem& p) {
    const std::vector<float> h = Floats(p.hidden);
    return std::any_of(h.begin(), h.end(), [&](float x) {
      return x > 1.25f && std::find(h.begin(), h.end(), -x) != h.end();
    });
  };
  const ShrinkResult r = Checked(start, {}, fails);
  EXPECT_THAT(Floats(r.problem.hidden), testing::UnorderedElementsAre(2, -2));
  EXPECT_EQ(r.problem.vocab(), 1);
}

// A row that depends on its neighbour. Fails if rows only ever go to one, or do not go at all.
TEST(Shrink, BatchVariantKeepsTwoRows) {
  const auto fails = [](const OwnedProblem& p) {
    for (int64_t i = 1; i < p.rows(); ++i) {
      if (p.hidden.GetFloat(i * p.hidden_size()) != p.hidden.GetFloat(0)) return true;
    }
    return false;
  };
  const ShrinkResult r = Checked(Busy(300, 40, 30), {"lse", 117, -1}, fails);
  EXPECT_EQ(r.problem.rows(), 2);
  EXPECT_THAT(Floats(r.problem.hidden), testing::UnorderedElementsAre(0, 1));
  EXPECT_EQ(ValueCount(r.problem), 2 + 1 + 2);
}

// Whether a candidate fails depends on its shape almost at random, as with a bug that comes and goes
// with the tiling. Fails if the shrinker trusts success to be monotone and comes back with something
// that passes, or stops at the first obstacle.
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

// Only the logits of the row count, and no single column makes them. Fails if there is no way but
// deleting columns.
TEST(Shrink, LogitsFoldIntoOneColumn) {
  OwnedProblem start = Busy(5, 50, 128);
  for (int64_t d = 0; d < 128; ++d) {
    start.hidden.SetFloat(2 * 128 + d, 1);
    for (int64_t v = 0; v < 50; ++v) start.weight.SetFloat(v * 128 + d, v == 31 ? -0.125f : -0.25f);
  }
  const auto fails = [](const OwnedProblem& p) {
    const int64_t width = p.hidden_size();
    for (int64_t i = 0; i < p.rows(); ++i) {
      double least = 0, most = -1e30;
      for (int64_t v = 0; v < p.vocab(); ++v) {
        double z = 0;
        for (int64_t d = 0; d < width; ++d) {
          z += static_cast<double>(p.hidden.GetFloat(i * width + d)) *
               static_cast<double>(p.weight.GetFloat(v * width + d));
        }
        least = std::min(least, z);
        most = std::max(most, z);
      }
      if (most < -15 && least < most - 10) return true;
    }
    return false;
  };
  const ShrinkResult r = Checked(start, {"entropy", 2, -1}, fails);
  EXPECT_EQ(r.problem.hidden_size(), 1);
  EXPECT_EQ(r.problem.vocab(), 2);
}

// Fails if anything is kept that nothing asks for, or if an axis is emptied.
TEST(Shrink, NothingIsNeeded) {
  const ShrinkResult r = Checked(Busy(9, 8, 7), {}, [](const OwnedProblem&) { return true; });
  ExpectPlainOptions(r.problem);
  EXPECT_THAT(Floats(r.problem.hidden), testing::ElementsAre(0));
  EXPECT_THAT(Floats(r.problem.weight), testing::ElementsAre(0));
  EXPECT_EQ(r.problem.labels.GetInt(0), 0);
}

// Fails, or crashes, if a pass takes for granted that there is a first row, entry or column.
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

// Fails if an option that the finding needs is lost, or one that it does not need is kept with it.
TEST(Shrink, NeededOptionsStay) {
  OwnedProblem start = Busy(6, 20, 5, DType::kF32);
  start.reduction = Reduction::kMean;
  start.grad_logprob = HostTensor::Zeros(DType::kF32, {});
  start.grad_logprob->SetFloat(0, 0.75f);
  const ShrinkResult r = Checked(start, {"grad_hidden", 1, 2}, [](const OwnedProblem& p) {
    return p.reduction == Reduction::kMean && p.temperature && p.temperature->shape.size() == 1 &&
           p.layout.weight_hidden_major && p.layout.weight_padding > 0 && p.wanted.grad_hidden &&
           p.labels.dtype == DType::kI32;
  });
  EXPECT_EQ(r.problem.reduction, Reduction::kMean);
  EXPECT_EQ(r.problem.grad_logprob, std::nullopt);
  EXPECT_EQ(r.problem.grad_entropy, std::nullopt);
  EXPECT_TRUE((r.problem.layout == Layout{true, 0, 1, 0, 1}));
  EXPECT_TRUE((r.problem.wanted == Wanted{false, false, true, false, false}));
  EXPECT_EQ(r.problem.labels.dtype, DType::kI32);
  EXPECT_EQ(r.problem.ignore_index, -100);
  EXPECT_EQ(r.problem.hidden.dtype, DType::kBf16);
  EXPECT_THAT(Floats(*r.problem.temperature), testing::ElementsAre(1));
}

// A broadcast gradient is element 0 in every row: fails if taking the layout away changes what rows
// see.
TEST(Shrink, BroadcastGradientKeepsItsMeaning) {
  OwnedProblem start = Busy(8, 6, 3);
  start.layout.grad_stride = 0;
  for (int64_t i = 0; i < 8; ++i) start.grad_logprob->SetFloat(i, i == 0 ? 5.0f : 0.0f);
  const auto fails = [](const OwnedProblem& p) {
    const kernel::Problem view = DenseView(p);
    if (!view.grad_logprob || p.rows() < 2) return false;
    float second = 0;
    std::memcpy(
        &second,
        static_cast<const std::byte*>(view.grad_logprob->data) + view.grad_logprob->stride[0] * 4, 4);
    return second == 5;
  };
  const ShrinkResult r = Checked(start, {}, fails);
  EXPECT_EQ(r.problem.layout.grad_stride, 1);
  EXPECT_THAT(Floats(*r.problem.grad_logprob), testing::ElementsAre(0, 5));
}

// Under `mean` each row's gradient is -gamma / n with n the rows not ignored. Fails if taking the
// reduction away loses the sign or the count.
TEST(Shrink, ReductionLeavesTheSameRowGradients) {
  OwnedProblem start = Busy(5, 6, 3);
  start.reduction = Reduction::kMean;
  start.grad_logprob = HostTensor::Zeros(DType::kF32, {});
  start.grad_logprob->SetFloat(0, 12);
  for (int64_t i = 0; i < 5; ++i) start.labels.SetInt(i, i == 1 ? start.ignore_index : i);
  const ShrinkResult r = Checked(start, {}, [](const OwnedProblem& p) {
    if (!p.grad_logprob) return false;
    if (p.reduction == Reduction::kMean) {
      return p.rows() == 5 && p.grad_logprob->GetFloat(0) == 12;
    }
    return p.reduction == Reduction::kNone && p.grad_logprob->GetFloat(0) == -3;
  });
  EXPECT_EQ(r.problem.reduction, Reduction::kNone);
  EXPECT_THAT(Floats(*r.problem.grad_logprob), testing::ElementsAre(-3));
}

// Ignored rows must still be ignored when ignore_index, and the vocabulary under it, change.
TEST(Shrink, IgnoredRowsStayIgnored) {
  OwnedProblem start = Busy(12, 40, 6);
  start.labels.SetInt(4, start.ignore_index);
  start.hidden.SetFloat(4 * 6 + 2, std::numeric_limits<float>::quiet_NaN());
  const auto fails = [](const OwnedProblem& p) {
    for (int64_t i = 0; i < p.rows(); ++i) {
      if (p.labels.GetInt(i) != p.ignore_index) continue;
      for (int64_t d = 0; d < p.hidden_size(); ++d) {
        if (std::isnan(p.hidden.GetFloat(i * p.hidden_size() + d))) return true;
      }
    }
    return false;
  };
  const ShrinkResult r = Checked(start, {"logprob", 4, -1}, fails);
  EXPECT_EQ(ValueCount(r.problem), 3);
  EXPECT_EQ(r.problem.ignore_index, -100);
  EXPECT_EQ(r.problem.labels.GetInt(0), -100);
}

// Fails if values are rounded where the finding hangs on a low bit, or the dtype is not tried at all.
TEST(Shrink, DTypeStaysWhereTheFindingNeedsItsBits) {
  OwnedProblem start = Busy(3, 5, 4, DType::kF32);
  start.hidden.SetFloat(6, 1.0f + 0x1p-20f);
  const ShrinkResult r = Checked(start, {}, [](const OwnedProblem& p) {
    const std::vector<float> h = Floats(p.hidden);
    return std::any_of(h.begin(), h.end(), [](float x) { return x > 1 && x < 1.0001f; });
  });
  EXPECT_EQ(r.problem.hidden.dtype, DType::kF32);
  EXPECT_EQ(ValueCount(r.problem), 3);
  // The simplest float in (1, 1.0001): fp16 and bf16 have none.
  EXPECT_THAT(Floats(r.problem.hidden), testing::ElementsAre(1.0f + 0x1p-20f));
}

// Row 3's label is the largest entry and its logit is too: deleting must not part label from entry.
// Fails if labels are not renumbered with the vocabulary.
TEST(Shrink, LabelsFollowTheirEntries) {
  OwnedProblem start = Busy(6, 500, 3);
  start.labels.SetInt(3, 313);
  start.weight.SetFloat(313 * 3 + 1, 9);
  const auto fails = [](const OwnedProblem& p) {
    for (int64_t i = 0; i < p.rows(); ++i) {
      const int64_t y = p.labels.GetInt(i);
      if (y == p.ignore_index || y < 0 || y >= p.vocab() || p.vocab() < 3) continue;
      for (int64_t d = 0; d < p.hidden_size(); ++d) {
        if (p.weight.GetFloat(y * p.hidden_size() + d) > 5) return true;
      }
    }
    return false;
  };
  const ShrinkResult r = Checked(start, {"logprob", 3, -1}, fails);
  EXPECT_THAT(Floats(r.problem.weight), testing::ElementsAre(8, 0, 0));
  EXPECT_EQ(r.problem.labels.GetInt(0), 0);
}

// An invalid label must stay invalid while the vocabulary shrinks under it.
TEST(Shrink, InvalidLabelStaysInvalid) {
  OwnedProblem start = Busy(5, 30, 3);
  start.labels.SetInt(2, 4000);
  const ShrinkResult r = Checked(start, {"logprob", 2, -1}, [](const OwnedProblem& p) {
    for (int64_t i = 0; i < p.rows(); ++i) {
      if (p.labels.GetInt(i) >= p.vocab() && p.labels.GetInt(i) != p.ignore_index) return true;
    }
    return false;
  });
  EXPECT_EQ(r.problem.vocab(), 1);
  EXPECT_EQ(r.problem.labels.GetInt(0), 1);
}

// Fails if a problem that does not fail is changed, or judged more than once.
TEST(Shrink, WhatDoesNotFailComesBackAsItWas) {
  const OwnedProblem start = Busy(4, 5, 6);
  const ShrinkResult r = Checked(start, {}, [](const OwnedProblem&) { return false; });
  EXPECT_TRUE(r.problem == start);
  EXPECT_EQ(r.tried, 1);
  EXPECT_EQ(r.accepted, 0);
  EXPECT_FALSE(r.complete);
}

// Fails if the clock is not looked at before a candidate is judged. No time is left after the first
// judgement, whatever the machine: the limit is 0, or the predicate outlasts it by itself.
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

// Fails if the limit on steps is not held, or its reaching is taken for a fixpoint.
TEST(Shrink, StepLimitIsHeld) {
  OwnedProblem start = Busy(40, 60, 10);
  start.hidden.SetFloat(5, 7);
  ShrinkOptions options;
  options.max_accepted = 2;
  const ShrinkResult r = Checked(
      start, {}, [](const OwnedProblem& p) { return Largest(p.hidden) > 3; }, options);
  EXPECT_EQ(r.accepted, 2);
  EXPECT_FALSE(r.complete);
}

// Fails if a stop asked for from outside is not seen before the next try.
TEST(Shrink, StopsWhenAsked) {
  int64_t calls = 0;
  ShrinkOptions options;
  options.should_stop = [&] { return calls >= 5; };
  const ShrinkResult r = Shrink(
      Busy(40, 60, 10), {}, [&](const OwnedProblem&) { return ++calls == 1; }, options);
  EXPECT_EQ(r.tried, 5);
  EXPECT_FALSE(r.complete);
}

// Fails if anything but the arguments decides: addresses, the clock, the order of a hash table.
TEST(Shrink, Deterministic) {
  const OwnedProblem start = Busy(12, 150, 20);
  const StillFails fails = [](const OwnedProblem& p) {
    return PositiveSum(p.weight) > 9 && p.rows() > 1;
  };
  std::vector<std::string> first, second;
  const auto run = [&](std::vector<std::string>* offered) {
    return Shrink(start, {"lse", 3, -1}, [&](const OwnedProblem& p) {
      offered->push_back(Everything(p));
      return fails(p);
    });
  };
  const ShrinkResult a = run(&first), b = run(&second);
  EXPECT_TRUE(a.problem == b.problem);
  EXPECT_EQ(first, second);
}

// 10^5 values, and a finding that needs three rows, a column pair and two entries far apart. Fails if a
// pass needs a try for each value: a predicate of a millisecond leaves 30 000 tries.
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
  // Three rows of two columns, two entries, three labels: what is left when nothing can be deleted.
  EXPECT_LE(ValueCount(r.problem), 13);
  EXPECT_LE(r.tried, 3000);
}

}  // namespace
}  // namespace plumbline::fuzz
