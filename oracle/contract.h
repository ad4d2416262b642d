// SPDX-License-Identifier: Apache-2.0
//
// The arithmetic that a target claims to do. The error bound of every output follows from it
// (oracle/ERROR-BUDGET.md, "The contract" and "The budget"; JSON keys in fuzz/target/DESCRIPTION.md). A
// contract is checked, not trusted: a target that claims more than it does fails.
//
// The defaults describe a black box: fp32 accumulation in any order or any known tensor core, shifted
// formulas, d_logits rounded to the input dtype, everything else fp32. Errors are in units of u =
// 2^-24, except input_rounding, which is relative. block, split, tile and splits are at least 1,
// input_planes is 1 or 3, and the other numbers are at least 0, errors and roundings at most
// kMostError; nothing here checks that.

#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "kernel/dtype.h"
#include "oracle/convention.h"
#include "oracle/output.h"

namespace plumbline::oracle {

enum class Accumulate : uint8_t {
  kUnknown,        // the largest of the three below, over every tensor core since Volta
  kFp32,           // fp32, round to nearest, any order, fused or not
  kFp32Truncated,  // fp32, rounded toward zero
  kTensorCore,     // blocks of exact products aligned with the accumulator, truncated
};

enum class Flush : uint8_t { kNone, kResults, kOperands };
enum class Scale : uint8_t { kBefore, kAfter };  // 1/T before or after the shift by m
// The m that the exponentials see: the exact maximum of the logits summed; its rounded product with the
// scale, which is stored as the state; or any M with |M - m| <= 2^-24 |m|, the same forward and
// backward.
enum class Shift : uint8_t { kExactMax, kFusedStored, kOther };
enum class Probability : uint8_t { kRatio, kExpOfLse };  // e/s, or exp(x - lse)

// The dtype that numbers of one step are stored in: fp32 where nothing is said, 16 bits, or that of
// hidden.
class StepDType {
 public:
  constexpr StepDType() = default;
  constexpr StepDType(kernel::DType dtype) : dtype_(dtype) {}
  static constexpr StepDType OfHidden() {
    StepDType step;
    step.of_hidden_ = true;
    return step;
  }
  // Nothing where it is fp32.
  constexpr std::optional<kernel::DType> For(kernel::DType hidden) const {
    const kernel::DType dtype = of_hidden_ ? hidden : dtype_;
    return dtype == kernel::DType::kF32 ? std::nullopt : std::optional(dtype);
  }
  // Whether it is 16 bits for some hidden.
  constexpr bool Narrow() const { return of_hidden_ || dtype_ != kernel::DType::kF32; }
  bool operator==(const StepDType&) const = default;

 private:
  kernel::DType dtype_ = kernel::DType::kF32;
  bool of_hidden_ = false;
};

// The largest error or number of roundings, in u, for which the bounds are derived: up to 2^-12 the
// exponent of a weight that has not underflowed is off by less than 0.1 (ERROR-BUDGET.md, "Large
// constants").
inline constexpr double kMostError = 0x1p12;
// The largest rounding of operands: with it and log2(e) a product of operands grows by less than the
// factor of 4 that a row of finite values has before it may overflow (oracle/budget/row.cc).
inline constexpr double kMostInputRounding = 0.25;
// The largest rounding of kept exponents: with kMostError beside it the exponent of a weight that has
// not underflowed is off by k y, k <= 2^-8 (ERROR-BUDGET.md, "Large constants").
inline constexpr double kMostKeptArgument = 0x1p-9;

struct Contract {
  // Dot products.
  Accumulate accumulate = Accumulate::kUnknown;
  int block = 16;             // kTensorCore: products aligned together
  int extra_bits = 2;         // kTensorCore: alignment bits kept below the 23 of fp32
  int split = 1;              // partial dot products added in fp32
  StepDType partials;         // of these sums, as they are stored and added
  int input_planes = 1;       // bf16 planes that an fp32 operand is split into, 1 (none) or 3: six
                              // products, the small ones first, through one accumulator
  double input_rounding = 0;  // relative rounding of each operand on its way in, e.g. 2^-11 for TF32
  Flush flush = Flush::kNone;

  // Logits that are stored in 16 bits: z, and x = z/T, each rounded to nearest even. The exact result
  // is then that of the rounded logits (oracle/STORED-STEPS.md). With scaled_logits in 16
  // bits the scale is kBefore, whatever is said.
  StepDType logits, scaled_logits;

