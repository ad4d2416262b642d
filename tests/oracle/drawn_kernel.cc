// SPDX-License-Identifier: Apache-2.0

#include "tests/oracle/drawn_kernel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <sstream>

#include "oracle/judge/judge.h"
#include "tests/oracle/simulated_kernel.h"

namespace plumbline::oracle {

using kernel::DType;
using kernel::Reduction;

uint32_t Pattern(DType dtype, float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  if (dtype == DType::kF32) return bits;
  if (dtype == DType::kBf16) return bits >> 16;
  const uint32_t sign = (bits >> 16) & 0x8000;
  const float size = std::fabs(x);
  if (size >= 65504) return sign | 0x7bff;
  if (size < 0x1p-14f) return sign | static_cast<uint32_t>(size * 0x1p24f);
  return sign | (((bits & 0x7fffffff) >> 13) - (112u << 10));
}

SmallProblem DrawProblem(Dice* dice, const Ranges& ranges) {
  SmallProblem p;
  p.n = dice->Range(1, 3);
  p.v = dice->OneIn(3) ? dice->Range(1, 40) : dice->Range(1, 6);
  p.h = dice->Range(1, 6);
  p.dtype = dice->Of(std::array{DType::kBf16, DType::kF16, DType::kF32});
  const bool half = p.dtype == DType::kF16;
  const float scale = dice->Power(-1, 5), offset = half ? 256 : 4096;
  const int64_t family = dice->Range(0, ranges.wild ? 5 : 4);
  for (int64_t e = 0; e < p.n * p.h; ++e) {
    float x = dice->Unit();
    if (family == 0 || family == 4) x = 1;
    if (family == 5) x = dice->OneIn(2) ? x * 0x1p-126f : 1;
    p.hidden.push_back(Pattern(p.dtype, x));
  }
  for (int64_t e = 0; e < p.v * p.h; ++e) {
    float x = dice->Unit() * scale;
    if (family == 1) x = std::fabs(x);
    if (family == 2) x = static_cast<float>(dice->Range(-4, 4));           // exact
    if (family == 3 && e % p.h == 0 && dice->OneIn(3)) x += 20;            // confident
    if (family == 4) x = offset + static_cast<float>(dice->Range(-8, 8));  // offset
    if (family == 5 && dice->OneIn(2)) x = std::ldexp(x, half ? 4 : ranges.wild ? 100 : 0);
    p.weight.push_back(Pattern(p.dtype, x));
  }
  p.reduction = static_cast<Reduction>(dice->OneIn(2) ? 0 : dice->Range(1, 2));
  for (int64_t i = 0; i < p.n; ++i) p.labels.push_back(dice->OneIn(8) ? -100 : dice->Range(0, p.v - 1));
  if (dice->OneIn(2)) {
    p.temperature = {(1.5f + dice->Unit() / 2) * dice->Power(-ranges.temperature, ranges.temperature)};
  }
  const auto upstream = [&] { return dice->Unit() * dice->Power(-ranges.gradient, ranges.gradient); };
  for (int64_t i = 0; i < (p.reduction == Reduction::kNone ? p.n : 1); ++i) {
    p.grad_logprob.push_back(dice->OneIn(4) ? 0 : upstream());
  }
  if (dice->OneIn(2)) {
    for (int64_t i = 0; i < p.n; ++i) p.grad_entropy.push_back(upstream());
  }
  return p;
}

Contract DrawContract(Dice* dice, const Ranges& ranges) {
  Contract c;
  c.accumulate = static_cast<Accumulate>(dice->Range(0, 3));
  c.block = dice->Of(std::array{4, 8, 16});
  c.extra_bits = static_cast<int>(dice->Range(0, 2));
  c.shift = Shift::kExactMax;
  c.scale = static_cast<Scale>(dice->Range(0, 1));
  c.scale_roundings = static_cast<double>(dice->Range(0, 3));
  c.argument_roundings = static_cast<double>(dice->Range(1, 2));
  if (ranges.wild) c.flush = static_cast<Flush>(dice->Range(0, 2));
  c.exp_error = static_cast<double>(dice->Range(1, 4));
  c.exp_gradual = dice->OneIn(2);
  c.log_error_absolute = dice->OneIn(2) ? 4 : 0;
  c.log_error_relative = dice->OneIn(2) ? 6 : 1.1;
  c.division_error = dice->OneIn(2) ? 4 : 1;
  if (dice->OneIn(2)) {
    c.tile = dice->Range(1, 8);
    c.tile_depth = static_cast<int64_t>(std::ceil(std::log2(static_cast<double>(c.tile))));
    c.splits = dice->Range(1, 3);
    if (dice->OneIn(2)) c.rescales = dice->Range(0, 1);
  }
  c.label_logit_separate = dice->OneIn(3);
  c.plain_logprob = dice->OneIn(4);
  c.plain_entropy = dice->OneIn(4);
  c.recompute_same_bits = dice->OneIn(2);
  c.probability = static_cast<Probability>(dice->Range(0, 1));
  if (dice->OneIn(2)) c.d_logits = dice->Of(std::array{DType::kF32, DType::kBf16, DType::kF16});
  return c;
}

Contract DrawWholeContract(Dice* dice, const Ranges& ranges) {
  Contract c = DrawContract(dice, ranges);
  const auto error = [&] {
    return dice->OneIn(3) ? dice->Of(std::array{1.0, 2.0, 4.0})
                          : dice->Of(std::array{0.0, 3.5, 16.0, 64.0, 500.0, kMostError, kMostError});
  };
  c.block = static_cast<int>(dice->Of(std::array{1, 2, 5, 16, 1 << 20}));
  c.extra_bits = dice->Of(std::array{0, 2, 7, 64});
  c.split = dice->Of(std::array{1, 1, 2, 5, 1 << 20});
  c.input_rounding =
      dice->OneIn(3) ? dice->Of(std::array{0x1p-11, 0x1p-9, 0x1p-4, kMostInputRounding}) : 0;
  c.scale_exact_powers = dice->OneIn(2);
  // A rounded maximum of logits whose computed values are far larger than the exact ones, which cancel,
  // may be off by more than the range of exp. "1.1u max|x| > 40" does not see that yet.
  if (!ranges.wild) c.shift = static_cast<Shift>(dice->Range(0, 2));
  c.scale_roundings = error();
  c.argument_roundings = error();
  // An exponential without any error is not even e^-x of long double where x is 2^-100.
  c.exp_error = std::max(error(), 0x1p-10);
  c.log_error_absolute = error();
  c.log_error_relative = error();
  c.division_error = error();
  if (c.rescales && dice->OneIn(3)) c.rescales = dice->Of(std::array<int64_t, 3>{2, 40, INT64_MAX});
  if (dice->OneIn(4)) c.splits = dice->Of(std::array<int64_t, 2>{7, INT64_MAX});
  if (dice->OneIn(8)) {
    c.tile = INT64_MAX;
    c.tile_depth = dice->Range(6, 60);
  }
  c.entropy_of_probabilities = dice->OneIn(3);
  c.log_softmax_backward = dice->OneIn(6);
  if (c.log_softmax_backward) {
    c.entropy_of_probabilities = c.recompute_same_bits = true;
    c.plain_entropy = false;
    c.probability = Probability::kExpOfLse;
  }
  if (dice->OneIn(4)) {
    c.accumulator = dice->Of(std::array{DType::kF32, DType::kBf16, DType::kF16});
    c.vocab_chunk = dice->Of(std::array<int64_t, 4>{0, 1, 3, INT64_MAX});
    c.row_chunk = dice->Of(std::array<int64_t, 3>{0, 1, 2});
  }
  if (dice->OneIn(3) && !c.log_softmax_backward)
    c.kept_argument = dice->Of(std::array{0x1p-11, 0x1p-10, kMostKeptArgument});
  if (dice->OneIn(4)) {
    c.grad_hidden_stretch = dice->Of(std::array<int64_t, 4>{1, 2, 5, INT64_MAX});
    c.grad_hidden_stretches = dice->Of(std::array<int64_t, 4>{0, 0, 2, 3});
  }
  return c;
}

Contract DrawNarrowContract(Dice* dice, const Ranges& ranges) {
  Contract c = dice->OneIn(2) ? DrawContract(dice, ranges) : DrawWholeContract(dice, ranges);
  const auto narrow = [&] {
    return dice->Of(std::array<StepDType, 3>{DType::kBf16, DType::kF16, StepDType::OfHidden()});
  };
  switch (dice->Range(0, 7)) {
    case 0:
      break;
    case 1:
      c.scaled_logits = narrow();
      break;
    case 2:
      c.scaled_logits = c.logits = narrow();
      break;
    default:
      c.logits = narrow();
  }
  if (dice->OneIn(4)) c.log_probs = narrow();
  if (dice->OneIn(4)) c.softmax_sum = narrow();
  if (c.log_probs.Narrow()) {
    c.kept_argument = 0;
    c.recompute_same_bits = true;
    c.probability = Probability::kExpOfLse;
  }
  if (dice->OneIn(4)) c.probabilities = narrow();
  if (dice->OneIn(4)) c.filter = dice->Of(std::array{0x1p-12, 0x1p-6, 0.25});
  if (c.split > 1 && c.split < 8 && dice->OneIn(2)) c.partials = narrow();
  for (auto& output : c.outputs) {
    if (dice->OneIn(4)) output = narrow();
  }
  if (dice->OneIn(4)) c.upstream_logprob = narrow();
  if (dice->OneIn(4)) c.upstream_entropy = narrow();
  return c;
}

namespace {

std::string Show(const Contract& c) {
  std::ostringstream s;
  s << "accumulate " << static_cast<int>(c.accumulate) << " block " << c.block << "+" << c.extra_bits
    << " flush " << static_cast<int>(c.flush) << " scale " << static_cast<int>(c.scale) << " "
    << c.scale_roundings << " argument " << c.argument_roundings << " exp " << c.exp_error << " "
    << c.exp_gradual << " log " << c.log_error_absolute << " " << c.log_error_relative << " division "
    << c.division_error << " tile " << c.tile << " splits " << c.splits << " rescales "
    << c.rescales.value_or(-1) << " separate " << c.label_logit_separate << " plain " << c.plain_logprob
    << c.plain_entropy << " same bits " << c.recompute_same_bits << " probability "
    << static_cast<int>(c.probability) << " dz " << (c.d_logits ? kernel::Name(*c.d_logits) : "input")
    << " split " << c.split << " rounding " << c.input_rounding << " powers " << c.scale_exact_powers
    << " shift " << static_cast<int>(c.shift) << " of probabilities " << c.entropy_of_probabilities
    << " backward of log_softmax " << c.log_softmax_backward << " accumulator "
    << (c.accumulator ? kernel::Name(*c.accumulator) : "fp32") << " " << c.vocab_chunk << " "
    << c.row_chunk << " stretch " << c.grad_hidden_stretch << ", at most " << c.grad_hidden_stretches
    << " kept " << c.kept_argument;
  const auto narrow = [&](const char* what, const StepDType& step) {
    if (!step.Narrow()) return;
    s << " " << what << " " << (step == StepDType::OfHidden() ? "input" : kernel::Name(*step.For({})));
  };
  narrow("logits", c.logits);
  narrow("scaled logits", c.scaled_logits);
  narrow("softmax sum", c.softmax_sum);
  narrow("log-probabilities", c.log_probs);
  narrow("probabilities", c.probabilities);
  narrow("partials", c.partials);
  narrow("upstream of logprob", c.upstream_logprob);
  narrow("upstream of entropy", c.upstream_entropy);
  for (const Output output : kOutputs) {
    narrow(Name(output).data(), c.outputs[static_cast<size_t>(output)]);
  }
  s << " filter " << c.filter;
  return s.str();
}

}  // namespace

void JudgeOne(const kernel::Problem& problem, const Contract& contract, const Expectation& expected,
              uint64_t seed, const std::string& what, Tightest* tightest) {
  const Simulated got = Simulate(problem, contract, seed);
  for (Output output : kOutputs) {
    const ExpectedTensor& t = expected[output];
    for (size_t e = 0; e < t.elements.size(); ++e) {
      const Element& element = t.elements[e];
      const JudgedElement judged =
          Judge(output, element, output == Output::kLoss ? got.loss : got.of(output)[e]);
      ++tightest->judged;
      tightest->vacuous += judged.verdict == Verdict::kVacuous;
      double& most = tightest->of[static_cast<size_t>(output)];
      most = std::max(most, judged.tightness);
      ASSERT_NE(judged.verdict, Verdict::kFail)
          << Name(output) << "[" << e << "] is off by " << judged.tightness << " times its bound "
          << element.bound << " around " << element.value << ": " << Name(judged.failure) << "; "
          << what << "; " << Show(contract);
    }
  }
}

}  // namespace plumbline::oracle
