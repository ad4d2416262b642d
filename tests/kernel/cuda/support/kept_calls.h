// SPDX-License-Identifier: Apache-2.0
//
// Calls that keep logits, or exponents in their place: their kinds, their problems, and their outputs.

#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernel/cuda/operator.h"
#include "kernel/linear_cross_entropy.h"
#include "tests/kernel/cuda/support/device_problem.h"
#include "tests/kernel/cuda/support/on_each_path.h"
#include "tests/kernel/test_problem.h"

namespace plumbline::kernel::device {

struct Kind {
  DType dtype;
  KeptForm form;
};
inline constexpr std::array kKinds = {
    Kind{DType::kBf16, KeptForm::kDefault}, Kind{DType::kBf16, KeptForm::kLogits},
    Kind{DType::kF16, KeptForm::kDefault}, Kind{DType::kF32, KeptForm::kDefault}};

// Returns the bytes of all logits, or exponents, that are kept.
inline size_t AllBytes(const TestValues& values, KeptForm form) {
  const bool exponents = form == KeptForm::kDefault && values.dtype == DType::kBf16;
  return static_cast<size_t>(values.n * values.v) * (exponents ? 2 : 4);
}

// Backward's list of rows differs from forward's: some rows have no gradient. With `invalid` it alone
// has a row whose label is no class, which makes all of grad_weight NaN, so that its bits say nothing.
inline TestValues Ragged(DType dtype, int64_t n, int64_t v, uint64_t seed, int64_t h = 45,
                         bool invalid = false) {
  TestValues values = TestValues::Random(dtype, n, v, h, seed);
  values.labels[3] = values.ignore_index;
  if (invalid) values.labels[static_cast<size_t>(n / 2)] = v;
  for (int64_t i = 0; i < n; ++i) {
    values.temperature.push_back(0.5f + 0.03125f * static_cast<float>(i % 40));
    if (i % 7 == 1) values.g[static_cast<size_t>(i)] = values.k[static_cast<size_t>(i)] = 0;
  }
  return values;
}

// Returns what Forward and Backward give, in memory of exactly the sizes asked for. Bits of gradients
// that are all NaN would say nothing, so that is a failure where no row is invalid.
inline TestOutputs Apart(const TestValues& values, const TestLayout& layout,
                         const Execution& execution) {
  PlacedProblem placed(values, layout);
  DeviceProblem device(placed.problem(), placed.results());
  DeviceCall call(device, execution);
  const Status status = call.Run();
  EXPECT_TRUE(status.ok()) << status.message;
  EXPECT_THAT(device.Fetch(), testing::IsEmpty());
  EXPECT_TRUE(call.GuardsIntact());
  const TestOutputs found = placed.Outputs();
  const auto is_nan = [](uint32_t bits) { return std::isnan(TestOutputs::Float(bits)); };
  for (const std::vector<uint32_t>* gradient : {&found.grad_hidden, &found.grad_weight}) {
    EXPECT_TRUE(found.first_invalid_row >= 0 || gradient->empty() ||
                !std::ranges::all_of(*gradient, is_nan));
  }
  return found;
}

// Calls ForwardBackward in a workspace of exactly the size asked for, full of `poison`. With
// `chunk_columns` above 0 it calls kernel/cuda/operator.h.
struct OneCall {
  OneCall(const DeviceProblem& on, const Problem& problem, const Execution& execution, int poison,
          int64_t chunk_columns = 0)
      : results(on.results()), asked(problem), how(execution), chunk(chunk_columns) {
    size_t bytes = 0;
    EXPECT_TRUE((chunk == 0 ? GetForwardBackwardSize(asked, results, how, &bytes)
                            : cuda::GetForwardBackwardSize(asked, results, how, &bytes, chunk))
                    .ok());
    workspace = std::make_unique<DeviceBuffer>(bytes);
    workspace->Fill(poison);
    Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }
  Status Run(const UpstreamGradients& upstream) {
    return chunk == 0 ? ForwardBackward(asked, results, how, upstream, workspace->data())
                      : cuda::ForwardBackward(asked, results, how, upstream, workspace->data(),
                                              /*path=*/nullptr, chunk);
  }
  const Results& results;
  Problem asked;
  Execution how;
  int64_t chunk;
  std::unique_ptr<DeviceBuffer> workspace;
};

// Returns what ForwardBackward gives.
inline TestOutputs AtOnce(const TestValues& values, const Execution& execution,
                          const TestLayout& layout = {}, int64_t chunk_columns = 0) {
  PlacedProblem placed(values, layout);
  DeviceProblem device(placed.problem(), placed.results());
  OneCall call(device, device.problem(), execution, 0xff, chunk_columns);
  const Status status = call.Run({});
  EXPECT_TRUE(status.ok()) << status.message;
  Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  EXPECT_THAT(device.Fetch(), testing::IsEmpty());
  EXPECT_TRUE(call.workspace->GuardsIntact());
  return placed.Outputs();
}

// Limits that keep no logits, a part that begins within a tile, and all logits.
inline std::array<size_t, 3> Limits(const TestValues& values, KeptForm form) {
  return {0, AllBytes(values, form) * 2 / 5, size_t{1} << 30};
}

class KeepingOnEachPath : public OnEachPath {
 protected:
  static Execution In(KeptForm form) {
    Execution execution = On();
    execution.kept_form = form;
    return execution;
  }
};

}  // namespace plumbline::kernel::device
