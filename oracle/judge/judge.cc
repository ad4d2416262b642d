// SPDX-License-Identifier: Apache-2.0

#include "oracle/judge/judge.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "oracle/judge/row.h"
#include "oracle/numeric/pack.h"

namespace plumbline::oracle {
namespace {

// Failures come before passes, then the larger tightness, then the first in the tensor. The answer
// therefore does not depend on the order in which threads bring their rows.
bool Worse(const OutputVerdict& a, const OutputVerdict& b) {
  const bool a_fails = a.failure != Failure::kNone, b_fails = b.failure != Failure::kNone;
  if (a_fails != b_fails) return a_fails;
  if (a.tightness != b.tightness) return a.tightness > b.tightness;
  return a.row != b.row ? a.row < b.row : a.column < b.column;
}

class JudgingSink final : public ElementSink {
 public:
  JudgingSink(const kernel::Results& results, Judgement* judgement, std::vector<Watched>* watched)
      : results_(results), judgement_(judgement), watched_(watched) {
    for (Output output : kOutputs) {
      if (!Find(results, output)) continue;
      OutputVerdict v;
      v.output = output;
      at_[static_cast<size_t>(output)] = judgement->outputs.size();
      judgement->outputs.push_back(v);
    }
  }

  void Take(const ElementRow& row) override {
    const kernel::ConstTensor tensor = kernel::AsConst(*Find(results_, row.output));
    thread_local std::vector<double> got;
    got.resize(static_cast<size_t>(row.count));
    const bool matrix = row.output == Output::kGradHidden || row.output == Output::kGradWeight;
    if (matrix) {
      LoadRow(Matrix::Of(tensor), row.row, row.count, 0, got.data(), nullptr);
    } else {
      got[0] = ReadElement(tensor, row.row, 0);
    }
    OutputVerdict mine;
    mine.output = row.output;
    std::string fault;
    const std::optional<TightestPass> passes =
        matrix ? JudgeRowOfPasses(row, got.data()) : std::nullopt;
    if (passes) {
      mine.pass = row.count;
      Note(row, passes->column, got.data(), {Verdict::kPass, Failure::kNone, passes->tightness}, &mine);
    } else {
      fault = JudgeEach(row, got.data(), &mine);
    }
    const std::scoped_lock lock(mutex_);
    Merge(mine);
    if (!fault.empty()) judgement_->fault = fault;
    if (watched_ == nullptr) return;
    for (Watched& w : *watched_) {
      if (w.output != row.output || w.row != row.row) continue;
      w.expected = row.at(w.column);
      w.got = got[static_cast<size_t>(w.column)];
    }
  }

 private:
  static void Note(const ElementRow& row, int64_t column, const double* got,
                   const JudgedElement& judged, OutputVerdict* worst) {
    worst->tightness = judged.tightness;
    worst->row = row.row;
    worst->column = column;
    worst->failure = judged.failure;
    worst->got = got[column];
    worst->expected = row.at(column);
  }

  // Returns a fault of the harness, or nothing.
  static std::string JudgeEach(const ElementRow& row, const double* got, OutputVerdict* mine) {
    std::string fault;
    for (int64_t j = 0; j < row.count; ++j) {
      const Element e = row.at(j);
      if (std::isnan(e.bound) || e.bound < 0 || std::isnan(row.radius_ratio)) {
        fault = std::string(Name(row.output)) + "[" + std::to_string(row.row) + ", " +
                std::to_string(j) + "]: the oracle's bound is not a number";
      }
      const JudgedElement judged = Judge(row.output, e, got[j]);
      switch (judged.verdict) {
        case Verdict::kFail:
          ++mine->fail;
          break;
        case Verdict::kVacuous:
          ++mine->vacuous;
          continue;
        case Verdict::kUnspecified:
          ++mine->unspecified;
          continue;
        default:
          ++mine->pass;
      }
      const bool fails = judged.failure != Failure::kNone, worst = mine->failure != Failure::kNone;
      const bool worse = fails != worst ? fails : judged.tightness > mine->tightness;
      if (mine->row < 0 || worse) Note(row, j, got, judged, mine);
    }
    return fault;
  }

  void Merge(const OutputVerdict& mine) {
    OutputVerdict& all = judgement_->outputs[at_[static_cast<size_t>(mine.output)]];
    const OutputVerdict before = all;
    if (mine.row >= 0 && (before.row < 0 || Worse(mine, before))) all = mine;
    all.pass = before.pass + mine.pass;
    all.fail = before.fail + mine.fail;
    all.vacuous = before.vacuous + mine.vacuous;
    all.unspecified = before.unspecified + mine.unspecified;
    all.tightness = std::max(before.tightness, mine.tightness);
  }

  const kernel::Results& results_;
  Judgement* judgement_;
  std::vector<Watched>* watched_;
  std::array<size_t, kOutputs.size()> at_{};
  std::mutex mutex_;
};

// Judges one row of every set of results.
class ToEach final : public ElementSink {
 public:
  void Add(std::unique_ptr<ElementSink> sink) { sinks_.push_back(std::move(sink)); }
  void Take(const ElementRow& row) override {
    for (const auto& sink : sinks_) sink->Take(row);
  }

 private:
  std::vector<std::unique_ptr<ElementSink>> sinks_;
};

}  // namespace

Judgement JudgeProblem(const kernel::Problem& problem, const kernel::Results& results,
                       const Contract& contract, const SweepOptions& options,
                       std::vector<Watched>* watched) {
  const std::span<std::vector<Watched>> none;
  return JudgeTogether(problem, {&results, 1}, contract, options,
                       watched != nullptr ? std::span(watched, 1) : none)
      .front();
}

std::vector<Judgement> JudgeTogether(const kernel::Problem& problem,
                                     std::span<const kernel::Results> results, const Contract& contract,
                                     const SweepOptions& options,
                                     std::span<std::vector<Watched>> watched) {
  std::vector<Judgement> judgements(results.size());
  ToEach sink;
  for (size_t i = 0; i < results.size(); ++i) {
    sink.Add(std::make_unique<JudgingSink>(results[i], &judgements[i],
                                           watched.empty() ? nullptr : &watched[i]));
  }
  const SweepResult swept = Sweep(problem, results.front(), contract, options, &sink);
  for (Judgement& judgement : judgements) {
    judgement.first_invalid_row = swept.first_invalid_row;
    judgement.interrupted = swept.interrupted;
  }
  return judgements;
}

}  // namespace plumbline::oracle
