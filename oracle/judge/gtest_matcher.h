// SPDX-License-Identifier: Apache-2.0
//
// GoogleTest assertions over the oracle, for the tests of your own kernel:
//
//   EXPECT_WITHIN_BOUND(problem, results, contract);
//   EXPECT_ELEMENT_WITHIN_BOUND(problem, contract, element, got);
//
// The header is all there is, and no source of plumbline includes it. A project that uses it needs
// GoogleTest and links plumbline::oracle. problem and results are in host memory. contract states the
// arithmetic that the kernel claims to do; Contract{} claims nothing (ERROR-BUDGET.md, "The contract").
//
// A failure names each wrong output, the number of its wrong elements, the worst of them, the value
// that came, the value required, and the error in units of the bound. It is a failure, too, if nothing
// was judged.

#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <sstream>
#include <string>

#include "kernel/problem.h"
#include "oracle/contract.h"
#include "oracle/judge/judge.h"
#include "oracle/output.h"
#include "oracle/sweep/sweep.h"
#include "oracle/verdict/verdict.h"

namespace plumbline::oracle {

// Names an element: (row, column) is (i, 0) for logprob, entropy and lse, (0, 0) for loss, (i, d) for
// grad_hidden, (v, d) for grad_weight.
struct ElementPlace {
  Output output = Output::kLogprob;
  int64_t row = 0, column = 0;
};

namespace gtest_matcher {

inline std::string PlaceText(Output output, int64_t row, int64_t column) {
  std::ostringstream text;
  text << Name(output);
  if (output == Output::kGradHidden || output == Output::kGradWeight) {
    text << "[" << row << ", " << column << "]";
  } else if (output != Output::kLoss) {
    text << "[" << row << "]";
  }
  return text.str();
}

// Says what is required of an element, and by how much `got` misses it.
inline std::string Explain(Output output, const Element& e, double got, const JudgedElement& judged) {
  std::ostringstream text;
  text.precision(9);
  text << "got " << got << ", required is ";
  constexpr const char* kRequired[] = {"",
                                       "exactly +0",
                                       "NaN",
                                       "+infinity",
                                       "-infinity",
                                       "a finite value: the bound says nothing here, so it is vacuous",
                                       "nothing: the value is unspecified",
                                       "NaN, or by convention -infinity",
                                       "zero, or by convention NaN",
                                       "zero, or by convention anything"};  // by Expect
  text << kRequired[static_cast<size_t>(e.expect)];
  if (e.expect == Expect::kFinite) text << e.value << " +- " << e.bound;
  if (judged.failure == Failure::kNone) return text.str();
  text << " (" << Name(judged.failure);
  if (judged.failure == Failure::kSign) {
    text << (output == Output::kLogprob ? ": a log-probability is never positive"
                                        : ": an entropy is never negative");
  } else if (judged.failure == Failure::kBound) {
    text << ": off by " << std::fabs(got - e.value) << ", " << judged.tightness << " times the bound";
  }
  text << ")";
  return text.str();
}

template <class Tensor>
bool ShapeIs(const Tensor& tensor, std::initializer_list<int64_t> shape) {
  return tensor.rank == static_cast<int>(shape.size()) &&
         std::equal(shape.begin(), shape.end(), tensor.shape);
}

// An output of the shape that the problem gives it, without memory.
inline kernel::Tensor Shaped(const kernel::Problem& p, Output output) {
  const int64_t n = p.rows(), h = p.hidden_size(), v = p.vocab();
  const kernel::DType fp32 = kernel::DType::kF32;
  if (output == Output::kLoss) return {nullptr, fp32, 0, {1, 1}, {1, 1}};
  if (output == Output::kGradHidden) return {nullptr, p.hidden.dtype, 2, {n, h}, {h, 1}};
  if (output == Output::kGradWeight) return {nullptr, p.weight.dtype, 2, {v, h}, {h, 1}};
  return {nullptr, fp32, 1, {n, 1}, {1, 1}};
}

// Names the shapes by which the oracle would read past an end; empty if there are none.
inline std::string Misshapen(const kernel::Problem& p, const kernel::Results& r) {
  const int64_t n = p.hidden.shape[0], h = p.hidden.shape[1], v = p.weight.shape[0];
  if (!ShapeIs(p.hidden, {n, h})) return "hidden is not of rank 2";
  if (!ShapeIs(p.weight, {v, h})) return "weight is not [V, H] with the H of hidden";
  if (!ShapeIs(p.labels, {n})) return "labels is not [N] with the N of hidden";
  const auto short_of_rows = [&](const auto& t) { return t && t->rank != 0 && !ShapeIs(*t, {n}); };
  if (short_of_rows(p.temperature)) return "temperature is neither [] nor [N] with the N of hidden";
  if (short_of_rows(p.grad_logprob)) return "grad_logprob is neither [] nor [N] with the N of hidden";
  if (p.grad_entropy && !ShapeIs(*p.grad_entropy, {n})) {
    return "grad_entropy is not [N] with the N of hidden";
  }
  for (const Output o : kOutputs) {
    const auto& tensor = Find(r, o);
    if (!tensor) continue;
    const kernel::Tensor shaped = Shaped(p, o);
    const bool right = tensor->rank == shaped.rank &&
                       std::equal(shaped.shape, shaped.shape + shaped.rank, tensor->shape);
    if (!right)
      return "results: " + std::string(Name(o)) + " has not the shape that the problem gives it";
  }
  return {};
}

// Keeps one element. No lock is needed: only one thread ever brings its row.
class OneElement final : public ElementSink {
 public:
  explicit OneElement(const ElementPlace& place) : place_(place) {}
  void Take(const ElementRow& row) override {
    if (row.output != place_.output || row.row != place_.row) return;
    if (place_.column >= 0 && place_.column < row.count) element = row.at(place_.column);
  }
  std::optional<Element> element;

