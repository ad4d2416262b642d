// SPDX-License-Identifier: Apache-2.0

#include "oracle/budget/inputs.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "kernel/dtype.h"

namespace plumbline::oracle {
namespace {

// Fails for a wrong bias, a subnormal treated as normal, or a lost sign. The kernel's decoder was
// written separately, so each is checked against the other over all patterns.
TEST(ReadElement, AgreesWithTheKernelOnEveryPattern) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto pattern = static_cast<uint16_t>(bits);
    for (kernel::DType dtype : {kernel::DType::kBf16, kernel::DType::kF16}) {
      const double ours = ReadElement({&pattern, dtype, 0, {}, {}}, 0, 0);
      const float theirs = dtype == kernel::DType::kBf16 ? kernel::ToFloat(kernel::BFloat16{pattern})
                                                         : kernel::ToFloat(kernel::Float16{pattern});
      ASSERT_TRUE(std::isnan(ours) ? std::isnan(theirs)
                                   : std::bit_cast<uint64_t>(ours) ==
                                         std::bit_cast<uint64_t>(static_cast<double>(theirs)))
          << kernel::Name(dtype) << " " << std::hex << bits;
    }
  }
}

// Fails for gradients read with the sign of the loss, for 1/n taken over all rows, for an ignored label
// inside the vocabulary that is counted as a row, for strides that are not followed, and if the whole
// problem's row count is not used.
TEST(LoadInputs, UpstreamGradientsAndRowKinds) {
  const std::vector<float> hidden = {1, 2, 9, 3, 4, 9, 5, 6, 9},
                           weight = {1, 3, 2, 4};  // [3,2] ld 3, [2,2]
  const std::vector<int32_t> labels = {1, 0, 7};
  const float gamma = 4, k = 0.5;
  kernel::Problem p;
  p.hidden = {hidden.data(), kernel::DType::kF32, 2, {3, 2}, {3, 1}};
  p.weight = {weight.data(), kernel::DType::kF32, 2, {2, 2}, {1, 2}};  // hidden-major
  p.labels = {labels.data(), kernel::DType::kI32, 1, {3, 1}, {1, 1}};
  p.ignore_index = 0;
  p.reduction = kernel::Reduction::kMean;
  p.grad_logprob = kernel::ConstTensor{&gamma, kernel::DType::kF32, 0, {1, 1}, {1, 1}};
  p.grad_entropy = kernel::ConstTensor{&k, kernel::DType::kF32, 1, {3, 1}, {0, 1}};  // broadcast
  const Inputs in = LoadInputs(p);
  EXPECT_EQ(in.kind, (std::vector<RowKind>{RowKind::kNormal, RowKind::kIgnored, RowKind::kInvalid}));
  EXPECT_EQ(in.first_invalid_row, 2);
  EXPECT_EQ(in.counted, 2);
  EXPECT_EQ(in.g, (std::vector<double>{-2, -2, -2}));
  EXPECT_EQ(in.k, (std::vector<double>{0.5, 0.5, 0.5}));
  EXPECT_EQ(LoadInputs(p, 8).g, (std::vector<double>{-0.5, -0.5, -0.5}));  // a part of eight rows
}

}  // namespace
}  // namespace plumbline::oracle
