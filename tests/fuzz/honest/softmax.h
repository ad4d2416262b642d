// SPDX-License-Identifier: Apache-2.0
//
// One row of the operator: what forward makes of its logits, and d_logits.

#pragma once

#include <cstdint>
#include <vector>

#include "tests/fuzz/honest/arithmetic.h"

namespace honest {

// What is subtracted, and the sums of e and of e t (or e x); all in the units of the exponent: base 2
// if the scale is folded.
struct State {
  float top = -kInfinity;  // the largest logit so far
  float shift = 0;         // what is subtracted: top, scaled as the kernel does
  float s = 0, q = 0;
  bool empty = true;
};

struct RowOutputs {
  float logprob = 0, entropy = 0, lse = 0;
};

class Softmax {
 public:
  // `bf16`: hidden is, so that exponents may be kept.
  Softmax(const Kernel& kernel, float temperature, bool bf16);

  // Logits of a row, of which at least one is finite and none is NaN or +infinity. `label` is the
  // label's logit, which may have been summed apart.
  RowOutputs Forward(const std::vector<float>& logits, float label);
  // dz of every column for the objective g logprob + k entropy, in fp32. After Forward.
  void Backward(const std::vector<float>& logits, int64_t label, float g, float k,
                std::vector<float>* dz) const;

 private:
  struct Probability {
    float p, log;
  };
  bool Folded() const { return k_.scale == Scale::kFolded; }
  float ShiftOf(float top) const { return Folded() ? fp_.Mul(top, factor_) : Kept(top); }
  // A logit as it is summed: divided by T if that comes first.
  float Kept(float z) const {
    return k_.scale == Scale::kDivided ? ToNarrow(OverT(z), k_.scaled_logits) : z;
  }
  float OverT(float z) const;
  float Scaled(float z) const;  // z/T in natural units
  float Exponent(float z, float shift) const;
  float Between(float from, float to) const;  // the exponent from one shift to another
  float Exp(float a) const { return Folded() ? fp_.Exp2(a) : fp_.Exp(a); }
  float Natural(float a) const { return Folded() ? fp_.Mul(a, kLn2) : a; }
  bool Plain() const { return k_.entropy == Entropy::kPlain; }

  void MoveTo(float top, float shift, State* state) const;
  void AddTile(const float* z, int64_t n, State* state) const;
  State Run(const float* z, int64_t n, const State& start) const;
  State Merged(std::vector<State> parts) const;
  void Merge(State other, State* state) const;
  float OfProbabilities(const std::vector<float>& logits) const;
  Probability ProbabilityOf(float z) const;
  Probability BackwardProbability(const std::vector<float>& logits, size_t v) const;
  template <typename Step>
  float InLanes(size_t n, const Step& step) const;
  void ByAutograd(const std::vector<float>& logits, int64_t label, float g, float k,
                  std::vector<float>* dx) const;

  const Kernel& k_;
  const Fp fp_;
  const float t_;
  const bool keeps_exponents_;
  float factor_ = 1;  // log2(e)/T if folded, else 1/T
  State state_;
  float log_s_ = 0, lse_ = 0, lse_exponent_ = 0;
  float entropy_ = 0;
};

}  // namespace honest
