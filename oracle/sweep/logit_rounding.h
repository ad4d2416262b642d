// SPDX-License-Identifier: Apache-2.0
//
// Rounds logits as the contract says, once they are formed (oracle/budget/rounded_logits.h). It does
// nothing for a contract that keeps them in fp32.

#pragma once

#include <cstdint>
#include <vector>

#include "oracle/budget/arithmetic.h"
#include "oracle/budget/inputs.h"
#include "oracle/budget/rounded_logits.h"
#include "oracle/sweep/operands.h"

namespace plumbline::oracle {

class LogitRounding {
 public:
  // All three must outlive this object.
  LogitRounding(const Operands& operands, const ArithmeticByTemperature& target, const Inputs& inputs);

  // Replaces what Operands::Logits wrote for the panel at column `first`: z by the rounded logit, S by
  // the bound of its error, infinite where the row is outside of the contract. flushable (may be null)
  // becomes 0.
  void Round(int64_t first, int64_t begin, int64_t end, double* flushable, double* z, double* abs_sum,
             int64_t stride) const;

 private:
  ExactSum Exact(int64_t r, int64_t v) const;

  const Operands& operands_;
  const ArithmeticByTemperature& target_;
  const Inputs& inputs_;
};

}  // namespace plumbline::oracle
