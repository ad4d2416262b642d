// SPDX-License-Identifier: Apache-2.0
//
// The baselines of a contract: honest kernels that it allows, as arithmetic to be computed. They are
// members of that contract and never of "fp32" in general, since the errors of honest logits differ by
// a factor of 70 from one dot product to another.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fuzz/baseline/product.h"
#include "kernel/dtype.h"
#include "oracle/contract.h"

namespace plumbline::fuzz {

// How the sums over the vocabulary go: in tiles of 128 columns, each by a tree, with a running maximum;
// in 32 interleaved chains after the maximum is known; or one column after another.
enum class SumForm : uint8_t { kTiles, kLanes, kChain };

// A gradient that is kept in this dtype from chunk to chunk: so many columns of the vocabulary of
// grad_hidden, so many rows of grad_weight. fp32: one accumulator of the dot product.
struct Accumulator {
  kernel::DType dtype = kernel::DType::kF32;
  int64_t chunk = 0;
  bool rounds_parts = false;  // a chunk's part is rounded to it, too, before it is added
  int parts = 0;              // where chunk is 0: so many equal parts of the length
  bool of_all_rows = false;   // rows without part in the gradients count for the chunks of grad_weight
  bool operator==(const Accumulator&) const = default;
};

// What a kernel may round that its contract does not say. Default: nothing.
struct Shortcuts {
  kernel::DType logits = kernel::DType::kF32;         // z, before it is divided by T
  kernel::DType scaled_logits = kernel::DType::kF32;  // z / T
  kernel::DType log2e = kernel::DType::kF32;          // the constant log2(e), in every scaled logit
  kernel::DType exponent = kernel::DType::kF32;       // the same constant, in the exponentials alone
  kernel::DType temperature = kernel::DType::kF32;
  kernel::DType logprob = kernel::DType::kF32;        // stored, and widened again
  kernel::DType entropy = kernel::DType::kF32;        // likewise
  kernel::DType lse = kernel::DType::kF32;            // likewise
  kernel::DType sum = kernel::DType::kF32;            // s as backward reads it
  kernel::DType saved_lse = kernel::DType::kF32;      // lse as backward reads it, p = exp(x - lse)
  kernel::DType probabilities = kernel::DType::kF32;  // p, before the 1 of the label is subtracted
  kernel::DType softmax_sum = kernel::DType::kF32;    // s, before its logarithm is taken
  // ln p as forward keeps it: logprob, and backward's p = exp of it.
  kernel::DType log_probs = kernel::DType::kF32;
  // p and p ln p of the entropy, and what autograd of log_softmax forms before it subtracts p sum G.
  kernel::DType autograd = kernel::DType::kF32;
  kernel::DType d_logits = kernel::DType::kF32;
  kernel::DType d_scaled_logits = kernel::DType::kF32;  // d_logits before they are divided by T
  Accumulator hidden_sum, weight_sum;
  double filter = 0;          // probabilities below it have no gradient, but for the label's
  bool filter_label = false;  // the label has none where its 1 - p is below it
  // Added to each value before it is rounded, logits and outputs absolutely, the others relatively:
  // what lies near a tie is then rounded to its other side. For exact arithmetic alone.
  double nudge = 0;
  int operand_bits = 0;  // operands of every product keep so many significant bits; 0: all
  int hidden_bits = 0;   // hidden does in the logits alone
  // Forms that change no exact value: a baseline has these beside its contract's.
  bool plain_logprob = false, plain_entropy = false, entropy_of_probabilities = false;
  bool operator==(const Shortcuts&) const = default;
};

struct Baseline {
  Dot dot;
  SumForm sum = SumForm::kTiles;
  // Logits are multiplied by log2(e)/T, or divided by T, and rounded before the maximum is subtracted;
  // else the difference is divided by T.
  bool scaled_first = false, divided_first = false;
  bool exact_powers = false;  // ... multiplied only where T is no power of two
  bool plain_logprob = false, plain_entropy = false, entropy_of_probabilities = false;
  bool ratio = false;     // p = e / s, else an exponential of ln p
  bool from_lse = false;  // ln p = x - lse, whose rounding all columns share; else -(t + ln s)
  // Where logits are scaled: p = exp2 of one fused z log2(e)/T - l, with l = lse log2(e) rounded, so
  // that a probability near 1 is rounded at the size of lse.
  bool fused_lse = false;
  bool log_softmax_backward = false;  // G - p sum G
  // The label's logit, and the logits that backward sees, are dot products apart in another order.
  bool label_apart = false, recomputed = false;
  int operand_bits = 0;  // operands keep so many significant bits; 0: all
  int hidden_bits = 0;   // hidden does in the logits
  // Backward's exponents, but the label's, keep so many significant bits of their distance from the
  // maximum of a tile; 0: all. An error of fp32 arithmetic: it moves no exact value.
  int kept_bits = 0;
  kernel::DType d_logits = kernel::DType::kF32;
  // The contract's; those of the shortcuts go before.
  Accumulator logit_sum, hidden_sum, weight_sum;
  Shortcuts shortcuts;

  // The dot product of what is computed apart: a chain, or the reversed one.
  Dot Apart() const;
  std::string Name() const;  // "Ampere's tensor cores (8, 1); sums in tiles"
  bool operator==(const Baseline&) const = default;
};

struct Family {
  std::vector<Baseline> baselines;
  // What the contract stores in 16 bits: each baseline has it, and so has what is exact under a
  // shortcut.
  Shortcuts declared;
};

// Returns baselines of the contract for inputs of this dtype: every kind of dot product that it allows,
// with two forms of the softmax: sums in tiles over one set of logits; and wider sums, with the label's
// logit and backward's logits computed apart where the contract allows it, and with the partial dot
// products that it declares, truncated on a tensor core. One more, second, where both round ln p at the
// size of lse: p = e / s.
Family FamilyOf(const oracle::Contract& contract, kernel::DType inputs);

// What one logit costs in each set of logits that the baselines have, in Dot::Cost: baselines with one
// dot product and one sum of its parts share theirs.
double CostOfLogits(const Family& family);

}  // namespace plumbline::fuzz
