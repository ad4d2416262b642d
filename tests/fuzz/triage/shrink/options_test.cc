// SPDX-License-Identifier: Apache-2.0

#include "fuzz/triage/shrink/passes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

#include "fuzz/problem/owned_problem.h"
#include "fuzz/triage/shrink/shrink.h"
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

// Fails if anything that the finding does not need is kept, or if an axis is emptied.
TEST(ShrinkOptionsPass, NothingIsNeeded) {
  const ShrinkResult r = Checked(Busy(9, 8, 7), {}, [](const OwnedProblem&) { return true; });
  ExpectPlainOptions(r.problem);
  EXPECT_THAT(Floats(r.problem.hidden), ::testing::ElementsAre(0));
  EXPECT_THAT(Floats(r.problem.weight), ::testing::ElementsAre(0));
  EXPECT_EQ(r.problem.labels.GetInt(0), 0);
}

// Fails if an option that the finding needs is lost, or one that it does not need is kept.
TEST(ShrinkOptionsPass, NeededOptionsStay) {
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
  EXPECT_THAT(Floats(*r.problem.temperature), ::testing::ElementsAre(1));
}

// A broadcast gradient is element 0 in every row. Fails if removing the layout changes the gradients
// that the rows have.
TEST(ShrinkOptionsPass, BroadcastGradientKeepsItsMeaning) {
  OwnedProblem start = Busy(8, 6, 3);
  start.layout.grad_stride = 0;
  for (int64_t i = 0; i < 8; ++i) start.grad_logprob->SetFloat(i, i == 0 ? 5.0f : 0.0f);
  const auto fails = [](const OwnedProblem& p) {
    const kernel::Problem view = DenseView(p);
    if (!view.grad_logprob || p.rows() != 8) return false;
    float second = 0;
    std::memcpy(
        &second,
        static_cast<const std::byte*>(view.grad_logprob->data) + view.grad_logprob->stride[0] * 4, 4);
    return second == 5;
  };
  const ShrinkResult r = Checked(start, {}, fails);
  EXPECT_EQ(r.problem.layout.grad_stride, 1);
  EXPECT_THAT(Floats(*r.problem.grad_logprob), ::testing::ElementsAre(0, 5, 0, 0, 0, 0, 0, 0));
}

// Under `mean` each row's gradient is -gamma / n, n being the number of rows not ignored. Fails if
// removing the reduction loses the sign or the count.
TEST(ShrinkOptionsPass, ReductionLeavesTheSameRowGradients) {
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
  EXPECT_THAT(Floats(*r.problem.grad_logprob), ::testing::ElementsAre(-3));
}

// Fails if an ignored row is no longer ignored after ignore_index, or the vocabulary under it, changes.
TEST(ShrinkOptionsPass, IgnoredRowsStayIgnored) {
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

// Fails if values are rounded where the finding depends on a low bit, or if the dtype is never tried.
TEST(ShrinkOptionsPass, DTypeStaysWhereTheFindingNeedsItsBits) {
  OwnedProblem start = Busy(3, 5, 4, DType::kF32);
  start.hidden.SetFloat(6, 1.0f + 0x1p-20f);
  const ShrinkResult r = Checked(start, {}, [](const OwnedProblem& p) {
    const std::vector<float> h = Floats(p.hidden);
    return std::any_of(h.begin(), h.end(), [](float x) { return x > 1 && x < 1.0001f; });
  });
  EXPECT_EQ(r.problem.hidden.dtype, DType::kF32);
  EXPECT_EQ(ValueCount(r.problem), 3);
  // This is the simplest float in (1, 1.0001): fp16 and bf16 have none.
  EXPECT_THAT(Floats(r.problem.hidden), ::testing::ElementsAre(1.0f + 0x1p-20f));
}

}  // namespace
}  // namespace plumbline::fuzz
