// SPDX-License-Identifier: Apache-2.0
//
// The arbiter computes any single output element to at least 40 digits, straight from the definitions
// in kernel/OPERATION.md. It shares no formula, helper or loop with the fp64 reference, not even the
// decoding of the inputs, and it includes kernel/problem.h and oracle/output.h alone. It is slow on
// purpose: it exists so that a verdict rests on two independent derivations. Nothing is called a
// finding, and nothing is stored, before the arbiter has been asked.
//
// Invariant: the weights e^(x - max x) are right to 2^-240 relative. What is computed from them is
// right to 2^-1100 absolute in logprob, entropy, lse and loss, and in d objective / d logit per unit of
// (|g| + |k|) / T, for |x| <= 2^126 and fewer than 2^32 columns. A bound relative to the largest term
// of a sum would not do, however many digits it had: 1 - p_y of a confident row cancels down to 2^-1075
// before fp64 takes it for zero, and the reference gets it right.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
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

// The dtypes that numbers are rounded to, to nearest even, before anything is made of them: logits z,
// then z/T, and the upstream gradients. Absent: they are exact. What rounds to infinity is infinite.
struct RoundedSteps {
  std::optional<kernel::DType> logits, scaled_logits;
  std::optional<kernel::DType> upstream_logprob, upstream_entropy;
};

class Arbiter {
 public:
  // Keeps a view of the problem, which must be in host memory, outlive the arbiter and have passed the
  // operator's argument checks. Reads all labels. Caches each row that it was asked about: about 200
  // bytes a logit. Not thread-safe.
  explicit Arbiter(const kernel::Problem& problem, const RoundedSteps& steps = {});
  ~Arbiter();
  Arbiter(const Arbiter&) = delete;
  Arbiter& operator=(const Arbiter&) = delete;

  // Evaluates one element. (row, column) is (i, unused) for logprob, entropy and lse; unused for loss;
  // (i, d) for grad_hidden; (v, d) for grad_weight; 0 <= i < N, 0 <= v < V, 0 <= d < H. A row whose
  // label is invalid gives NaN. An ignored row gives 0, as does a gradient row with g = k = 0. A g or k
  // that is not finite gives NaN. Where values are unspecified the formulas are evaluated all the same:
  // finite inputs of any size are computed. -0 is not told from +0.
  ArbiterValue Evaluate(Output output, int64_t row, int64_t column);

  // Returns what Evaluate would still spend on the element itself and on rows that it has not seen. The
  // unit is one of which about 5e6 are done in a second: 1.5 for each product in a logit, 200 a logit,
  // 2000 a row.
  double Cost(Output output, int64_t row, int64_t column) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace plumbline::oracle
