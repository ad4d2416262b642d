// SPDX-License-Identifier: Apache-2.0
//
// What is counted as a foreign kernel's, and as exact, against the kernels themselves and the oracle.

#include "tests/fuzz/false_alarms/foreign.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <mutex>
#include <string>
#include <vector>

#include "fuzz/target/contracts.h"
#include "fuzz/target/interface/views.h"
#include "oracle/sweep/sweep.h"
#include "oracle/verdict/verdict.h"
#include "tests/fuzz/false_alarms/draw.h"
#include "tests/fuzz/false_alarms/measure.h"
#include "tests/fuzz/false_alarms/outputs.h"

namespace plumbline::false_alarms {
namespace {

using oracle::Output;

// Calls visit(output, row, column) for every place.
template <class Visit>
void ForEachPlace(const Drawn& drawn, const Visit& visit) {
  for (const int64_t i : drawn.places.rows) {
    for (const Output o : {Output::kLogprob, Output::kEntropy, Output::kLse}) visit(o, i, int64_t{0});
    for (const int64_t j : drawn.places.hidden_columns) visit(Output::kGradHidden, i, j);
  }
  for (const int64_t v : drawn.places.weight_rows) {
    for (int64_t j = 0; j < drawn.problem.hidden_size(); ++j) visit(Output::kGradWeight, v, j);
  }
}

// Returns the problem's first seed from `seed` on with inputs of this dtype.
Drawn DrawnOf(kernel::DType dtype, uint64_t seed) {
  for (;; ++seed) {
    Drawn drawn = Draw(Set::kSmall, 0, 256, seed);
    if (drawn.problem.hidden.dtype == dtype && drawn.problem.vocab() < 600) return drawn;
  }
}

class Foreign : public ::testing::TestWithParam<honest::Kernel> {};

// Fails if logits that are shared, a part of the gradients, or the order of their sums are not what the
// kernel itself computes: then the verdicts counted would be another kernel's.
TEST_P(Foreign, HasTheBitsOfTheKernel) {
  for (const kernel::DType dtype : {kernel::DType::kBf16, kernel::DType::kF16, kernel::DType::kF32}) {
    if (dtype == kernel::DType::kF32 && std::strstr(GetParam().capabilities, "dtypes")) continue;
    for (const uint64_t seed : {1, 30, 60, 90}) {
      const Drawn drawn = DrawnOf(dtype, seed);
      const kernel::Problem problem = DenseView(drawn.problem);
      const oracle::Inputs inputs = oracle::LoadInputs(problem);
      const Outputs whole(problem, drawn.gradients), part(problem, drawn.gradients);
      fuzz::AbiCall call(problem, whole.results());
      char error[200];
      ASSERT_EQ(honest::Run(GetParam(), *call.problem(), *call.results(), error, sizeof error),
                PLUMBLINE_OK);
      const WeightColumns columns(problem, drawn.places.hidden_columns);
      Sums sums(problem, drawn.places.rows);
      RunForeign(GetParam(), false, {problem, inputs, drawn.places, columns, &sums}, part.results());
      int64_t differ = 0;
      ForEachPlace(drawn, [&](Output o, int64_t i, int64_t j) {
        const auto at = [&](const Outputs& from) {
          return oracle::ReadElement(kernel::AsConst(*oracle::Find(from.results(), o)), i, j);
        };
        differ += at(whole) != at(part);
      });
      EXPECT_EQ(differ, 0) << "seed " << seed << ", dtype " << static_cast<int>(dtype);
    }
  }
}

std::vector<honest::Kernel> WithoutRoundedSteps() {
  std::vector<honest::Kernel> kernels;
  std::ranges::copy_if(honest::Kernels(), std::back_inserter(kernels),
                       [](const honest::Kernel& kernel) { return !kernel.RoundsSteps(); });
  return kernels;
}

INSTANTIATE_TEST_SUITE_P(All, Foreign, ::testing::ValuesIn(WithoutRoundedSteps()),
                         [](const auto& tested) {
                           std::string name = tested.param.name;
                           std::erase(name, '-');
                           return name;
                         });

// Counts elements that are farther from the oracle's than fp64 may err.
class Nearness final : public oracle::ElementSink {
 public:
  Nearness(const Drawn& drawn, const fuzz::ExactValues& exact) : drawn_(drawn), exact_(exact) {}
  void Take(const oracle::ElementRow& row) override {
    if (row.output == Output::kLoss) return;
    const bool weight = row.output == Output::kGradWeight, hidden = row.output == Output::kGradHidden;
    const std::vector<int64_t>& units = weight ? drawn_.places.weight_rows : drawn_.places.rows;
    const auto at = std::ranges::lower_bound(units, row.row);
    if (at == units.end() || *at != row.row) return;
    const size_t elements = exact_[row.output].size() / units.size();
    const std::scoped_lock lock(mutex_);
    for (size_t j = 0; j < elements; ++j) {
      const int64_t column = hidden ? drawn_.places.hidden_columns[j] : static_cast<int64_t>(j);
      const oracle::Element e = row.at(column);
      const double mine = exact_[row.output][static_cast<size_t>(at - units.begin()) * elements + j];
      // The bound of fp32 in any order holds for fp64 with another unit roundoff, 2^-29 times as large;
      // a factor of 8 is for functions of the library, which it has at a few roundings.
      const double may = 0x1p-26 * e.bound + e.radius;
      far_ += !(std::abs(mine - e.value) <= may);
      ++seen_;
    }
  }
  int64_t far() const { return far_; }
  int64_t seen() const { return seen_; }

 private:
  const Drawn& drawn_;
  const fuzz::ExactValues& exact_;
  std::mutex mutex_;
  int64_t far_ = 0, seen_ = 0;
};

// Fails if what errors are measured against is not the exact value.
TEST(Exact, IsTheOracles) {
  std::string error;
  const oracle::Contract contract = fuzz::DescriptionOf("fp32", &error)->description.contract;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    const Drawn drawn = Draw(Set::kSmall, 0, 256, seed);
    const kernel::Problem problem = DenseView(drawn.problem);
    const fuzz::ExactValues exact = ExactValuesOf(problem, oracle::LoadInputs(problem), drawn.places);
    const Outputs wanted(problem, kernel::DType::kF32);
    Nearness nearness(drawn, exact);
    oracle::Sweep(problem, wanted.results(), contract, {}, &nearness);
    EXPECT_EQ(nearness.far(), 0) << "seed " << seed << ", of " << nearness.seen();
    EXPECT_GT(nearness.seen(), 0);
  }
}

}  // namespace
}  // namespace plumbline::false_alarms
