// SPDX-License-Identifier: Apache-2.0
//
// grad_hidden in stretches, on the host with the arithmetic of tensor cores.

#include "kernel/stretches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "kernel/host/operator.h"
#include "tests/kernel/support/tensor_core_definition.h"
#include "tests/kernel/test_problem.h"

namespace plumbline::kernel {
namespace {

struct OnTensorCores : host::NoHooks {
  using Dots = host::TensorCores;
};

// Fails if a stretch is no multiple of its unit, if there are too many, or if a shorter one would
// do.
TEST(Stretches, AreAsShortAsTheirNumberAllows) {
  for (int64_t v = 1; v < 400'000; v += 1 + v / 97) {
    const int64_t stretch = StretchOf(v);
    EXPECT_EQ(stretch % kStretchUnit, 0) << v;
    EXPECT_LE((v + stretch - 1) / stretch, kMostStretches) << v;
    const int64_t shorter = stretch - kStretchUnit;
    EXPECT_TRUE(shorter == 0 || (v + shorter - 1) / shorter > kMostStretches) << v;
  }
}

// With hidden of zeros d_logits are known: g ([v = y] - 1/V), rounded. Fails if a stretch goes on from
// the one before, is left out, has other columns, or is added in another order.
TEST(Stretches, AreAddedInOrder) {
  for (const int64_t v : {500, 768, 769, 2304, 13'000}) {
    for (const DType dtype : {DType::kBf16, DType::kF16}) {
      TestValues values = TestValues::Random(dtype, 1, v, 3, 7);
      std::ranges::fill(values.hidden, 0.0F);
      values.k.clear();
      values.g = {1.5F};
      values.fp32_grads = true;
      PlacedProblem placed(values);
      ASSERT_TRUE(host::RunImpl(placed.problem(), placed.results(), 2, OnTensorCores()).ok());
      const TestOutputs outputs = placed.Outputs();
      std::vector<float> d(static_cast<size_t>(v), RoundTo(dtype, -1.5F * (1 / static_cast<float>(v))));
      d[static_cast<size_t>(values.labels[0])] = RoundTo(dtype, 1.5F * (1 - 1 / static_cast<float>(v)));
      const int64_t stretch = StretchOf(v);
      for (int64_t j = 0; j < values.h; ++j) {
        std::vector<float> column;
        for (int64_t i = 0; i < v; ++i) column.push_back(values.Weight(i, j));
        float total = 0;
        for (int64_t first = 0; first < v; first += stretch) {
          const auto sum = std::bit_cast<float>(TensorCoreByDefinition(
              dtype, d.data() + first, column.data() + first, std::min(stretch, v - first)));
          total = first == 0 ? sum : total + sum;
        }
        EXPECT_EQ(TestOutputs::Float(outputs.grad_hidden[static_cast<size_t>(j)]), total)
            << v << " columns, " << j;
      }
    }
  }
}

}  // namespace
}  // namespace plumbline::kernel
