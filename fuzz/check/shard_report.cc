// SPDX-License-Identifier: Apache-2.0

#include "fuzz/check/shard_report.h"

#include <algorithm>
#include <cinttypes>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/base/text.h"
#include "fuzz/check/shards.h"
#include "oracle/judge/judge.h"
#include "oracle/verdict/verdict.h"

namespace plumbline::fuzz {
namespace {

using oracle::Output;

// The shards that are named one by one.
constexpr size_t kMostNamed = 8;

using Counts = std::map<Output, std::vector<int64_t>>;  // wrong elements of each shard

// Counts the elements that fail, by the shard that they lie in.
class ShardCounter final : public oracle::ElementSink {
 public:
  ShardCounter(const DumpSample& sample, const Shards& shards, const kernel::Results& results,
               const oracle::Promises& promises)
      : sample_(sample), shards_(shards), results_(results), promises_(promises) {}

  void Take(const oracle::ElementRow& row) override {
    const int64_t dump_row =
        row.output == Output::kGradWeight ? row.row : sample_.rows()[static_cast<size_t>(row.row)];
    const kernel::ConstTensor got = kernel::AsConst(*oracle::Find(results_, row.output));
    int64_t wrong = 0;
    for (int64_t j = 0; j < row.count; ++j) {
      const double value = oracle::ReadElement(got, row.row, j);
      wrong += oracle::Judge(row.output, row.at(j), value, promises_).verdict == oracle::Verdict::kFail;
    }
    if (wrong == 0) return;
    const std::scoped_lock lock(mutex_);
    std::vector<int64_t>& of = counts[row.output];
    of.resize(shards_.ranks.size());
    of[shards_.ShardOf(dump_row)] += wrong;
  }
  Counts counts;

 private:
  const DumpSample& sample_;
  const Shards& shards_;
  const kernel::Results& results_;
  const oracle::Promises promises_;
  std::mutex mutex_;
};

// logprob beside a reduction is another problem's (JudgeDump); its rows are not counted.
Counts CountByShard(const DumpSample& sample, const Shards& shards, const kernel::Results& results,
                    const Description& description, const oracle::SweepOptions& options,
                    const DumpVerdict& verdict) {
  kernel::Results failing;
  bool any = false;
  for (const JudgedOutput& o : verdict.outputs) {
    const Output output = o.verdict.output;
    const bool other =
        output == Output::kLogprob && sample.problem().reduction != kernel::Reduction::kNone;
    if (o.verdict.fail == 0 || other || !shards.Divides(output)) continue;
    oracle::Find(&failing, output) = oracle::Find(results, output);
    any = true;
  }
  if (!any) return {};
  const oracle::Contract contract = verdict.wrong > 0 ? description.contract : description.Assumed();
  ShardCounter counter(sample, shards, failing, contract.promises);
  oracle::Sweep(sample.problem(), failing, contract, options, &counter);
  return std::move(counter.counts);
}

std::string ShardText(const Shards& shards, size_t at) {
  return Text("rank %" PRId64 "'s shard [%" PRId64 ", %" PRId64 ")", shards.ranks[at],
              shards.bounds[at], shards.bounds[at + 1]);
}

// "wrong elements of grad_weight all lie in rank 3's shard [96, 128)".
std::string CountsText(const Shards& shards, Output output, const std::vector<int64_t>& counts) {
  std::string text = "wrong elements of " + std::string(oracle::Name(output));
  std::vector<size_t> with;
  for (size_t at = 0; at < counts.size(); ++at) {
    if (counts[at] > 0) with.push_back(at);
  }
  if (with.size() == 1) return text + " all lie in " + ShardText(shards, with.front());
  text += Text(" lie in %zu of %zu shards", with.size(), counts.size());
  for (size_t i = 0; i < std::min(with.size(), kMostNamed); ++i) {
    text +=
        (i == 0 ? ": " : ", ") + Text("%" PRId64 " in ", counts[with[i]]) + ShardText(shards, with[i]);
  }
  return text + (with.size() > kMostNamed ? ", ..." : "");
}

// Under a split vocabulary a row's label is in one rank's shard. Returns the one shard that the labels
// of all wrong rows lie in, if a row with its label in another is right.
std::optional<size_t> ShardOfWrongLabels(const DumpSample& sample, const Shards& shards,
                                         const DumpVerdict& verdict) {
  const kernel::Problem& p = sample.problem();
  std::set<size_t> wrong, right;
  for (int64_t i = 0; i < p.rows(); ++i) {
    const int64_t label = oracle::ReadInt(p.labels, i);
    if (label == p.ignore_index || label < 0 || label >= p.vocab()) continue;
    const int64_t row = sample.rows()[static_cast<size_t>(i)];
    const bool is_wrong = std::ranges::binary_search(verdict.wrong_rows, row);
    (is_wrong ? wrong : right).insert(shards.ShardOf(label));
  }
  if (wrong.size() != 1 || right.empty() || right == wrong) return std::nullopt;
  return *wrong.begin();
}

std::string RanksText(const std::vector<int64_t>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < std::min(ranks.size(), kMostNamed); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(ranks[i]);
  }
  return text + (ranks.size() > kMostNamed ? Text(", ... (%zu in all)", ranks.size()) : "");
}

std::string SplitText(const Shards& shards) {
  const bool rows = shards.split == Shards::Split::kRows;
  std::string text = Text("shards: %zu ranks split the ", shards.ranks.size()) +
                     (rows ? "rows of hidden" : "vocabulary");
  for (size_t at = 0; at < std::min(shards.ranks.size(), kMostNamed); ++at) {
    text += (at == 0 ? ": " : ", ") + Text("rank %" PRId64 " has [%" PRId64 ", %" PRId64 ")",
                                           shards.ranks[at], shards.bounds[at], shards.bounds[at + 1]);
  }
  return text + (shards.ranks.size() > kMostNamed ? ", ..." : "");
}

void ReportUnequal(const Shards& shards, DumpReport* report, Json* json) {
  for (const Shards::Unequal& u : shards.unequal) {
    const std::string name(oracle::Name(u.output));
    report->findings.push_back(
        {name + " is not the same on all ranks: " + RanksText(u.ranks),
         "wrong: " + RanksText(u.ranks) + (u.ranks.size() == 1 ? " has" : " have") + " another " +
             name + " than the other ranks, which must all have the same: " +
             Text("elements that differ: %" PRId64 ", by %.3g at most, the first in row %" PRId64,
                  u.elements, u.largest, u.row)});
    Json each;
    each["output"] = name;
    each["ranks"] = Json::Array(u.ranks.begin(), u.ranks.end());
    each["elements"] = u.elements;
    each["row"] = u.row;
    each["largest"] = u.largest;
    (*json)["unequal"].Append(std::move(each));
  }
}

// The worst element of an output that fails, as its rank counts.
void ReportWorst(const Shards& shards, const JudgedOutput& o, DumpReport* report, Json* json) {
  const size_t at = shards.ShardOf(o.dump_row);
  const int64_t local = o.dump_row - shards.bounds[at];
  report->shards.push_back(Place(oracle::Name(o.verdict.output), o.dump_row, o.verdict.column) +
                           Text(" is row %" PRId64 " of ", local) + ShardText(shards, at));
  Json& worst = (*json)["worst"][oracle::Name(o.verdict.output)];
  worst["rank"] = shards.ranks[at];
  worst["row"] = local;
}

}  // namespace

