// SPDX-License-Identifier: Apache-2.0
#include "fuzz/baseline/family.h"

#include <algorithm>
#include <cmath>

namespace plumbline::fuzz {
namespace {

using oracle::Accumulate, oracle::Contract;

constexpr Dot kChain{Dot::Kind::kChain, 1, 0, false};
constexpr Dot kTruncatedChain{Dot::Kind::kAligned, 1, 2, false};
constexpr Dot kHopper{Dot::Kind::kAligned, 16, 2, false}, kAmpere{Dot::Kind::kAligned, 8, 1, false},
    kVolta{Dot::Kind::kAligned, 4, 0, false};

// A product below 4 in units of 2^-(23 + extra bits), block / 2 of them and the accumulator: what 32
// bits hold. Fewer extra bits err more, as an honest kernel of that contract may.
Dot TensorCore(int block, int extra_bits) {
  const int held = std::clamp(block, 1, 32);
  return {Dot::Kind::kAligned, held, std::min(extra_bits, held > 16 ? 1 : 2), false};
}

std::vector<Dot> DotsOf(const Contract& contract) {
  switch (contract.accumulate) {
    case Accumulate::kFp32:
      return {kChain};
    case Accumulate::kFp32Truncated:
      return {kChain, kTruncatedChain};
    case Accumulate::kTensorCore:
      return {TensorCore(contract.block, contract.extra_bits)};
    case Accumulate::kUnknown:
      break;
  }
  return {kChain, kHopper, kAmpere, kVolta};
}

std::string NameOf(const Dot& dot) {
  if (dot == kChain) return "fp32 in one chain";
  if (dot == kTruncatedChain) return "fp32 in one chain, truncated";
  const char* const core = dot == kHopper   ? "Hopper's"
                           : dot == kAmpere ? "Ampere's"
                           : dot == kVolta  ? "Volta's"
                                            : "its";
  return std::string(core) + " tensor cores";
}

}  // namespace

Dot Baseline::Apart() const {
  Dot apart = kChain;
  apart.reversed = dot.kind == Dot::Kind::kChain;
  return apart;
}

std::string Baseline::Name() const {
  const char* const sums = sum == SumForm::kTiles   ? "sums in tiles"
                           : sum == SumForm::kLanes ? "sums in lanes"
                                                    : "sums in one chain";
  return NameOf(dot) + ", " + sums + (scaled_first ? ", logits scaled first" : "") +
         (recomputed ? ", logits recomputed" : "");
}

Family FamilyOf(const Contract& contract, kernel::DType inputs) {
  Family family;
  if (contract.accumulator.value_or(kernel::DType::kF32) != kernel::DType::kF32) {
    family.no_gradients = "accumulators of 16 bits are not simulated";
  }
  Baseline base;
  base.plain_logprob = contract.plain_logprob;
  base.plain_entropy = contract.plain_entropy;
  base.entropy_of_probabilities = contract.entropy_of_probabilities;
  base.log_softmax_backward = contract.log_softmax_backward;
  base.ratio = contract.probability == oracle::Probability::kRatio;
  if (contract.input_rounding > 0) {
    base.operand_bits = std::max(1, -std::ilogb(contract.input_rounding));
  }
  base.d_logits = contract.d_logits.value_or(inputs);
  const bool before = contract.scale == oracle::Scale::kBefore;
  base.exact_powers = contract.scale_exact_powers;
  // A contract whose tile is one column allows one chain over the vocabulary.
  const SumForm widest = contract.tile == 1 && contract.splits == 1 ? SumForm::kChain : SumForm::kLanes;
  for (const Dot& dot : DotsOf(contract)) {
    base.dot = dot;
    base.sum = SumForm::kTiles;
    base.scaled_first = before && contract.scale_roundings > 1;
    base.divided_first = false;
    base.label_apart = base.recomputed = base.from_lse = false;
    family.baselines.push_back(base);
    base.sum = widest;
    base.scaled_first = false;
    base.divided_first = before && contract.scale_roundings >= 1;
    base.label_apart = contract.label_logit_separate;
    base.recomputed = !contract.recompute_same_bits;
    base.from_lse = !base.ratio;
    family.baselines.push_back(base);
  }
  return family;
}

}  // namespace plumbline::fuzz
