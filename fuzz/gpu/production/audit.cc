// SPDX-License-Identifier: Apache-2.0

#include "fuzz/gpu/production/audit.h"

#include <algorithm>
#include <cmath>
#include <thread>

#include "fuzz/base/json.h"
#include "fuzz/base/mix.h"
#include "fuzz/gpu/production/rows_of.h"
#include "oracle/judge/judge.h"
#include "oracle/verdict/verdict.h"

namespace plumbline::fuzz {
namespace {

using oracle::Element, oracle::Expect, oracle::Output;
using oracle::cuda::WatchedRow;

bool Agree(const Element& a, const Element& b) {
  if (a.expect != b.expect) return false;
  const bool bounds = a.bound == b.bound || std::fabs(a.bound - b.bound) <= 0x1p-19 * a.bound;
  if (a.expect != Expect::kFinite && a.expect != Expect::kVacuous) return bounds;
  return bounds && std::fabs(a.value - b.value) <= a.radius + b.radius;
}

std::string Words(const Element& e) {
  return Json(e.value).Dump() + " within " + Json(e.bound).Dump() + " (kind " +
         std::to_string(static_cast<int>(e.expect)) + ")";
}

oracle::Expectation Sweep(const DeviceCase& device_case, const kernel::Results& results,
                          const oracle::Contract& contract, const std::vector<int64_t>& rows) {
  const OwnedProblem part = RowsOf(device_case, rows);
  kernel::Results wanted = results;
  wanted.loss.reset();
  wanted.grad_weight.reset();
  oracle::SweepOptions options;
  options.threads = static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1U, 64U));
  options.counted_rows = CountedRows(device_case);
  return oracle::Expected(DenseView(part), wanted, contract, options);
}

// Returns an empty text if they agree.
std::string Differ(Output output, int64_t row, int64_t column, const Element& device,
                   const Element& host) {
  if (Agree(host, device)) return {};
  return "the oracle on the device and the sweep disagree about " + std::string(Name(output)) + "[" +
         std::to_string(row) + ", " + std::to_string(column) + "]: " + Words(device) + " there, " +
         Words(host) + " here";
}

}  // namespace

std::vector<WatchedRow> AuditedRows(const DeviceCase& device_case, const kernel::Results& results,
                                    uint64_t seed) {
  std::vector<WatchedRow> watched;
  const int64_t n = device_case.problem().rows();
  const bool drawn = Mix(seed, 55) % 10 == 0;
  if (!drawn || n == 0 || device_case.problem().weight.size() > kMostAudited) return watched;
  const auto other = static_cast<int64_t>(Mix(seed, 56) % static_cast<uint64_t>(n));
  for (const int64_t row : {int64_t{0}, other}) {
    for (const Output output :
         {Output::kLogprob, Output::kEntropy, Output::kLse, Output::kGradHidden}) {
      if (Find(results, output)) watched.push_back({output, row, {}});
    }
  }
  return watched;
}

std::string Audit(const DeviceCase& device_case, const kernel::Results& results,
                  const oracle::Contract& contract, const std::vector<WatchedRow>& watched) {
  std::vector<int64_t> rows;
  for (const WatchedRow& w : watched) {
    if (std::find(rows.begin(), rows.end(), w.row) == rows.end()) rows.push_back(w.row);
  }
  const oracle::Expectation expected = Sweep(device_case, results, contract, rows);
  for (const WatchedRow& w : watched) {
    const int64_t at = std::find(rows.begin(), rows.end(), w.row) - rows.begin();
    for (size_t j = 0; j < w.elements.size(); ++j) {
      const auto column = static_cast<int64_t>(j);
      std::string what =
          Differ(w.output, w.row, column, w.elements[j], expected[w.output].at(at, column));
      if (!what.empty()) return what;
    }
  }
  return {};
}

std::string Confirm(const DeviceCase& device_case, const kernel::Results& results,
                    const oracle::Contract& contract, const oracle::OutputVerdict& v) {
  const bool of_all_rows = v.output == Output::kLoss || v.output == Output::kGradWeight;
  if (of_all_rows || v.row < 0 || device_case.problem().weight.size() > kMostAudited) return {};
  const oracle::Expectation expected = Sweep(device_case, results, contract, {v.row});
  return Differ(v.output, v.row, v.column, v.expected, expected[v.output].at(0, v.column));
}

}  // namespace plumbline::fuzz
