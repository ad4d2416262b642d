// SPDX-License-Identifier: Apache-2.0
//
// The arbiter: any single output element at 256 bits, straight from the definitions in
// kernel/OPERATION.md, sharing no formula, helper or loop with the fp64 reference. Slow on purpose:
// it exists so that a verdict rests on two independent derivations. Nothing is called a finding, and
// nothing is stored, before it has spoken.
//
// Its own error is below 2^-200 relative to the largest term that enters a sum, so its value is exact
// for every comparison with fp32 results and fp64 radii.

#ifndef PLUMBLINE_ORACLE_ARBITER_H_
#define PLUMBLINE_ORACLE_ARBITER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "kernel/problem.h"
#include "oracle/output.h"

namespace plumbline::oracle {

struct ArbiterValue {
  enum class Class : uint8_t { kFinite, kNaN, kPlusInf, kMinusInf };
  Class kind = Class::kFinite;
  double high = 0;  // value = high + low to about 2^-106 relative
  double low = 0;
  std::string digits;  // 40 significant decimal digits, or "nan", "inf", "-inf"
};

class Arbiter {
 public:
  // Keeps a view of the problem and caches per-row logits between calls. Not thread-safe.
  explicit Arbiter(const kernel::Problem& problem);
  ~Arbiter();
  Arbiter(const Arbiter&) = delete;
  Arbiter& operator=(const Arbiter&) = delete;

  // One element. (row, column) is (i, unused) for logprob, entropy and lse; unused for loss;
  // (i, d) for grad_hidden; (v, d) for grad_weight. A row whose label is invalid gives NaN.
  // An ignored row gives 0, as does a gradient row with g = k = 0.
  ArbiterValue Evaluate(Output output, int64_t row, int64_t column);

  // Multiply-adds and exponentials (weighed as 600 multiply-adds) that Evaluate would still spend,
  // for callers with a budget: about 5e6 are done in a second.
  double Cost(Output output, int64_t row, int64_t column) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace plumbline::oracle

#endif  // PLUMBLINE_ORACLE_ARBITER_H_
