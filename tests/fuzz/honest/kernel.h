// SPDX-License-Identifier: Apache-2.0
//
// Foreign kernels: the operator of kernel/OPERATION.md written a second time, in the forms that kernels
// elsewhere have, behind the C interface of fuzz/target_abi.h. Nothing here includes kernel/ or
// oracle/. A Kernel is one configuration of this code. Its contract says exactly what that
// configuration does.

#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "fuzz/target_abi.h"

namespace honest {

// The order and arithmetic of a sum of products. Fused: one rounding for each multiply-add.
enum class Order : uint8_t {
  kFused,      // one chain, ascending
  kReversed,   // one chain, descending, fused
  kUnfused,    // one chain, product and sum rounded apart
  kTruncated,  // one chain, fused, rounded toward zero
  kBlocks,     // a tensor core: blocks of exact products aligned with the accumulator and truncated
};
enum class Flush : uint8_t { kNone, kResults, kOperands };
enum class Narrow : uint8_t { kFp32, kBf16, kFp16 };

// How the exponent of a weight is formed of a logit z, the maximum m and T.
enum class Scale : uint8_t {
  kFolded,           // base 2: fma(z, log2(e)/T, -M) with M the rounded m log2(e)/T
  kDivided,          // z/T - m/T
  kAfterDivided,     // (z - m)/T
  kAfterReciprocal,  // (z - m) (1/T)
};

enum class Entropy : uint8_t {
  kShifted,             // ln s + (sum e t)/s
  kPlain,               // lse - (sum e x)/s
  kProbabilities,       // -sum p ln p
  kPlainProbabilities,  // lse - sum p x
};

// When dx meets 1/T.
enum class ByT : uint8_t { kDivideLast, kReciprocalLast, kDivideFirst };

struct Kernel {
  const char* name;
  const char* capabilities = "{}";  // JSON
  const char* contract = "{}";      // JSON

  // Sums of products. In fp32 inputs a tensor core has operands in TF32 or in three bf16 planes, and
  // one that has neither is replaced by a chain.
  Order order = Order::kFused;
  Order label_order = Order::kFused, backward_order = Order::kFused;  // of the logits
  Order gradient_order = Order::kFused;
  bool label_separate = false;  // the label's logit is summed in label_order
  bool recompute = false;       // backward sums its logits again in backward_order
  int block = 8, extra_bits = 1;
  int split = 1;  // parts of a logit's sum, added one after another
  bool tf32 = false, planes = false;
  Flush flush = Flush::kNone;

  // The softmax.
  Scale scale = Scale::kFolded;
  int tile = 128,
      lanes = 8;            // lane i of a tile has columns i, i + lanes, ...; lanes are added in a tree
  int splits = 1;           // runs of tiles
  bool merge_tree = false;  // runs are merged in a tree instead of in order
  bool two_pass = false;    // the maximum is found before anything is summed
  bool lazy = false;        // the maximum moves if it rose by more than 8 in base 2
  // By short polynomials (arithmetic.h). Division: by s and n, of a gradient by T; scale: 1/T.
  bool rough_exponential = false, rough_log = false, rough_division = false, rough_scale = false;
  bool flush_exponentials = false;
  bool plain_logprob = false;
  Entropy entropy = Entropy::kShifted;

  // The gradients.
  bool ratio = true;  // p = e/s; else exp(x - lse)
  bool d_logits_fp32 = false;
  bool autograd = false;  // dx = G - p sum G, G the gradients of log-probabilities; by_t is kDivideLast
  ByT by_t = ByT::kDivideLast;
  Narrow accumulator = Narrow::kFp32;
  int vocab_chunk = 0, row_chunk = 0;  // of an accumulator that is not fp32
  // Columns that grad_hidden sums from zero, where the accumulator is fp32: as many times `stretch` as
  // makes at most `stretches`; 0: all.
  int stretch = 0, stretches = 0;

  // Steps that are rounded to a dtype of 16 bits. scaled_logits needs kDivided, log_probs the same
  // without `ratio`. probabilities: in backward, in the entropy with the terms, and in `autograd` with
  // every operation that forms G. partials: with a split.
  Narrow logits = Narrow::kFp32, scaled_logits = Narrow::kFp32, softmax_sum = Narrow::kFp32,
         log_probs = Narrow::kFp32, probabilities = Narrow::kFp32, partials = Narrow::kFp32,
         outputs = Narrow::kFp32, upstream = Narrow::kFp32;
  float filter = 0;  // d_logits with |[v = y] - p| below it are 0
  // Backward's exponents are distances from the maximum of a tile, in fp16, and that maximum's own,
  // where hidden is bf16. With `ratio`.
  bool kept_exponents = false;

  bool other_conventions = false;  // the other side of each convention of DESCRIPTION.md

  bool RoundsSteps() const {
    const auto narrow = [](Narrow step) { return step != Narrow::kFp32; };
    return narrow(logits) || narrow(scaled_logits) || narrow(softmax_sum) || narrow(log_probs) ||
           narrow(probabilities) || narrow(partials) || narrow(outputs) || narrow(upstream) ||
           filter > 0;
  }
};

std::span<const Kernel> Kernels();
const Kernel* Find(const char* name);  // null if there is none

// The JSON that describe() of a plug-in gives.
std::string Description(const Kernel& kernel);

// Fills the outputs; an enum plumbline_status.
int Run(const Kernel& kernel, const plumbline_problem& problem, const plumbline_results& results,
        char* error, size_t error_capacity);

}  // namespace honest
