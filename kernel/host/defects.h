// SPDX-License-Identifier: Apache-2.0
//
// The places where an implementation of this operator is known to go wrong, as a compile-time policy.
// Every stage of the host implementation takes a `Defects` policy; the shipped operator is instantiated
// with NoDefects, whose answer is a constant, so none of this reaches its object code.
//
// A policy also names the arithmetic of the matrix products, `Dots` (kernel/host/dot_policy.h), so that
// each defect can be planted on each.

#ifndef PLUMBLINE_KERNEL_HOST_DEFECTS_H_
#define PLUMBLINE_KERNEL_HOST_DEFECTS_H_

#include <cstdint>

#include "kernel/host/dot_policy.h"

namespace plumbline::kernel::host {

enum class Defect : uint8_t {
  kNone,
  kTailUnmasked,           // columns past the vocabulary enter the sum as exp(0 - m)
  kMaxFromZero,            // the running maximum starts at 0 instead of minus infinity
  kPlainLogprob,           // logprob = x_y - lse instead of (x_y - m) - ln s
  kLogitsRounded,          // logits pass through bf16 before the softmax
  kProbabilityRounded,     // p is rounded to bf16 before 1 is subtracted at the label
  kFirstGradForAll,        // every row is scaled by grad_logprob[0]
  kEntropyNotRebased,      // q is not moved when the running maximum moves
  kIgnoredRowLeaks,        // an ignored row is multiplied by zero instead of left out
  kLabelOffByOne,          // a label is looked up one column further on, the last one where it is
  kBackwardTemperature,    // d_logits are not divided by the temperature
  kEntropyGradDropped,     // grad_entropy is accepted and never used
  kGradHiddenAccumulator,  // grad_hidden passes through bf16 after every 256 columns
};

struct NoDefects {
  using Dots = FusedChains;
  static constexpr bool Has(Defect) { return false; }
};

}  // namespace plumbline::kernel::host

#endif  // PLUMBLINE_KERNEL_HOST_DEFECTS_H_
