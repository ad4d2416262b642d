// SPDX-License-Identifier: Apache-2.0

#include "fuzz/check/keep_case.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "fuzz/cases/name.h"
#include "fuzz/check/excerpt.h"
#include "fuzz/problem/values.h"
#include "fuzz/triage/pursuit.h"
#include "oracle/output.h"
#include "oracle/verdict/verdict.h"

namespace plumbline::fuzz {
namespace {

// The elements of weight that a case starts with: shrinking tries a thousand candidates of such a size.
constexpr int64_t kMaxWeight = int64_t{1} << 22;
constexpr int64_t kMostRows = 16;

// Returns the columns of the vocabulary to keep, ascending: those of the labels, and as many others as
// fit, evenly spread. Their number has V's remainder by 64, since kernels fail in tails of tiles.
std::vector<int64_t> Columns(const DumpExcerpt& excerpt) {
  const int64_t v = excerpt.weight.shape[0];
  const int64_t most = std::max<int64_t>(1, kMaxWeight / std::max<int64_t>(1, excerpt.weight.shape[1]));
  const int64_t step = (v + most - 1) / most;
  std::set<int64_t> labels, columns;
  for (int64_t i = 0; i < excerpt.labels.size(); ++i) {
    const int64_t label = excerpt.labels.GetInt(i);
    if (label >= 0 && label < v) labels.insert(label);
  }
  // ignore_index keeps its own column, so that no label's new number is that of ignored rows.
  if (excerpt.ignore_index >= 0 && excerpt.ignore_index < v) labels.insert(excerpt.ignore_index);
  for (int64_t c = 0; c < v; c += std::max<int64_t>(step, 1)) columns.insert(c);
  columns.insert(labels.begin(), labels.end());
  for (auto c = columns.rbegin();
       c != columns.rend() && columns.size() % 64 != static_cast<size_t>(v % 64);) {
    if (labels.contains(*c)) {
      ++c;
    } else {
      c = std::make_reverse_iterator(columns.erase(std::next(c).base()));
    }
  }
  return {columns.begin(), columns.end()};
}

OwnedProblem Own(const DumpExcerpt& e, const kernel::Results& wanted) {
  const std::vector<int64_t> columns = Columns(e);
  OwnedProblem p;
  p.hidden = e.hidden;
  p.weight = GatherRows(e.weight, columns);
  const auto renumbered = [&columns](int64_t label) -> int64_t {
    const auto at = std::lower_bound(columns.begin(), columns.end(), label);
    return at == columns.end() || *at != label ? label : at - columns.begin();
  };
  p.labels = e.labels;
  for (int64_t i = 0; i < p.labels.size(); ++i) p.labels.SetInt(i, renumbered(e.labels.GetInt(i)));
  p.temperature = e.temperature;
  p.grad_logprob = e.grad_logprob;
  p.grad_entropy = e.grad_entropy;
  p.ignore_index = renumbered(e.ignore_index);
  const std::optional<kernel::Tensor>& gradient =
      wanted.grad_hidden ? wanted.grad_hidden : wanted.grad_weight;
  p.wanted = {wanted.entropy.has_value(), wanted.lse.has_value(), gradient.has_value(),
              gradient.has_value(), gradient && gradient->dtype == kernel::DType::kF32};
  return p;
}

// The rows that err most beside honest kernels, filled up with the first ones: the second tier judges
// no fewer than HonestUnits::kLeastUnits.
std::vector<int64_t> WorstByMagnitude(const HonestErrors& honest, int64_t rows) {
  std::set<int64_t> some;
  const auto add = [&](int64_t row) {
    if (static_cast<int64_t>(some.size()) < kMostRows) some.insert(row);
  };
  for (const OutputErrors& o : honest.outputs) {
    if (!o.units.Suspect() || o.output == oracle::Output::kGradWeight) continue;
    for (const WorstUnit& unit : o.worst) add(unit.row);
  }
  for (int64_t row = 0; row < rows; ++row) add(row);
  return {some.begin(), some.end()};
}

// Returns sets of rows to try, the smallest first, as positions in the sample.
std::vector<std::vector<int64_t>> RowSets(const DumpSample& sample, const DumpVerdict& verdict) {
  std::vector<std::vector<int64_t>> sets;
  const int64_t n = sample.problem().rows();
  int64_t worst = 0;
  for (const JudgedOutput& o : verdict.outputs) {
    const bool row = o.verdict.output != oracle::Output::kGradWeight;
    if (row && o.verdict.fail > 0 && o.verdict.row >= 0) {
      worst = o.verdict.row;
      sets.push_back({worst});
    }
  }
  std::vector<int64_t> some = Iota(std::min(n, kMostRows));
  if (n > kMostRows && worst >= kMostRows) some.back() = worst;
  if (sets.empty()) some = WorstByMagnitude(verdict.honest, n);
  sets.push_back(std::move(some));
  return sets;
}

}  // namespace

DumpCase KeepDumpCase(const DumpSample& sample, const DumpVerdict& verdict, uint64_t seed,
                      const std::filesystem::path& folder, CaseRunner* runner) {
  DumpCase kept;
  kept.what = "what failed in the dump passes in the part of it that a case may hold";
  for (const std::vector<int64_t>& at : RowSets(sample, verdict)) {
    const DumpExcerpt excerpt(sample, {}, at, sample.dump().counted);
    FailingProblem start;
    start.problem = Own(excerpt, sample.Wanted());
    start.seed = seed;
    start.drawn_by = "found in a dump of a real run";
    const bool by_magnitude = verdict.wrong + verdict.suspect == 0;
    const Judged judged = runner->RunAndConfirm(RequestFor(start.problem, seed, by_magnitude));
    if (judged.kind != Judged::Kind::kJudged) {
      kept.what = judged.kind == Judged::Kind::kUnavailable ? judged.error : "interrupted";
      return kept;
    }
    if (judged.result.findings.empty()) continue;
    start.finding = judged.result.findings.front();
    const Pursued pursued = Pursue(start, runner, {});
    std::error_code code;
    std::filesystem::create_directories(folder, code);
    const std::filesystem::path file = folder / CaseFileName(pursued.stored);
    if (pursued.kind != Judged::Kind::kJudged) {
      kept.what = pursued.kind == Judged::Kind::kUnavailable ? pursued.error : "interrupted";
    } else if (WriteCase(file, pursued.stored, &kept.what)) {
      kept.file = file;
      kept.values_before = pursued.kept.values_before;
      kept.values_after = pursued.kept.values_after;
      kept.what = pursued.kept.finding.what;
    }
    return kept;
  }
  return kept;
}

}  // namespace plumbline::fuzz
