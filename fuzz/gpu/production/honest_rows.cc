// SPDX-License-Identifier: Apache-2.0
#include "fuzz/gpu/production/honest_rows.h"

#include <algorithm>
#include <array>
#include <deque>
#include <optional>
#include <thread>

#include "fuzz/gpu/production/audit.h"
#include "fuzz/gpu/production/rows_of.h"
#include "oracle/budget/inputs.h"
#include "oracle/verdict/verdict.h"

namespace plumbline::fuzz {
namespace {

using oracle::Output, oracle::cuda::WatchedRow;

constexpr std::array kOfRows = {Output::kLogprob, Output::kEntropy, Output::kLse, Output::kGradHidden};

// Rows that count, evenly spread.
std::vector<int64_t> ChosenRows(const OwnedProblem& all) {
  std::vector<int64_t> counted;
  for (int64_t i = 0; i < all.rows(); ++i) {
    const int64_t label = all.labels.GetInt(i);
    if (label != all.ignore_index && label >= 0 && label < all.vocab()) counted.push_back(i);
  }
  return Spread(counted, kHonestRows);
}

// Copies rows of an output from the device.
kernel::Tensor Gather(const kernel::Tensor& from, const std::vector<int64_t>& rows,
                      std::deque<HostTensor>* storage) {
  const int64_t columns = from.rank == 2 ? from.shape[1] : 1;
  HostTensor& to = storage->emplace_back(
      HostTensor::Zeros(from.dtype, {static_cast<int64_t>(rows.size()), columns}));
  kernel::ConstTensor matrix = kernel::AsConst(from);
  if (from.rank == 1) {  // a matrix of one column
    matrix.rank = 2;
    matrix.shape[1] = 1;
    matrix.stride[1] = 1;
  }
  const size_t line = to.bytes.size() / rows.size();
  for (size_t k = 0; k < rows.size(); ++k) {
    const HostTensor row = DeviceCase::ReadRows(matrix, rows[k], 1);
    std::ranges::copy(row.bytes, to.bytes.begin() + static_cast<std::ptrdiff_t>(k * line));
  }
  kernel::Tensor tensor = from;
  tensor.data = to.bytes.data();
  tensor.shape[0] = static_cast<int64_t>(rows.size());
  tensor.stride[0] = columns;
  if (from.rank == 2) tensor.stride[1] = 1;
  return tensor;
}

// What the oracle found in one row, as its sweep hands it out.
void Hand(const WatchedRow& watched, int64_t row, HonestErrorTier* tier) {
  std::vector<double> value, bound;
  std::vector<oracle::Expect> expect;
  for (const oracle::Element& e : watched.elements) {
    value.push_back(e.value);
    bound.push_back(e.bound);
    expect.push_back(e.expect);
  }
  oracle::ElementRow of;
  of.output = watched.output;
  of.row = row;
  of.count = static_cast<int64_t>(value.size());
  of.value = value.data();
  of.bound = bound.data();
  of.expect = expect.data();
  tier->Take(of);
}

}  // namespace

std::vector<WatchedRow> HonestRows(const DeviceCase& device_case, const kernel::Results& results) {
  std::vector<WatchedRow> watched;
  if (device_case.problem().weight.size() > kMostAudited) return watched;
  for (const int64_t row : ChosenRows(device_case.rows())) {
    for (const Output output : kOfRows) {
      if (Find(results, output)) watched.push_back({output, row, {}});
    }
  }
  return watched;
}

HonestErrors CompareHonestRows(const DeviceCase& device_case, const kernel::Results& results,
                               const oracle::Contract& contract, const std::vector<WatchedRow>& watched,
                               uint64_t seed) {
  std::vector<int64_t> rows;
  for (const WatchedRow& w : watched) {
    if (rows.empty() || rows.back() != w.row) rows.push_back(w.row);
  }
  if (rows.empty()) return {};
  const OwnedProblem part = RowsOf(device_case, rows);
  const kernel::Problem problem = DenseView(part);
  std::deque<HostTensor> storage;
  kernel::Results gathered;
  for (const Output output : kOfRows) {
    if (const auto& tensor = Find(results, output)) {
      Find(&gathered, output) = Gather(*tensor, rows, &storage);
    }
  }
  HonestErrorOptions options;
  options.threads = static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1U, 64U));
  options.counted_rows = CountedRows(device_case);
  options.seed = seed;
  HonestErrorTier tier(problem, gathered, contract, options);
  for (const WatchedRow& w : watched) {
    const auto at = std::ranges::lower_bound(rows, w.row) - rows.begin();
    if (!w.elements.empty()) Hand(w, at, &tier);
  }
  return tier.Compare();
}

}  // namespace plumbline::fuzz
