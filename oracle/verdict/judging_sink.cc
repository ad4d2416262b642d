// SPDX-License-Identifier: Apache-2.0

#include "oracle/verdict/judging_sink.h"

#include <cmath>
#include <optional>

#include "oracle/numeric/pack.h"
#include "oracle/verdict/row.h"

namespace plumbline::oracle {
namespace {

// Judges element by element. Returns a fault of the harness, or nothing.
std::string JudgeEach(const ElementRow& row, const double* got, const Promises& promises,
                      OutputVerdict* mine) {
  std::string fault;
  for (int64_t j = 0; j < row.count; ++j) {
    const Element e = row.at(j);
    if (std::isnan(e.bound) || e.bound < 0 || std::isnan(row.radius_ratio)) {
      fault = std::string(Name(row.output)) + "[" + std::to_string(row.row) + ", " + std::to_string(j) +
              "]: the oracle's bound is not a number";
    }
    Add(Judge(row.output, e, got[j], promises), row.row, j, got[j], e, mine);
  }
  return fault;
}

}  // namespace

JudgingSink::JudgingSink(std::span<const kernel::Results> results,
                         std::span<std::vector<Watched>> watched, const Promises& promises,
                         ElementSink* also)
    : judgements(results.size()),
      results_(results),
      watched_(watched),
      promises_(promises),
      also_(also) {
  for (size_t set = 0; set < results.size(); ++set) {
    for (Output output : kOutputs) {
      if (!Find(results[set], output)) continue;
      at_[static_cast<size_t>(output)] = judgements[set].outputs.size();
      judgements[set].outputs.emplace_back().output = output;
    }
  }
}

void JudgingSink::Take(const ElementRow& row) {
  for (size_t set = 0; set < results_.size(); ++set) JudgeSet(row, set);
  if (also_ != nullptr) also_->Take(row);
}

void JudgingSink::JudgeSet(const ElementRow& row, size_t set) {
  const kernel::ConstTensor tensor = kernel::AsConst(*Find(results_[set], row.output));
  thread_local std::vector<double> got;
  got.resize(static_cast<size_t>(row.count));
  const bool matrix = row.output == Output::kGradHidden || row.output == Output::kGradWeight;
  if (matrix) {
    LoadRow(Matrix::Of(tensor), row.row, row.count, 0, got.data(), nullptr);
  } else {
    got[0] = ReadElement(tensor, row.row, 0);
  }
  OutputVerdict mine;
  std::string fault;
  if (const auto passes = matrix ? JudgeRowOfPasses(row, got.data()) : std::nullopt) {
    const double worst = got[static_cast<size_t>(passes->column)];
    Add({Verdict::kPass, Failure::kNone, passes->tightness}, row.row, passes->column, worst,
        row.at(passes->column), &mine);
    mine.pass = row.count;
  } else {
    fault = JudgeEach(row, got.data(), promises_, &mine);
  }
  const std::scoped_lock lock(mutex_);
  Judgement& judgement = judgements[set];
  Merge(mine, &judgement.outputs[at_[static_cast<size_t>(row.output)]]);
  if (!fault.empty()) judgement.fault = fault;
  if (watched_.empty()) return;
  for (Watched& w : watched_[set]) {
    if (w.output != row.output || w.row != row.row) continue;
    w.expected = row.at(w.column);
    w.got = got[static_cast<size_t>(w.column)];
    w.failed = Judge(w.output, w.expected, w.got, promises_).verdict == Verdict::kFail;
  }
}

}  // namespace plumbline::oracle
