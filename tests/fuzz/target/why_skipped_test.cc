// SPDX-License-Identifier: Apache-2.0

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>

#include "fuzz/target/description.h"

namespace plumbline::fuzz {
namespace {

using kernel::DType;
using kernel::Reduction;
using ::testing::HasSubstr;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

// N = 2, V = 4, H = 8, fp32, int64 labels 0 and 3, gradients of both kinds, nothing special.
OwnedProblem Plain() {
  OwnedProblem p;
  p.hidden = HostTensor::Zeros(DType::kF32, {2, 8});
  p.weight = HostTensor::Zeros(DType::kF32, {4, 8});
  p.labels = HostTensor::Zeros(DType::kI64, {2});
  p.labels.SetInt(1, 3);
  p.grad_logprob = HostTensor::Zeros(DType::kF32, {2});
  p.grad_entropy = HostTensor::Zeros(DType::kF32, {2});
  p.wanted.fp32_grads = false;
  return p;
}

// A target limited in one way, a problem that needs just that, and the words that the reason must hold.
struct Row {
  const char* names;
  std::function<void(Capabilities&)> limit;
  std::function<void(OwnedProblem&)> need;
};

const Row kRows[] = {
    {"fp32: not among its dtypes",
     [](Capabilities& c) {
       c.dtypes = {DType::kBf16, DType::kF16};
     },
     [](OwnedProblem& p) { p.hidden.dtype = DType::kF32; }},
    {"hidden_major", [](Capabilities& c) { c.hidden_major = false; },
     [](OwnedProblem& p) { p.layout.weight_hidden_major = true; }},
    {"vocab_major", [](Capabilities& c) { c.vocab_major = false; },
     [](OwnedProblem& p) { p.layout.weight_hidden_major = false; }},
    {"int64", [](Capabilities& c) { c.label_int64 = false; }, [](OwnedProblem&) {}},
    {"int32", [](Capabilities& c) { c.label_int32 = false; },
     [](OwnedProblem& p) { p.labels = HostTensor::Zeros(DType::kI32, {2}); }},
    {"temperature is none", [](Capabilities& c) { c.temperature = TemperatureSupport::kNone; },
     [](OwnedProblem& p) {
       p.temperature = HostTensor::Zeros(DType::kF32, {});
       p.temperature->SetFloat(0, 2);
     }},
    {"temperature is scalar", [](Capabilities& c) { c.temperature = TemperatureSupport::kScalar; },
     [](OwnedProblem& p) {
       p.temperature = HostTensor::Zeros(DType::kF32, {2});
       for (int i = 0; i < 2; ++i) p.temperature->SetFloat(i, 2);
     }},
    {"mean: not among its reductions",
     [](Capabilities& c) {
       c.reductions = {Reduction::kNone, Reduction::kSum};
     },
     [](OwnedProblem& p) {
       p.reduction = Reduction::kMean;
       p.grad_logprob = HostTensor::Zeros(DType::kF32, {});
     }},
    {"H = 8: hidden_multiple is 16", [](Capabilities& c) { c.hidden_multiple = 16; },
     [](OwnedProblem&) {}},
    {"V = 4: vocab_multiple is 3", [](Capabilities& c) { c.vocab_multiple = 3; }, [](OwnedProblem&) {}},
    {"N = 2: rows_multiple is 4", [](Capabilities& c) { c.rows_multiple = 4; }, [](OwnedProblem&) {}},
    {"N, V or H = 0: empty_extents", [](Capabilities& c) { c.empty_extents = false; },
     [](OwnedProblem& p) {
       p.hidden = HostTensor::Zeros(DType::kF32, {2, 0});
       p.weight = HostTensor::Zeros(DType::kF32, {4, 0});
     }},
    {"base_alignment is 16", [](Capabilities& c) { c.base_alignment = 16; },
     [](OwnedProblem& p) { p.layout.offset = 2; }},
    {"base_alignment is 16", [](Capabilities& c) { c.base_alignment = 16; },
     [](OwnedProblem& p) { p.layout.label_offset = 1; }},
    {"rows of 36 bytes: row_alignment is 16", [](Capabilities& c) { c.row_alignment = 16; },
     [](OwnedProblem& p) { p.layout.hidden_padding = 1; }},
    {"rows of 20 bytes: row_alignment is 16", [](Capabilities& c) { c.row_alignment = 16; },
     [](OwnedProblem& p) {
       p.layout.weight_hidden_major = true;
       p.layout.weight_padding = 1;
     }},
    {"negative_strides", [](Capabilities& c) { c.negative_strides = false; },
     [](OwnedProblem& p) { p.layout.reversed = true; }},
    {"strided_inputs", [](Capabilities& c) { c.strided_inputs = false; },
     [](OwnedProblem& p) { p.layout.hidden_padding = 1; }},
    {"strided_inputs", [](Capabilities& c) { c.strided_inputs = false; },
     [](OwnedProblem& p) { p.layout.weight_padding = 1; }},
    {"strided_inputs", [](Capabilities& c) { c.strided_inputs = false; },
     [](OwnedProblem& p) { p.layout.grad_stride = 2; }},
    {"zero_stride_grads", [](Capabilities& c) { c.zero_stride_grads = false; },
     [](OwnedProblem& p) { p.layout.grad_stride = 0; }},
    {"ignore_index", [](Capabilities& c) { c.ignore_index = false; },
     [](OwnedProblem& p) { p.labels.SetInt(1, -100); }},
    {"ignore_index", [](Capabilities& c) { c.ignore_index = false; },
     [](OwnedProblem& p) { p.ignore_index = 3; }},
    {"invalid_labels", [](Capabilities& c) { c.invalid_labels = false; },
     [](OwnedProblem& p) { p.labels.SetInt(0, 4); }},
    {"invalid_labels", [](Capabilities& c) { c.invalid_labels = false; },
     [](OwnedProblem& p) { p.labels.SetInt(0, -1); }},
    {"invalid_labels", [](Capabilities& c) { c.invalid_labels = false; },
     [](OwnedProblem& p) {
       p.temperature = HostTensor::Zeros(DType::kF32, {2});  // 0 in row 1
       p.temperature->SetFloat(0, 1);
     }},
    {"special_values", [](Capabilities& c) { c.special_values = false; },
     [](OwnedProblem& p) { p.hidden.SetFloat(15, kNaN); }},
    {"special_values", [](Capabilities& c) { c.special_values = false; },
     [](OwnedProblem& p) { p.weight.SetFloat(31, -kInf); }},
    {"special_values", [](Capabilities& c) { c.special_values = false; },
     [](OwnedProblem& p) { p.grad_entropy->SetFloat(1, kInf); }},
    {"special_values", [](Capabilities& c) { c.special_values = false; },
     [](OwnedProblem& p) { p.grad_logprob->SetFloat(0, kNaN); }},
    {"special_values", [](Capabilities& c) { c.special_values = false; },
     [](OwnedProblem& p) {
       p.temperature = HostTensor::Zeros(DType::kF32, {});
       p.temperature->SetFloat(0, kNaN);
     }},
};

// Fails if a capability is not checked (no reason), is checked in the wrong place (another name), or is
// required of a target that has it: without the limit the same problem must not be skipped.
TEST(WhySkipped, EveryLimit) {
  for (const Row& row : kRows) {
    Description limited, able;
    row.limit(limited.capabilities);
    OwnedProblem problem = Plain();
    row.need(problem);
    const auto reason = WhySkipped(limited, problem);
    ASSERT_TRUE(reason.has_value()) << row.names;
    EXPECT_THAT(*reason, HasSubstr(row.names));
    EXPECT_EQ(WhySkipped(able, problem), std::nullopt) << row.names;
  }
}

// Fails if a limit that a problem does not touch skips it: a target that skips too much hides its
// errors.
TEST(WhySkipped, LimitsThatDoNotApply) {
  const auto skipped = [](const std::function<void(Capabilities&)>& limit,
                          const std::function<void(OwnedProblem&)>& change) {
    Description target;
    limit(target.capabilities);
    OwnedProblem problem = Plain();
    change(problem);
    return WhySkipped(target, problem).value_or("");
  };
  const auto plain = [](OwnedProblem&) {};
  EXPECT_EQ(skipped([](Capabilities& c) { c.hidden_major = false; }, plain), "");
  EXPECT_EQ(skipped([](Capabilities& c) { c.label_int32 = false; }, plain), "");
  EXPECT_EQ(skipped([](Capabilities& c) { c.temperature = TemperatureSupport::kNone; }, plain), "");
  EXPECT_EQ(skipped([](Capabilities& c) { c.reductions = {Reduction::kNone}; }, plain), "");
  EXPECT_EQ(skipped([](Capabilities& c) { c.hidden_multiple = c.vocab_multiple = c.rows_multiple = 2; },
                    plain),
            "");
  EXPECT_EQ(
      skipped([](Capabilities& c) { c.ignore_index = c.invalid_labels = c.special_values = false; },
              plain),
      "");
  EXPECT_EQ(skipped([](Capabilities& c) { c.strided_inputs = c.zero_stride_grads = false; }, plain),
            "");
  EXPECT_EQ(skipped([](Capabilities& c) { c.base_alignment = c.row_alignment = 32; }, plain), "");
  EXPECT_EQ(skipped([](Capabilities& c) { c.negative_strides = c.empty_extents = false; }, plain), "");
  EXPECT_EQ(skipped([](Capabilities& c) { c.base_alignment = 16; },
                    [](OwnedProblem& p) { p.layout.offset = 4; }),
            "");
  // One row has no pitch.
  EXPECT_EQ(skipped([](Capabilities& c) { c.row_alignment = 64; },
                    [](OwnedProblem& p) {
                      p = SelectRows(p, {0});
                      p.layout.hidden_padding = 1;
                      p.layout.weight_padding = 8;
                    }),
            "");
  // These two exempt from a check, not from a problem.
  EXPECT_EQ(skipped([](Capabilities& c) { c.deterministic = c.batch_invariant = false; }, plain), "");
  // An output that a target does not have is not asked for: WithoutWhatItLacks.
  EXPECT_EQ(skipped(
                [](Capabilities& c) {
                  c.entropy = c.lse = c.grad_hidden = c.grad_weight = c.fp32_grads = false;
                },
                plain),
            "");
  // Strides of gradients that are not there, and a NaN that a broadcast never reads, do not matter.
  const auto contiguous = [](Capabilities& c) { c.strided_inputs = c.zero_stride_grads = false; };
  for (const int64_t stride : {0, 2}) {
    EXPECT_EQ(skipped(contiguous,
                      [&](OwnedProblem& p) {
                        p.grad_logprob.reset();
                        p.grad_entropy.reset();
                        p.layout.grad_stride = stride;
                      }),
              "");
  }
  EXPECT_EQ(skipped([](Capabilities& c) { c.special_values = false; },
                    [](OwnedProblem& p) {
                      p.layout.grad_stride = 0;
                      p.grad_logprob->SetFloat(1, kNaN);
                    }),
            "");
  // An ignored row's label and temperature are not invalid, whatever they hold.
  EXPECT_EQ(skipped([](Capabilities& c) { c.invalid_labels = false; },
                    [](OwnedProblem& p) {
                      p.labels.SetInt(0, -100);
                      p.temperature = HostTensor::Zeros(DType::kF32, {2});
                      p.temperature->SetFloat(1, 1);
                    }),
            "");
}

// Fails if an output that is lacking is still asked for, or if one that the target has is dropped with
// it.
TEST(WithoutWhatItLacks, DropsThoseOutputsAndNoOther) {
  OwnedProblem full = Plain();
  full.wanted = {
      .entropy = true, .lse = true, .grad_hidden = true, .grad_weight = true, .fp32_grads = true};
  EXPECT_EQ(WithoutWhatItLacks({}, full), full);
  const auto expect = [&](const std::function<void(Capabilities&)>& limit,
                          const std::function<void(OwnedProblem&)>& change) {
    Capabilities can;
    limit(can);
    OwnedProblem changed = full;
    change(changed);
    EXPECT_EQ(WithoutWhatItLacks(can, full), changed);
  };
  expect([](Capabilities& c) { c.lse = false; }, [](OwnedProblem& p) { p.wanted.lse = false; });
  expect([](Capabilities& c) { c.grad_hidden = false; },
         [](OwnedProblem& p) { p.wanted.grad_hidden = false; });
  expect([](Capabilities& c) { c.grad_weight = false; },
         [](OwnedProblem& p) { p.wanted.grad_weight = false; });
  expect([](Capabilities& c) { c.fp32_grads = false; },
         [](OwnedProblem& p) { p.wanted.fp32_grads = false; });
  expect([](Capabilities& c) { c.first_invalid_row = false; },
         [](OwnedProblem& p) { p.wanted.first_invalid_row = false; });
  const auto no_entropy = [](Capabilities& c) { c.entropy = false; };
  expect(no_entropy, [](OwnedProblem& p) {
    p.wanted.entropy = false;
    p.grad_entropy.reset();
  });
  // Only the entropy had an upstream gradient: none is left for a backward pass.
  full.grad_logprob.reset();
  expect(no_entropy, [](OwnedProblem& p) {
    p.wanted.entropy = p.wanted.grad_hidden = p.wanted.grad_weight = false;
    p.grad_entropy.reset();
  });
}

// Fails if padding or an offset is left where the target cannot have it, or is changed where it can.
TEST(WithoutWhatItLacks, RoundsPaddingAndTheOffsetOfLabelsUp) {
  OwnedProblem given = Plain();
  given.layout.hidden_padding = 5;  // rows of 13 elements of 4 bytes
  given.layout.weight_padding = 8;  // of 16
  given.layout.label_offset = 3;    // of 8 bytes
  Description target;
  target.capabilities.row_alignment = target.capabilities.base_alignment = 32;
  const OwnedProblem asked = WithoutWhatItLacks(target.capabilities, given);
  EXPECT_EQ(asked.layout.hidden_padding, 8);
  EXPECT_EQ(asked.layout.weight_padding, 8);
  EXPECT_EQ(asked.layout.label_offset, 4);
  EXPECT_EQ(WhySkipped(target, asked), std::nullopt);
  EXPECT_EQ(WithoutWhatItLacks({}, given), given);
}

}  // namespace
}  // namespace plumbline::fuzz
