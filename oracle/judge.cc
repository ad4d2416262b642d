// SPDX-License-Identifier: Apache-2.0

#include "oracle/judge.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <mutex>
#include <string>

namespace plumbline::oracle {
namespace {

// Failures come before passes, then the larger tightness; then the first in the tensor, so that the
// answer does not depend on the order in which threads bring their rows.
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
    const kernel::ConstTensor got = kernel::AsConst(*Find(results_, row.output));
    OutputVerdict mine;
    mine.output = row.output;
    std::string fault;
    JudgedElement worst{Verdict::kPass, Failure::kNone, -1};
    for (int64_t j = 0; j < row.count; ++j) {
      const Element e = row.at(j);
      if (std::isnan(e.bound) || e.bound < 0 || std::isnan(row.radius_ratio)) {
        fault = std::string(Name(row.output)) + "[" + std::to_string(row.row) + ", " +
                std::to_string(j) + "]: the oracle's bound is not a number";
      }
      const double x = ReadElement(got, row.row, j);
      const JudgedElement judged = Judge(row.output, e, x);
      switch (judged.verdict) {
        case Verdict::kFail:
          ++mine.fail;
          break;
        case Verdict::kVacuous:
          ++mine.vacuous;
          break;
        case Verdict::kUnspecified:
          ++mine.unspecified;
          break;
        default:
          ++mine.pass;
      }
      if (judged.verdict != Verdict::kPass && judged.verdict != Verdict::kFail) continue;
      const bool fails = judged.failure != Failure::kNone,
                 worst_fails = worst.failure != Failure::kNone;
      if (fails != worst_fails ? !fails : !(judged.tightness > worst.tightness)) continue;
      worst = judged;
      mine.tightness = judged.tightness;
      mine.row = row.row;
      mine.column = j;
      mine.failure = judged.failure;
      mine.got = x;
      mine.expected = e;
    }
    const std::scoped_lock lock(mutex_);
    Merge(mine);
    if (!fault.empty()) judgement_->fault = fault;
    if (watched_ == nullptr) return;
    for (Watched& w : *watched_) {
      if (w.output != row.output || w.row != row.row) continue;
      w.expected = row.at(w.column);
      w.got = ReadElement(got, w.row, w.column);
    }
  }

 private:
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

}  // namespace

Judgement JudgeProblem(const kernel::Problem& problem, const kernel::Results& results,
                       const Contract& contract, const SweepOptions& options,
                       std::vector<Watched>* watched) {
  Judgement judgement;
  JudgingSink sink(results, &judgement, watched);
  judgement.first_invalid_row = Sweep(problem, results, contract, options, &sink).first_invalid_row;
  return judgement;
}

}  // namespace plumbline::oracle
