// SPDX-License-Identifier: Apache-2.0
//
// Rows of elements as the sweep hands them out, and what receives them.

#pragma once

#include <cstddef>
#include <cstdint>

#include "oracle/output.h"

namespace plumbline::oracle {

// One row of one output: [count] elements (i, 0..H-1) of grad_hidden or (v, 0..H-1) of grad_weight, and
// one element of the others (row 0 for loss).
struct ElementRow {
  Output output = Output::kLogprob;
  int64_t row = 0;
  int64_t count = 0;
  const double* value = nullptr;   // [count]
  const double* bound = nullptr;   // [count], >= 0; a NaN is a fault of the harness
  const Expect* expect = nullptr;  // [count]
  double radius_ratio = 0;         // the reference's own error is at most this times the bound

  Element at(int64_t column) const {
    const auto c = static_cast<size_t>(column);
    return {expect[c], value[c], radius_ratio * bound[c], bound[c]};
  }
};

// Receives the rows. Every row of every wanted output is handed over exactly once, in any order, and
// from several threads at once if there is more than one.
class ElementSink {
 public:
  virtual ~ElementSink() = default;
  virtual void Take(const ElementRow& row) = 0;
};

}  // namespace plumbline::oracle
