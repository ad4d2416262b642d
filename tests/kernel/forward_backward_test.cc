// SPDX-License-Identifier: Apache-2.0
//
// Gradients in forward on the host: the results of one call are compared with those of Forward and
// Backward.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "kernel/linear_cross_entropy.h"
#include "tests/kernel/test_problem.h"

namespace plumbline::kernel {
namespace {

using ::testing::HasSubstr;

struct Free {
  void operator()(void* memory) const { ::operator delete (memory, std::align_val_t{64}); }
};

// Calls ForwardBackward in a workspace of exactly the size asked for, full of NaN.
Status Call(const Problem& problem, const Results& results, const UpstreamGradients& upstream) {
  size_t bytes = 0;
  Status status = GetForwardBackwardSize(problem, results, {}, &bytes);
  if (!status.ok()) return status;
  const std::unique_ptr<void, Free> workspace(::operator new (bytes + 64, std::align_val_t{64}));
  std::memset(workspace.get(), 0xff, bytes + 64);
  status = ForwardBackward(problem, results, {}, upstream, workspace.get());
  const auto* const end = static_cast<const unsigned char*>(workspace.get()) + bytes;
  EXPECT_TRUE(std::all_of(end, end + 64, [](unsigned char byte) { return byte == 0xff; }));
  return status;
}

// Draws a problem with ignored and unasked rows among the others. An invalid one makes all of
// grad_weight NaN, so that its bits say nothing.
TestValues Mixed(DType dtype, uint64_t seed, bool invalid = false) {
  TestValues values = TestValues::Random(dtype, 23, 150, 19, seed);
  values.labels[2] = values.ignore_index;
  if (invalid) values.labels[11] = 150;
  values.g[5] = values.k[5] = 0;
  values.scalar_temperature = true;
  values.temperature = {0.75f};
  return values;
}

// Gives each row the gradients of a vector, and keeps what it was handed.
struct Copying {
  std::vector<float> g = {}, k = {};
  std::vector<float> logprob = {}, entropy = {}, lse = {};
  bool zero_at_first = true;
  int calls = 0;

