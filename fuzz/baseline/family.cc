// SPDX-License-Identifier: Apache-2.0
#include "fuzz/baseline/family.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace plumbline::fuzz {
namespace {

using oracle::Accumulate, oracle::Contract;

constexpr Dot kChain{Dot::Kind::kChain, 1, 0, false};
constexpr Dot kTruncatedChain{Dot::Kind::kTowardZero, 1, 0, false};
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

// What a contract allows that says no chunk is one column. No kernel rounds its accumulator between the
// products of one instruction.
constexpr int64_t kLeastChunk = 16;

// What the contract stores in 16 bits.
Shortcuts Declared(const Contract& contract, kernel::DType hidden, kernel::DType d_logits) {
  constexpr kernel::DType kFp32 = kernel::DType::kF32;
  const auto of = [&](const oracle::StepDType& step) { return step.For(hidden).value_or(kFp32); };
  const auto output = [&](oracle::Output o) { return of(contract.outputs[static_cast<size_t>(o)]); };
  Shortcuts s;
  s.logits = of(contract.logits);
  s.scaled_logits = of(contract.scaled_logits);
  if (s.scaled_logits != kFp32) s.d_scaled_logits = d_logits;
  s.softmax_sum = of(contract.softmax_sum);
  s.log_probs = of(contract.log_probs);
  s.probabilities = of(contract.probabilities);
  if (contract.entropy_of_probabilities || contract.log_softmax_backward) s.autograd = s.probabilities;
  s.filter = contract.filter;
  s.logprob = output(oracle::Output::kLogprob);
  s.entropy = output(oracle::Output::kEntropy);
  s.lse = output(oracle::Output::kLse);
  return s;
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
  Baseline base;
  const kernel::DType accumulator = contract.accumulator.value_or(kernel::DType::kF32);
  if (accumulator != kernel::DType::kF32) {
    const auto chunk = [](int64_t declared) { return declared > 0 ? declared : kLeastChunk; };
    base.hidden_sum = {accumulator, chunk(contract.vocab_chunk)};
    base.weight_sum = {accumulator, chunk(contract.row_chunk)};
  }
  const kernel::DType partials = contract.partials.For(inputs).value_or(kernel::DType::kF32);
  if (partials != kernel::DType::kF32) {
    const Accumulator parts = {.dtype = partials, .rounds_parts = true, .parts = contract.split};
    base.logit_sum = parts;
    if (base.hidden_sum.chunk == 0) base.hidden_sum = base.weight_sum = parts;
  }
  base.plain_logprob = contract.plain_logprob;
  base.plain_entropy = contract.plain_entropy;
  base.entropy_of_probabilities = contract.entropy_of_probabilities;
  base.log_softmax_backward = contract.log_softmax_backward;
  base.ratio = contract.probability == oracle::Probability::kRatio;
  if (contract.kept_argument > 0 && inputs == kernel::DType::kBf16)
    base.kept_bits = std::max(1, -std::ilogb(contract.kept_argument));
  if (contract.input_rounding > 0) {
    base.operand_bits = std::max(1, -std::ilogb(contract.input_rounding));
  }
  base.d_logits = contract.d_logits.value_or(inputs);
  family.declared = base.shortcuts = Declared(contract, inputs, base.d_logits);
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
    base.hidden_sum.rounds_parts = base.weight_sum.rounds_parts = base.weight_sum.of_all_rows = true;
    base.fused_lse = base.scaled_first && !base.ratio && contract.shift != oracle::Shift::kExactMax;
    base.shortcuts.filter_label = false;
    family.baselines.push_back(base);
    base.sum = widest;
    base.scaled_first = false;
    base.divided_first = before && contract.scale_roundings >= 1;
    base.label_apart = contract.label_logit_separate;
    base.recomputed = !contract.recompute_same_bits;
    base.from_lse = !base.ratio;
    base.fused_lse = false;
    base.shortcuts.filter_label = contract.filter > 0;
    const Accumulator whole = base.logit_sum;
    if (contract.split > 1 && whole.parts == 0) base.logit_sum.parts = contract.split;
    base.hidden_sum.rounds_parts = base.weight_sum.rounds_parts = base.weight_sum.of_all_rows = false;
    family.baselines.push_back(base);
    base.logit_sum = whole;
  }
  // Beside probabilities that are all rounded at the size of lse, some that are not: where p is 1,
  // d_logits in 16 bits are then the same in every row, and so are their roundings.
  if (Baseline first = family.baselines.front(); first.fused_lse) {
    first.scaled_first = first.fused_lse = false;
    first.ratio = true;
    family.baselines.insert(family.baselines.begin() + 1, first);
  }
  return family;
}

double CostOfLogits(const Family& family) {
  double cost = 0;
  std::vector<std::pair<Dot, Accumulator>> known;
  for (const Baseline& baseline : family.baselines) {
    const std::pair logits(baseline.dot, baseline.logit_sum);
    if (std::ranges::find(known, logits) != known.end()) continue;
    known.push_back(logits);
    cost += baseline.dot.Cost();
  }
  return cost;
}

}  // namespace plumbline::fuzz
