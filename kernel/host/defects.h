// SPDX-License-Identifier: Apache-2.0
//
// The places where an implementation of this operator is known to go wrong, as a compile-time policy.
// Every stage of the host implementation takes a `Defects` policy; the shipped operator is instantiated
// with NoDefects, whose answer is a constant, so none of this reaches its object code.
//
// A policy also names the arithmetic of the matrix products, `Dots` (kernel/host/dot_policy.h), so that
// each defect can be planted on each. Which public kernel has had which of them:
// fuzz/builtin/mutants/host.cc.

#ifndef PLUMBLINE_KERNEL_HOST_DEFECTS_H_
#define PLUMBLINE_KERNEL_HOST_DEFECTS_H_

#include <cstdint>

#include "kernel/host/dot_policy.h"

namespace plumbline::kernel::host {

enum class Defect : uint8_t {
  kNone,

  // Reading: what of the inputs is looked at, and where.
  kHiddenTailDropped,    // the last H mod 16 products of a logit are left out, unless they are all
  kInputsRounded,        // fp32 inputs of the logits keep 10 bits of their fraction, as TF32 does
  kWeightStrideAssumed,  // weight is read as if nothing lay between its rows (or columns)
  kRowOffset32,          // row times stride of hidden keeps 31 bits
  kLabelOffByOne,        // a label is looked up one column further on, the last one where it is
  kLabelTruncated,       // the lower half of a 64-bit label is read
  kLabelClamped,         // a label outside the vocabulary becomes its first or last column
  kLabelOfFirstSplit,    // a label is looked up by its offset within its split, in the first one
  kLabelInTailLost,   // a label in an incomplete tile, not the only one, is not found: its logit is 0
  kIgnoreIndexFixed,  // ignore_index is not read: it is -100
  kFirstTemperature,  // every row has temperature[0]
  kFirstGradForAll,   // every row is scaled by grad_logprob[0]
  kGradStrideTwo,     // upstream gradients of stride 2 are read with stride 1
  kGradStrideZero,    // ... of stride 0 likewise; what lies behind them is taken to be 0
  kFirstInvalidUnreported,  // first_invalid_row is always -1
  kInvalidRowForgotten,     // an invalid row leaves grad_weight without a NaN

  // The softmax and its tiles.
  kTailUnmasked,         // columns past the vocabulary enter the sum as exp(0 - m)
  kTailSentinel,         // ... are logits of -1e4
  kTailDropped,          // an incomplete tile is not read, unless it is the only one
  kTailInSavedSum,       // columns past the vocabulary enter the sum that is saved for backward
  kMaxFromZero,          // the running maximum starts at 0 instead of minus infinity
  kMaxFromSentinel,      // ... at -1e4
  kMergeMaxFromZero,     // the maximum over splits starts at 0
  kEmptyTileNaN,         // a tile of -inf logits only, the first one: (-inf) - (-inf)
  kLogitsRounded,        // logits pass through bf16 before the softmax
  kLogitsFp16,           // ... through fp16, whose largest is 65504
  kNaNDropped,           // a NaN logit counts as no column
  kInfinityClamped,      // a logit of +inf becomes the largest finite one
  kExponentialFlushed,   // subnormal exp(-t) are 0
  kExponentialBase,      // exp(-t) as a power of two, log2 e rounded to bf16
  kEntropyNotRebased,    // q is not moved when the running maximum moves
  kEntropyPLogP,         // p ln p is NaN at p = 0
  kStaleScratch,         // q starts from what the row before left in it
  kSplitsNotMerged,      // the first split is taken for all
  kOddSplitDropped,      // splits are merged in pairs: from 3 on, an odd last one is left out
  kLargeVocabUnmerged,   // the first split is taken for all beyond 32 768 columns
  kMergeWithoutRescale,  // the sums of splits are added as they are
  kMergeOrderOfRun,      // every other run merges the splits in the reverse order
  kMergeOrderOfBatch,    // more than one row: the splits are merged in the reverse order

  // The outputs of forward.
  kPlainLogprob,         // logprob = x_y - lse instead of (x_y - m) - ln s
  kPlainEntropy,         // entropy = lse - sum p x instead of ln s + q / s
  kLabelTemperature,     // t_y is not divided by the temperature
  kLseTemperature,       // m is not divided by the temperature in lse
  kLogprobRounded,       // logprob is stored with the bits of bf16
  kSavedRounded,         // s is saved with the bits of bf16
  kIgnoredRowLeaks,      // an ignored row is multiplied by zero instead of left out
  kIgnoredRowUnwritten,  // the outputs of an ignored row are not written
  kIgnoredRowEntropy,    // an ignored row has its entropy
  kRowsBeyondGrid,       // logprob, entropy and lse of rows from 65 535 on are not written
  kPaddingScratch,       // something is kept in the padding behind the first row of hidden
  kOutputOverrun,        // logprob is written in groups of four rows

  // Reductions.
  kLossOverAllRows,      // the mean divides the loss by N
  kLossChunkMeans,       // the means of groups of 4 rows are added
  kLossOfNothing,        // the mean of no rows is 0 / 0
  kLossRounded,          // loss is stored with the bits of bf16
  kLossGradSign,         // a row has gamma and not -gamma of the loss
  kMeanGradUndivided,    // gamma is not divided under reduction mean
  kMeanGradOverAllRows,  // gamma is divided by N
  kPlainGradDivided,     // grad_logprob is divided by the rows counted under reduction none
  kGradInPlace,          // under a reduction, grad_logprob is replaced by what a row gets of it

  // Backward.
  kGradTwice,                // a row is scaled by grad_logprob twice
  kLogprobGradDropped,       // grad_logprob is not used where grad_entropy is present
  kEntropyGradDropped,       // grad_entropy is accepted and never used
  kEntropyGradExtraOne,      // k p (ln p + H + 1)
  kEntropyGradWithoutH,      // k p ln p
  kEntropyGradPLogP,         // p ln p is NaN at p = 0
  kBackwardTemperature,      // d_logits are not divided by the temperature
  kTemperatureTwice,         // the entropy's part of d_logits is divided by it twice
  kProbabilityRounded,       // p is rounded to bf16 before 1 is subtracted at the label
  kDLogitsRounded,           // d_logits of fp32 inputs pass through bf16
  kSmallPSkipped,            // d_logits are 0 where p < 2^-12, but at the label
  kFirstIgnoredStopsAll,     // where row 0 is ignored, no row has a gradient
  kIgnoredRowBackward,       // ignored rows have gradients
  kZeroGradUnwritten,        // grad_hidden of a row with g = k = 0 is not written
  kEarlyReturn,              // where no row takes part, neither gradient is written
  kGradHiddenAccumulator,    // grad_hidden passes through bf16 after every 256 columns
  kGradHiddenPartial,        // grad_hidden keeps the last 256 columns of each 1024 only
  kGradWeightAccumulator,    // grad_weight passes through bf16 after every 16 rows
  kGradWeightRowTail,        // the last rows, N mod 4, have no part in grad_weight
  kGradWeightTailUnwritten,  // the last V mod 16 rows of grad_weight are not written
};

struct NoDefects {
  using Dots = FusedChains;
  static constexpr bool Has(Defect) { return false; }
};

}  // namespace plumbline::kernel::host

#endif  // PLUMBLINE_KERNEL_HOST_DEFECTS_H_