void ReportShards(const DumpSample& sample, const kernel::Results& results,
                  const Description& description, const JudgeDumpOptions& options, bool ran,
                  DumpReport* report) {
  if (!sample.dump().shards) return;
  const Shards& shards = *sample.dump().shards;
  Json& json = report->more_json["shards"];
  json["split"] = shards.split == Shards::Split::kRows ? "rows" : "vocabulary";
  json["bounds"] = Json::Array(shards.bounds.begin(), shards.bounds.end());
  json["ranks"] = Json::Array(shards.ranks.begin(), shards.ranks.end());
  report->notes.push_back(SplitText(shards));
  for (const std::string& line : shards.left_out) report->not_looked_at.push_back(line);
  if (ran) return;
  ReportUnequal(shards, report, &json);
  const DumpVerdict& verdict = report->verdict;
  const Counts counts = CountByShard(sample, shards, results, description, options, verdict);
  for (const JudgedOutput& o : verdict.outputs) {
    const Output output = o.verdict.output;
    if (o.verdict.fail == 0 || o.verdict.row < 0 || !shards.Divides(output)) continue;
    ReportWorst(shards, o, report, &json);
    const auto of = counts.find(output);
    // Only a count of all that failed may say that all of them lie somewhere.
    if (of == counts.end() ||
        std::accumulate(of->second.begin(), of->second.end(), int64_t{0}) != o.verdict.fail) {
      continue;
    }
    report->shards.push_back(CountsText(shards, output, of->second));
    json["wrong"][oracle::Name(output)] = Json::Array(of->second.begin(), of->second.end());
  }
  if (shards.split != Shards::Split::kVocabulary) return;
  if (const auto at = ShardOfWrongLabels(sample, shards, verdict)) {
    report->shards.push_back("rows whose logprob, entropy or lse is wrong all have their label in " +
                             ShardText(shards, *at));
    json["wrong_labels"] = shards.ranks[*at];
  }
}

}  // namespace plumbline::fuzz