 private:
  ElementPlace place_;
};

}  // namespace gtest_matcher

// Judges all elements of every output present in `results`.
inline ::testing::AssertionResult WithinBound(const char* problem_text, const char* results_text,
                                              const char*, const kernel::Problem& problem,
                                              const kernel::Results& results,
                                              const Contract& contract) {
  const std::string subject = std::string(results_text) + " of " + problem_text;
  Judgement judgement;
  judgement.fault = gtest_matcher::Misshapen(problem, results);
  if (judgement.fault.empty()) judgement = JudgeProblem(problem, results, contract);
  if (!judgement.fault.empty()) {
    return ::testing::AssertionFailure() << subject << " cannot be judged: " << judgement.fault;
  }
  int64_t judged = 0, vacuous = 0, unspecified = 0, wrong = 0;
  std::ostringstream text;
  for (const OutputVerdict& v : judgement.outputs) {
    judged += v.pass + v.fail;
    vacuous += v.vacuous;
    unspecified += v.unspecified;
    wrong += v.fail;
    if (v.fail == 0) continue;
    text << "\n  " << Name(v.output) << ": " << v.fail << " of " << v.pass + v.fail
         << " judged elements are wrong (" << v.vacuous << " more are vacuous, " << v.unspecified
         << " unspecified)\n    at worst " << gtest_matcher::PlaceText(v.output, v.row, v.column)
         << ": "
         << gtest_matcher::Explain(v.output, v.expected, v.got,
                                   {Verdict::kFail, v.failure, v.tightness});
  }
  if (wrong > 0) {
    return ::testing::AssertionFailure()
           << subject << " is outside its bound in " << wrong << " elements" << text.str();
  }
  if (judged == 0) {
    return ::testing::AssertionFailure()
           << "nothing of " << subject << " was judged: " << judgement.outputs.size()
           << " outputs are present, " << vacuous << " elements are vacuous, " << unspecified
           << " unspecified";
  }
  return ::testing::AssertionSuccess();
}

// Judges one element whose computed value is `got`. It costs as much as judging the whole output.
inline ::testing::AssertionResult ElementWithinBound(const char* problem_text, const char*, const char*,
                                                     const char* got_text,
                                                     const kernel::Problem& problem,
                                                     const Contract& contract,
                                                     const ElementPlace& place, double got) {
  kernel::Results wanted;  // without memory, because the sweep reads none
  Find(&wanted, place.output) = gtest_matcher::Shaped(problem, place.output);
  const std::string subject = gtest_matcher::PlaceText(place.output, place.row, place.column) + " of " +
                              problem_text + ", given as " + got_text + ",";
  if (std::string why = gtest_matcher::Misshapen(problem, wanted); !why.empty()) {
    return ::testing::AssertionFailure() << subject << " cannot be judged: " << why;
  }
  gtest_matcher::OneElement sink(place);
  Sweep(problem, wanted, contract, {}, &sink);
  if (!sink.element) return ::testing::AssertionFailure() << subject << " does not exist";
  JudgedElement judged = Judge(place.output, *sink.element, got, contract.promises);
  if (judged.verdict == Verdict::kFail && !contract.promises.definition) {
    // The other side of the convention of a label at -infinity.
    gtest_matcher::OneElement other(place);
    SweepOptions options;
    options.drops_infinite_label = true;
    Sweep(problem, wanted, contract, options, &other);
    const JudgedElement dropped = Judge(place.output, *other.element, got, contract.promises);
    if (dropped.verdict == Verdict::kPass) judged = dropped;
  }
  const std::string why = gtest_matcher::Explain(place.output, *sink.element, got, judged);
  if (judged.verdict == Verdict::kPass) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << subject << (judged.verdict == Verdict::kFail ? " is wrong: " : " was not judged: ") << why;
}

}  // namespace plumbline::oracle

#define EXPECT_WITHIN_BOUND(problem, results, contract) \
  EXPECT_PRED_FORMAT3(::plumbline::oracle::WithinBound, problem, results, contract)
#define ASSERT_WITHIN_BOUND(problem, results, contract) \
  ASSERT_PRED_FORMAT3(::plumbline::oracle::WithinBound, problem, results, contract)
#define EXPECT_ELEMENT_WITHIN_BOUND(problem, contract, place, got) \
  EXPECT_PRED_FORMAT4(::plumbline::oracle::ElementWithinBound, problem, contract, place, got)
#define ASSERT_ELEMENT_WITHIN_BOUND(problem, contract, place, got) \
  ASSERT_PRED_FORMAT4(::plumbline::oracle::ElementWithinBound, problem, contract, place, got)