  UpstreamGradients Upstream() { return {&Answer, this}; }
  static Status Answer(void* context, const RowBlock& block) {
    Copying& self = *static_cast<Copying*>(context);
    ++self.calls;
    EXPECT_EQ(block.first, 0);
    EXPECT_EQ(block.stream, nullptr);
    for (int64_t i = 0; i < block.rows; ++i) {
      self.logprob.push_back(block.logprob[i]);
      self.entropy.push_back(block.entropy[i]);
      self.lse.push_back(block.lse[i]);
      self.zero_at_first &= std::bit_cast<uint32_t>(block.grad_logprob[i]) == 0 &&
                            std::bit_cast<uint32_t>(block.grad_entropy[i]) == 0;
    }
    std::copy(self.g.begin(), self.g.end(), block.grad_logprob);
    std::copy(self.k.begin(), self.k.end(), block.grad_entropy);
    return Status::Ok();
  }
};

std::vector<uint32_t> Bits(const std::vector<float>& values) {
  std::vector<uint32_t> bits;
  for (const float x : values) bits.push_back(std::bit_cast<uint32_t>(x));
  return bits;
}

// Fails if the function is called before forward is done, if it is handed other results than the
// outputs have, or if backward does not take the gradients that it gives.
TEST(ForwardBackwardTest, WithAFunctionHasTheBitsOfForwardAndBackward) {
  for (const auto& [dtype, invalid] : {std::pair{DType::kBf16, false}, std::pair{DType::kF16, false},
                                       std::pair{DType::kF32, false}, std::pair{DType::kF32, true}}) {
    const TestValues values = Mixed(dtype, 3, invalid);
    const TestLayout layout{.hidden_major = true, .hidden_padding = 3, .vector_stride = 2};
    PlacedProblem placed(values, layout);
    Copying copying{.g = values.g, .k = values.k};
    placed.problem().grad_logprob.reset();
    placed.problem().grad_entropy.reset();
    const Status status = Call(placed.problem(), placed.results(), copying.Upstream());
    EXPECT_EQ(status.code, invalid ? Code::kInvalidData : Code::kOk);
    EXPECT_EQ(status.message.find("labels[11] = 150") != std::string::npos, invalid);
    const TestOutputs outputs = placed.Outputs();
    EXPECT_TRUE(outputs == Computed(values, layout));
    EXPECT_EQ(copying.calls, 1);
    EXPECT_TRUE(copying.zero_at_first);
    EXPECT_EQ(Bits(copying.logprob), outputs.logprob);
    EXPECT_EQ(Bits(copying.entropy), outputs.entropy);
    EXPECT_EQ(Bits(copying.lse), outputs.lse);
  }
}

// Fails if outputs that nobody asks for are not computed for the function.
TEST(ForwardBackwardTest, TheFunctionSeesWhatNoOutputHas) {
  const TestValues values = Mixed(DType::kF32, 4);
  PlacedProblem placed(values), whole(values);
  Copying copying{.g = values.g, .k = values.k};
  placed.problem().grad_logprob.reset();
  placed.problem().grad_entropy.reset();
  placed.results().logprob.reset();
  placed.results().entropy.reset();
  placed.results().lse.reset();
  EXPECT_TRUE(Call(placed.problem(), placed.results(), copying.Upstream()).ok());
  const TestOutputs want = Computed(values);
  EXPECT_EQ(Bits(copying.logprob), want.logprob);
  EXPECT_EQ(Bits(copying.entropy), want.entropy);
  EXPECT_EQ(Bits(copying.lse), want.lse);
  EXPECT_TRUE(placed.Outputs().grad_weight == want.grad_weight);
  EXPECT_TRUE(placed.Outputs().grad_hidden == want.grad_hidden);
}

// Upstream gradients known before the call, for rows and as the scalar of a reduction. Fails if they
// give other bits than Forward and Backward.
TEST(ForwardBackwardTest, WithKnownGradientsHasTheBitsOfForwardAndBackward) {
  for (const Reduction reduction : {Reduction::kNone, Reduction::kSum, Reduction::kMean}) {
    TestValues values = Mixed(DType::kBf16, 5);
    values.reduction = reduction;
    if (reduction != Reduction::kNone) values.g = {0.3f};
    PlacedProblem placed(values);
    EXPECT_TRUE(Call(placed.problem(), placed.results(), {}).ok());
    EXPECT_TRUE(placed.Outputs() == Computed(values));
  }
}

// Fails if the function is called where there is no gradient (the call is then Forward) or no row.
TEST(ForwardBackwardTest, TheFunctionIsNotCalledForNothing) {
  TestValues values = TestValues::Random(DType::kF32, 4, 9, 5, 6);
  values.want_backward = false;
  Copying copying;
  PlacedProblem placed(values);
  placed.problem().grad_logprob.reset();
  placed.problem().grad_entropy.reset();
  EXPECT_TRUE(Call(placed.problem(), placed.results(), copying.Upstream()).ok());
  EXPECT_TRUE(placed.Outputs() == Computed(values));
  TestValues empty = TestValues::Random(DType::kF32, 0, 9, 5, 6);
  PlacedProblem none(empty);
  none.problem().grad_logprob.reset();
  none.problem().grad_entropy.reset();
  EXPECT_TRUE(Call(none.problem(), none.results(), copying.Upstream()).ok());
  for (const uint32_t bits : none.Outputs().grad_weight) EXPECT_EQ(bits, 0u);
  EXPECT_EQ(copying.calls, 0);
}

// Fails if the function's error is lost or changed, or if backward runs after it.
TEST(ForwardBackwardTest, WhatTheFunctionReturnsIsReturned) {
  PlacedProblem placed(TestValues::Random(DType::kF32, 4, 9, 5, 7));
  placed.problem().grad_logprob.reset();
  placed.problem().grad_entropy.reset();
  const TestOutputs before = placed.Outputs();
  const Status status = Call(
      placed.problem(), placed.results(),
      {[](void*, const RowBlock&) { return Status::Error(Code::kFailed, "no advantages"); }, nullptr});
  EXPECT_EQ(status.code, Code::kFailed);
  EXPECT_EQ(status.message, "no advantages");
  EXPECT_TRUE(placed.Outputs().grad_weight == before.grad_weight);
  EXPECT_TRUE(placed.Outputs().grad_hidden == before.grad_hidden);
}

// Fails if it is not refused by name on any device, before the device is looked at.
TEST(ForwardBackwardTest, RefusesGradientsBesideAFunction) {
  Copying copying;
  for (const Device device : {Device::kHost, Device::kCuda}) {
    const auto refused = [&](const Problem& problem, const Results& results, const char* words) {
      alignas(64) std::byte memory[64] = {};
      const Status status =
          ForwardBackward(problem, results, {.device = device}, copying.Upstream(), memory);
      EXPECT_EQ(status.code, Code::kInvalidArgument);
      EXPECT_THAT(status.message, HasSubstr(words));
    };
    TestValues values = TestValues::Random(DType::kF32, 4, 9, 5, 8);
    PlacedProblem placed(values);
    refused(placed.problem(), placed.results(), "grad_logprob is present beside");
    placed.problem().grad_logprob.reset();
    refused(placed.problem(), placed.results(), "grad_entropy is present beside");
    values.reduction = Reduction::kMean;
    values.g = {1};
    PlacedProblem reduced(values);
    refused(reduced.problem(), reduced.results(), "reduction = 2");
  }
  PlacedProblem placed(TestValues::Random(DType::kF32, 4, 9, 5, 8));
  const Status status = ForwardBackward(placed.problem(), placed.results(), {}, {}, nullptr);
  EXPECT_EQ(status.code, Code::kInvalidArgument);
  EXPECT_THAT(status.message, HasSubstr("workspace = null"));
  EXPECT_EQ(copying.calls, 0);
}

// The size is what the passes need, five vectors of rows and the saved state, each with up to 64 bytes
// more.
TEST(ForwardBackwardTest, Size) {
  const auto up = [](size_t bytes) { return (bytes + 63) / 64 * 64; };
  PlacedProblem placed(TestValues::Random(DType::kBf16, 20, 70, 9, 9));
  Sizes sizes;
  ASSERT_TRUE(GetSizes(placed.problem(), placed.results(), {}, &sizes).ok());
  size_t bytes = 0;
  ASSERT_TRUE(GetForwardBackwardSize(placed.problem(), placed.results(), {}, &bytes).ok());
  EXPECT_EQ(bytes, up(sizes.workspace) + 5 * 128 + up(sizes.saved));
  placed.results().grad_hidden.reset();
  placed.results().grad_weight.reset();
  ASSERT_TRUE(GetSizes(placed.problem(), placed.results(), {}, &sizes).ok());
  ASSERT_TRUE(GetForwardBackwardSize(placed.problem(), placed.results(), {}, &bytes).ok());
  EXPECT_EQ(bytes, up(sizes.workspace));
}

}  // namespace
}  // namespace plumbline::kernel
