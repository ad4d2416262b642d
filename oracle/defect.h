// SPDX-License-Identifier: Apache-2.0
//
// Defects that can be planted in the oracle when it is compiled, so that its tests can be tested: each
// is compiled into a program of its own by tests/CMakeLists.txt, which must fail. A build that defines
// nothing plants nothing, and the compiler leaves no trace of what is here.

#ifndef PLUMBLINE_ORACLE_DEFECT_H_
#define PLUMBLINE_ORACLE_DEFECT_H_

#include <cstdint>

namespace plumbline::oracle {

enum class OracleDefect : uint8_t {
  kNone,
  // Bounds that forget something.
  kNoPropagation,       // what the logits' errors do
  kNoLogError,          // B_l: the errors of s and of its logarithm
  kNoSummation,         // the additions in s
  kNoDLogitsRounding,   // to the dtype that they are stored in
  kNoOutputRounding,    // of 16-bit gradients
  kNoLossSum,           // the additions of the loss
  kNoLabelLogit,        // the rounding of a label logit that is a dot product of its own
  kNoFlushedOperands,   // the products that they take with them
  kNoLateUnderflow,     // of k p, before it meets ln p + H
  kCertificateTooWide,  // granted up to 2^(q + 25)
  // A bound that says too little.
  kDoubledLogprob,
  // Values.
  kLabelSign,           // of the label's term of dx
  kEntropySign,         // of the entropy's gradient
  kInfiniteLabelMoves,  // dz = g at a label of -inf
  kIgnoredRowCounted,   // the mean divides by N
  // Judging.
  kSmallRadius,  // a 2^-12 of it
  kNaNPasses,    // a comparison that is false of a NaN
};

#ifndef PLUMBLINE_ORACLE_DEFECT
#define PLUMBLINE_ORACLE_DEFECT kNone
#endif

// Internal linkage: it differs from one program to the next.
constexpr OracleDefect kPlanted = OracleDefect::PLUMBLINE_ORACLE_DEFECT;

}  // namespace plumbline::oracle

#endif  // PLUMBLINE_ORACLE_DEFECT_H_