  // Softmax.
  Scale scale = Scale::kBefore;
  double scale_roundings = 3;       // roundings between z and z/T, times what the shift needs
  bool scale_exact_powers = false;  // ... but none where T is a power of two, 1 among them
  Shift shift = Shift::kOther;
  double exp_error = 4;           // u: relative error of the exponential
  bool exp_gradual = false;       // subnormal exponentials are kept
  double argument_roundings = 2;  // k_a: roundings of the exponent, each relative to it
  double log_error_absolute = 4;  // u: error of ln s for s < 2
  double log_error_relative = 6;  // u: relative error of ln s
  double division_error = 4;      // u: relative error of a quotient, by a reciprocal or not
  // The shape of the sums over the vocabulary: `tile` columns are summed with depth `tile_depth`, tiles
  // one after another within each of `splits` parts, and the parts one after another. Each step may
  // move the maximum. The default is one column after another.
  int64_t tile = 1;
  int64_t tile_depth = 0;
  int64_t splits = 1;
  // The most times that a term of those sums is scaled down because the maximum moved. Absent: once at
  // each step. A kernel that finds the maximum before it merges tiles rescales fewer times.
  std::optional<int64_t> rescales;
  // Where rescales is absent and this is not 0: the most rescales are min(V - 1, max(this, tiles)). A
  // short vocabulary may be rescaled a column at a time, a long one a tile at a time.
  int64_t column_rescales = 0;
  StepDType softmax_sum;             // of s, before its logarithm is taken or anything is divided by it
  bool label_logit_separate = true;  // the label's logit is a dot product apart from the one summed
  bool plain_logprob = false;        // x_y - lse instead of (x_y - m) - ln s
  bool plain_entropy = false;        // lse - sum p x instead of ln s + sum p t
  // -sum p ln p, or lse - sum p x with plain_entropy, where each p is formed as `probability` says,
  // from the logits that were summed, and ln p as x - lse or -(t + ln s), never as a logarithm of p.
  bool entropy_of_probabilities = false;
  // d_logits are G - p sum G, where G are the gradients of the log-probabilities that forward kept, as
  // autograd of log_softmax and of -sum p ln p forms them. Such a kernel has entropy_of_probabilities
  // without plain_entropy, recompute_same_bits and kExpOfLse, whatever is said of these.
  bool log_softmax_backward = false;
  // Log-probabilities are rounded to it and kept: logprob and loss are made of these, and backward's
  // probabilities are their exponentials. It stands for recompute_same_bits and kExpOfLse.
  StepDType log_probs;
  // Probabilities are rounded to it: in backward before the label's 1 is subtracted, and in forward's
  // entropy_of_probabilities, with the terms p ln p. With log_softmax_backward so are the operations
  // that form G.
  StepDType probabilities;

  // Gradients.
  bool recompute_same_bits = false;  // backward sees the very logits that forward saw
  Probability probability = Probability::kExpOfLse;
  // Relative rounding of backward's exponents, in problems of bf16, whose distances from the maximum of
  // their tile are kept in 16 bits (2^-11 for fp16, whose subnormals are kept); 0: they are not. Not
  // with log_softmax_backward or log_probs, which keep something else.
  double kept_argument = 0;
  std::optional<kernel::DType> d_logits;     // dtype that they are stored in; absent: the input dtype
  std::optional<kernel::DType> accumulator;  // dtype of gradients across chunks; absent: fp32
  int64_t vocab_chunk = 0;  // columns a chunk where accumulator is not fp32; 0: 1, the worst
  int64_t row_chunk = 0;    // rows a chunk where accumulator is not fp32; 0: 1, the worst
  // Columns of a stretch of grad_hidden: each is summed from zero, and the sums are added in order, in
  // fp32. 0: one sum over all columns. Where there are at most `grad_hidden_stretches`, above 0, a
  // stretch has as many times these columns as that takes.
  int64_t grad_hidden_stretch = 0, grad_hidden_stretches = 0;
  // Returns the columns of a stretch of a vocabulary of v columns, v at most.
  int64_t StretchOf(int64_t v) const;
  double filter = 0;  // a d_logit may be dropped where |[v = y] - p| as computed is below it; at most 1

  // Upstream gradients of logprob (or the loss) and of the entropy are rounded to it, to nearest even,
  // before anything is made of them, as a framework does whose outputs have that dtype. The exact
  // result is then that of the rounded ones.
  StepDType upstream_logprob, upstream_entropy;

  // The dtype that an output is rounded to before it is written, by Output; fp32: that of its tensor.
  std::array<StepDType, kOutputs.size()> outputs;

  // What is no arithmetic: conventions and signs. A black box promises neither.
  Promises promises;
};

}  // namespace plumbline::oracle
