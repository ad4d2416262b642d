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

struct Baseline {
  Dot dot;
  SumForm sum = SumForm::kTiles;
  // Logits are multiplied by log2(e)/T, rounded, before the maximum is subtracted; else the difference
  // is divided by T.
  bool scaled_first = false;
  bool plain_logprob = false, plain_entropy = false, entropy_of_probabilities = false;
  bool ratio = false;                 // p = e / s, else exp(x - lse)
  bool log_softmax_backward = false;  // G - p sum G
  // What the contract declares beyond what the functions of an ordinary library err; 0: no more than
  // that. Each is spread evenly over [-1, 1] times its limit, in u; those of the logarithm are a part
  // of the floor (honest_errors.cc).
  double exp_error = 0;           // relative, of an exponential
  double argument_roundings = 0;  // relative, of its argument
  double scale_roundings = 0;     // relative, of a logit that is kept
  double division_error = 0;      // relative, of e / s
  int operand_bits = 0;           // operands keep so many significant bits; 0: all
  kernel::DType d_logits = kernel::DType::kF32;

  std::string Name() const;  // "Ampere's tensor cores (8, 1); sums in tiles"
};

struct Family {
  std::vector<Baseline> baselines;
  // Why gradients have no baseline: the contract declares what is not simulated. Empty: they have.
  std::string no_gradients;
};

// Returns baselines of the contract for inputs of this dtype: every kind of dot product that it allows,
// with two forms of the softmax.
Family FamilyOf(const oracle::Contract& contract, kernel::DType inputs);

}  // namespace plumbline::fuzz
