// SPDX-License-Identifier: Apache-2.0
//
// Tests how a probe is judged. The devices are functions here: one keeps every claim, the others break
// one claim each.

#include "fuzz/gpu/probe/probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "kernel/dtype.h"
#include "tests/fuzz/support/program.h"
#include "tests/kernel/support/tensor_core_definition.h"

namespace plumbline::fuzz {
namespace {

using kernel::DType, kernel::Problem, kernel::Status;
using ::testing::HasSubstr;

FunctionSweep Good() { return {.arguments = 1000, .worst = 1.9, .worst_at = -3}; }

// Fails if an error above the claim, a NaN, a wrong order, a wrong value or an empty sweep counts as
// kept.
TEST(ProbeSweepTest, EveryWayOfNotKeepingAClaimIsSeen) {
  EXPECT_EQ(JudgeSweep("f", Good(), 2, true).kept, Kept::kYes);
  FunctionSweep sweep = Good();
  sweep.worst = 2.1;
  EXPECT_EQ(JudgeSweep("f", sweep, 2, true).kept, Kept::kNo);
  sweep = Good();
  sweep.worst = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(JudgeSweep("f", sweep, 2, true).kept, Kept::kNo);
  sweep = Good();
  sweep.rising = 1;
  EXPECT_EQ(JudgeSweep("f", sweep, 2, true).kept, Kept::kNo);
  EXPECT_EQ(JudgeSweep("f", sweep, 2, false).kept, Kept::kYes);
  sweep = Good();
  sweep.wrong = 1;
  sweep.wrong_at = -0.5f;
  EXPECT_EQ(JudgeSweep("f", sweep, 0, false).kept, Kept::kNo);
  EXPECT_THAT(JudgeSweep("f", sweep, 2, false).measured, HasSubstr("1 wrong values, one at -0x1p-1"));
  sweep = Good();
  sweep.arguments = 0;
  EXPECT_EQ(JudgeSweep("f", sweep, 2, true).kept, Kept::kNo);
}

float Widened(bool fp16, uint16_t bits) {
  return fp16 ? kernel::ToFloat(kernel::Float16{bits}) : kernel::ToFloat(kernel::BFloat16{bits});
}

// Computes what a device should, by the definition in integers. It shares no code with the model under
// test.
void ByDefinition(bool fp16, int64_t tiles, int depth, const uint16_t* a, const uint16_t* b,
                  float* out) {
  const auto width = static_cast<size_t>(depth);
  std::vector<float> left(width), right(width);
  for (int64_t i = 0; i < tiles * 16; ++i) {
    for (int64_t j = 0; j < 16; ++j) {
      const int64_t column = i / 16 * 16 + j;
      for (size_t k = 0; k < width; ++k) {
        left[k] = Widened(fp16, a[static_cast<size_t>(i) * width + k]);
        right[k] = Widened(fp16, b[static_cast<size_t>(column) * width + k]);
      }
      const uint32_t bits = kernel::TensorCoreByDefinition(fp16 ? DType::kF16 : DType::kBf16,
                                                           left.data(), right.data(), depth);
      std::memcpy(out + i * 16 + j, &bits, sizeof bits);
    }
  }
}

// Fails if the model and the definition differ, or if elements are left out.
TEST(ProbeTensorCoreTest, ADeviceByTheDefinitionKeepsTheModel) {
  for (const bool fp16 : {false, true}) {
    const ProbeLine line = ProbeTensorCore("mma", fp16, 11 * 4 * 16, 5, ByDefinition);
    EXPECT_EQ(line.kept, Kept::kYes) << line.measured;
    EXPECT_EQ(line.samples, 11 * 4 * 16 * 16);
  }
}

// Fails if only some elements of a tile, or only the pairs drawn together, are compared.
TEST(ProbeTensorCoreTest, OneWrongBitIsSeen) {
  const ProbeLine line = ProbeTensorCore(
      "mma", false, 64, 5,
      [](bool fp16, int64_t tiles, int depth, const uint16_t* a, const uint16_t* b, float* out) {
        ByDefinition(fp16, tiles, depth, a, b, out);
        float& last = out[tiles * 256 - 16];
        last = std::nextafter(last, 9.0f);
      });
  EXPECT_EQ(line.kept, Kept::kNo);
  EXPECT_EQ(line.wrong, 1);
  EXPECT_THAT(line.measured, HasSubstr("1 of 1024 dot products differ; the first, 16 products, "));
}

// fp32 sums in sequence are another arithmetic; so is an accumulator that rounds to nearest. Fails if
// the operands do not tell them apart.
TEST(ProbeTensorCoreTest, OtherArithmeticIsSeen) {
  const ProbeLine line = ProbeTensorCore(
      "mma", false, 704, 5,
      [](bool, int64_t tiles, int depth, const uint16_t* a, const uint16_t* b, float* out) {
        for (int64_t i = 0; i < tiles * 16; ++i) {
          for (int64_t j = 0; j < 16; ++j) {
            float sum = 0;
            for (int64_t k = 0; k < depth; ++k) {
              sum = std::fma(Widened(false, a[i * depth + k]),
                             Widened(false, b[(i / 16 * 16 + j) * depth + k]), sum);
            }
            out[i * 16 + j] = sum;
          }
        }
      });
  EXPECT_EQ(line.kept, Kept::kNo);
  EXPECT_GT(line.wrong, line.samples / 4);
}

float LogitByDefinition(const Problem& problem, int64_t row) {
  const int64_t depth = problem.hidden_size();
  std::vector<float> left, right;
  for (int64_t k = 0; k < depth; ++k) {
    const auto at = [&](const kernel::ConstTensor& tensor, int64_t i) {
      if (tensor.dtype == DType::kF32) return static_cast<const float*>(tensor.data)[i];
      return Widened(tensor.dtype == DType::kF16, static_cast<const uint16_t*>(tensor.data)[i]);
    };
    left.push_back(at(problem.hidden, row * depth + k));
    right.push_back(at(problem.weight, k));
  }
  const uint32_t bits =
      kernel::TensorCoreByDefinition(problem.hidden.dtype, left.data(), right.data(), depth);
  float z;
  std::memcpy(&z, &bits, sizeof z);
  return std::isfinite(z) ? z : std::numeric_limits<float>::quiet_NaN();
}

// Fails if host-hopper's logits differ from the definition's, or if too few rows are compared.
TEST(ProbeLogitsTest, AnOperatorByTheDefinitionKeepsTheModel) {
  for (const DType dtype : {DType::kBf16, DType::kF16, DType::kF32}) {
    const ProbeLine line = ProbeLogits("logits", dtype, 3, 7, [](const Problem& problem, float* lse) {
      for (int64_t i = 0; i < problem.rows(); ++i) lse[i] = LogitByDefinition(problem, i);
      return Status::Ok();
    });
    EXPECT_EQ(line.kept, Kept::kYes) << line.measured;
    EXPECT_GT(line.samples, 3 * 8 * 8);
  }
}

// Fails if one wrong bit is missed, or if an operator that is missing or fails counts as kept.
TEST(ProbeLogitsTest, AWrongLogitIsSeenAndAMissingOperatorIsSaid) {
  const ProbeLine wrong =
      ProbeLogits("logits", DType::kBf16, 2, 7, [](const Problem& problem, float* lse) {
        for (int64_t i = 0; i < problem.rows(); ++i) lse[i] = LogitByDefinition(problem, i);
        if (problem.hidden_size() == 17) lse[1] = std::nextafter(lse[1], 9.0f);
        return Status::Ok();
      });
  EXPECT_EQ(wrong.kept, Kept::kNo);
  EXPECT_THAT(wrong.measured, HasSubstr("H = 17"));
  const ProbeLine missing = ProbeLogits("logits", DType::kBf16, 2, 7, [](const Problem&, float*) {
    return Status::Error(kernel::Code::kUnsupported, "none here");
  });
  EXPECT_EQ(missing.kept, Kept::kSkipped);
  EXPECT_EQ(missing.measured, "none here");
  EXPECT_THROW((void)ProbeLogits("logits", DType::kBf16, 2, 7,
                                 [](const Problem&, float*) {
                                   return Status::Error(kernel::Code::kFailed, "an illegal address");
                                 }),
               CudaFault);
}

class ProbeProgram : public plumbline::fuzz::testing::Program {};

// Fails if a machine without a GPU is called clean, or if only one of the two forms states the reason.
TEST_F(ProbeProgram, WithoutADeviceIsStatusFour) {
  for (const std::string json : {"", " --json"}) {
    const auto outcome = Run("doctor --probe" + json, "CUDA_VISIBLE_DEVICES=");
    EXPECT_EQ(outcome.status, 4) << outcome.out;
    EXPECT_THAT(Err(), HasSubstr("doctor --probe: "));
    EXPECT_THAT(outcome.last, HasSubstr("unavailable"));
  }
}

// Runs the real probe: every claim, on the GPU of this machine. Fails if the device does not keep a
// claim.
TEST(GpuProbe, ThisDeviceKeepsEveryClaim) {
  ProbedDevice device;
  std::string reason;
  if (!DescribeDevice(&device, &reason)) GTEST_SKIP() << reason;
  for (const ProbeLine& line : ProbeDevice(device, [](const ProbeLine&) {})) {
    EXPECT_NE(line.kept, Kept::kNo) << line.what << ": " << line.measured;
  }
}

}  // namespace
}  // namespace plumbline::fuzz
