// SPDX-License-Identifier: Apache-2.0
//
// Defects that can be planted in the oracle when it is compiled, so that its tests can be tested.
// tests/oracle/mutants.cmake compiles each into a program of its own, which must fail. A build that
// defines nothing plants nothing, and the compiler leaves no trace of what is here.

#pragma once

#include <cstdint>

namespace plumbline::oracle {

enum class OracleDefect : uint8_t {
  kNone,
  // Bounds that forget an error.
  kNoPropagation,           // the errors of the logits
  kNoLogError,              // B_l: the errors of s and of its logarithm
  kNoSummation,             // the additions in s
  kNoDLogitsRounding,       // the rounding to the dtype that they are stored in
  kNoOutputRounding,        // the rounding of 16-bit gradients
  kNoLossSum,               // the additions of the loss
  kNoLabelLogit,            // the rounding of a label logit that is a dot product of its own
  kNoFlushedOperands,       // the products that are lost with flushed operands
  kNoLateUnderflow,         // the underflow of k p before it is multiplied by ln p + H
  kDivisionOfWeightsAlone,  // the declared error of a quotient, but in e/s
  kArgumentOfGap,           // the roundings of x - lse beyond those relative to t
  kScaleOfLogitsAlone,      // the declared roundings of 1/T, but in the logits
  kUpstreamNeverOverflows,  // the overflow of g/T before it meets a small 1 - p
  kPlainSumNeverOverflows,  // the overflow of sum e x in lse - (sum e x)/s
  kShortChain,              // the additions of a long chain beside an exact maximum
  kProbabilitiesAddUp,      // the errors of p in -sum p ln p that are common to all p
  kGradientSumIsExact,      // the errors of sum G, which log_softmax's backward subtracts p times
  kNoTies,                  // a logit in 16 bits that lies on the other side of a tie
  kOutputsAsTheyAre,        // the rounding of an output to the dtype declared for it
  kVacuousIsHeld,           // that an output's dtype may not hold a result of which nothing is known
  kOneRangeOfTwo,           // that a value rounded to one dtype may leave the range of the next
  kLabelGradientIsExact,    // the rounding of G at a label of -inf
  kCertificateTooWide,  // forgets nothing: the certificate is granted up to 2^(q + 25), not 2^(q + 24)
  // A bound that is too wide.
  kDoubledLogprob,
  // Wrong values.
  kLabelSign,           // the sign of the label's term of dx
  kEntropySign,         // the sign of the entropy's gradient
  kInfiniteLabelStays,  // dz = 0 at a label of -inf, where g / T is right
  kIgnoredRowCounted,   // the mean divides by N, not by the rows that are not ignored
  // Wrong judging.
  kSmallRadius,     // a radius 2^12 times too small
  kNaNPasses,       // a comparison that is false for a NaN, and so passes it
  kLatitudeForAll,  // either side of a convention passes, also of a target that promises one
};

#ifndef PLUMBLINE_ORACLE_DEFECT
#define PLUMBLINE_ORACLE_DEFECT kNone
#endif

// Internal linkage, because the value differs from one program to the next.
constexpr OracleDefect kPlanted = OracleDefect::PLUMBLINE_ORACLE_DEFECT;

}  // namespace plumbline::oracle
