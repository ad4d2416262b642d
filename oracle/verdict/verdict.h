// SPDX-License-Identifier: Apache-2.0
//
// Verdicts: results compared, element by element, with what they must be. Every comparison is written
// so that a NaN fails unless a NaN was required.
//
// The tightness of an element is max(0, |got - value| - radius) / bound; above 1 the element fails.
// Where the bound is 0 any difference beyond the radius has tightness infinity.

#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "kernel/problem.h"
#include "oracle/budget/inputs.h"  // ReadElement, ReadInt
#include "oracle/output.h"
#include "oracle/verdict/expectation.h"

namespace plumbline::oracle {

// "pass", "fail", "vacuous", "unspecified", "skipped".
std::string_view Name(Verdict verdict);

std::string_view Name(Failure failure);  // "bound", "non-finite", "sign", "not-zero"

// Judges one element. got is the target's value widened to double, which is exact for every output
// dtype.
JudgedElement Judge(Output output, const Element& expected, double got,
                    const Promises& promises = kToTheLetter);

struct OutputVerdict {
  Output output = Output::kLogprob;
  int64_t pass = 0, fail = 0, vacuous = 0, unspecified = 0;  // elements
  double tightness = 0;                                      // the largest among judged elements
  int64_t row = -1, column = -1;     // the worst element: a failure before the tightest pass; -1: none
  Failure failure = Failure::kNone;  // the worst element's
  double got = 0;                    // and its value, widened to double
  Element expected;
  ConventionsSeen conventions;  // of elements that pass
};

// Says whether an element is worse than the worst of `b`: failures come before passes, then the larger
// tightness, then the first in the tensor. The answer does not depend on the order in which threads
// bring them. Where `b` names no element, any is.
constexpr bool Worse(Failure failure, double tightness, int64_t row, int64_t column,
                     const OutputVerdict& b) {
  const bool a_fails = failure != Failure::kNone, b_fails = b.failure != Failure::kNone;
  if (b.row < 0) return true;
  if (a_fails != b_fails) return a_fails;
  if (tightness != b.tightness) return tightness > b.tightness;
  return row != b.row ? row < b.row : column < b.column;
}

// Counts a judged element, and keeps it if it is the worst. Also for a device's threads, as Merge.
constexpr void Add(const JudgedElement& judged, int64_t row, int64_t column, double got,
                   const Element& expected, OutputVerdict* all) {
  all->conventions.Add(judged.conventions);
  switch (judged.verdict) {
    case Verdict::kFail:
      ++all->fail;
      break;
    case Verdict::kVacuous:
      ++all->vacuous;
      return;
    case Verdict::kUnspecified:
      ++all->unspecified;
      return;
    default:
      ++all->pass;
  }
  if (!Worse(judged.failure, judged.tightness, row, column, *all)) return;
  all->tightness = judged.tightness;
  all->row = row;
  all->column = column;
  all->failure = judged.failure;
  all->got = got;
  all->expected = expected;
}

// Adds the verdict of other elements of the same output.
constexpr void Merge(const OutputVerdict& part, OutputVerdict* all) {
  const bool worse = part.row >= 0 && Worse(part.failure, part.tightness, part.row, part.column, *all);
  const OutputVerdict before = *all;
  if (worse) *all = part;
  all->output = before.output;
  all->conventions = before.conventions;
  all->conventions.Add(part.conventions);
  all->tightness = before.tightness < part.tightness ? part.tightness : before.tightness;
  all->pass = before.pass + part.pass;
  all->fail = before.fail + part.fail;
  all->vacuous = before.vacuous + part.vacuous;
  all->unspecified = before.unspecified + part.unspecified;
}

// Judges every output present in results, which must be in host memory and have the shapes that
// Expected was asked for.
std::vector<OutputVerdict> JudgeAll(const kernel::Results& results, const Expectation& expectation,
                                    const Promises& promises = kToTheLetter);

// The tensor that holds an output; empty where it is absent.
const std::optional<kernel::Tensor>& Find(const kernel::Results& results, Output output);
std::optional<kernel::Tensor>& Find(kernel::Results* results, Output output);

}  // namespace plumbline::oracle
