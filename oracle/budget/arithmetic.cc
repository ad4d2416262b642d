// SPDX-License-Identifier: Apache-2.0

#include "oracle/budget/arithmetic.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "oracle/defect.h"

namespace plumbline::oracle {
namespace {

using kernel::DType;

constexpr double kU = 0x1p-24;

// The relative error coefficient, in units of u S, of a tensor core that aligns `block` exact products
// with the accumulator, keeps `extra` bits below the 23 of fp32 and truncates (ERROR-BUDGET.md, "Dot
// products").
double TensorCoreUnits(int64_t length, int block, int extra) {
  double units = 0;
  const double per_addend = std::ldexp(2.0, -extra);
  const int64_t full = length / block, rest = length % block;
  units += static_cast<double>(full) * (static_cast<double>(block + 1) * per_addend + 2);
  if (rest > 0) units += static_cast<double>(rest + 1) * per_addend + 2;
  return units;
}

double DotUnits(const Contract& c, int64_t length, bool products_exact) {
  if (length == 0) return 0;
  const double n = static_cast<double>(products_exact ? length - 1 : length);
  const double split = 2.5 * static_cast<double>(c.split - 1);
  switch (c.accumulate) {
    case Accumulate::kFp32:
      return n;
    case Accumulate::kFp32Truncated:
      return 2 * n;
    case Accumulate::kTensorCore:
      return TensorCoreUnits(length, c.block, c.extra_bits) + split;
    case Accumulate::kUnknown:
      break;
  }
  return std::max({2 * n, TensorCoreUnits(length, 16, 2), TensorCoreUnits(length, 8, 1),
                   TensorCoreUnits(length, 4, 0)}) +
         split;
}

// What adding the sum of one more stretch costs (ERROR-BUDGET.md, "Stretches").
double UnitsOfAStretch(const Contract& c) {
  switch (c.accumulate) {
    case Accumulate::kFp32:
      return 1;
    case Accumulate::kFp32Truncated:
      return 2;
    default:
      return 2.5;
  }
}

// The same for fp32 operands in three planes (ERROR-BUDGET.md, "Planes"). It adds up what the planes
// sum to, what the five small passes add where each goes over the whole length before the next, the
// three products that are left out, and the bits that planes cannot hold.
double PlaneUnits(const Contract& c, int64_t length, bool whole_passes) {
  constexpr double kAllPlanes = 1.017, kSmallPasses = 0.04, kLeftOut = 1.02, kLost = 2.02;
  if (length == 0) return 0;
  const double units = DotUnits(c, length, /*products_exact=*/false);
  const bool small_sums = whole_passes && c.accumulate == Accumulate::kTensorCore && c.split == 1;
  return units * (small_sums ? kAllPlanes + kSmallPasses : 6 * kAllPlanes) + kLeftOut + kLost;
}

double CeilDiv(int64_t a, int64_t b) { return static_cast<double>(a / b + (a % b != 0 ? 1 : 0)); }

// The number of steps, beyond the first of each kind, that merge sums over the vocabulary one after
// another.
double MergeSteps(const Contract& c, int64_t v) {
  if (v == 0) return 0;
  const auto tiles = static_cast<int64_t>(CeilDiv(v, c.tile));
  const auto tiles_per_split = static_cast<int64_t>(CeilDiv(tiles, c.splits));
  return static_cast<double>(tiles_per_split - 1) + CeilDiv(tiles, tiles_per_split) - 1;
}

// The most times that a term of the sums over the vocabulary is scaled down.
double Rescales(const Contract& c, int64_t v) {
  if (c.rescales) return static_cast<double>(*c.rescales);
  if (c.column_rescales == 0 || v == 0) return MergeSteps(c, v);
  const double most = std::max(static_cast<double>(c.column_rescales), CeilDiv(v, c.tile));
  return std::min(static_cast<double>(v - 1), most);
}

// The error of each quotient. A floor holds whatever is declared: the budget gave these sites so many
// roundings before it charged the declared error ("Quotients").
void SetDivisions(double declared, Arithmetic* a) {
  a->division = declared;
  const double elsewhere = kPlanted == OracleDefect::kDivisionOfWeightsAlone ? 0 : declared;
  a->entropy_division = std::max(4 * kU, elsewhere);
  a->loss_division = std::max(2 * kU, elsewhere);
  a->upstream_division = std::max(kU, elsewhere);
  const double scale = kPlanted == OracleDefect::kScaleOfLogitsAlone ? 0 : a->scale_roundings;
  a->temperature_division = std::max({2 * kU, elsewhere, scale});
}

}  // namespace

double Gamma(double n, double u) {
  const double nu = n * u;
  return nu < 1 ? nu / (1 - nu) : std::numeric_limits<double>::infinity();
}

// Returns the rounding to a dtype of 16 bits; u = 0 for none.
static Rounding NarrowRounding(std::optional<DType> dtype) {
  return dtype ? RoundingOf(*dtype) : Rounding{};
}

Rounding RoundingOf(DType dtype) {
  switch (dtype) {
    case DType::kBf16:
      return {0x1p-8, 0x1p-134, 0x1.fep127};
    case DType::kF16:
      return {0x1p-11, 0x1p-25, 65504.0};
    default:
      return {0x1p-24, 0x1p-150, 0x1.fffffep127};
  }
}

// Steps that are stored in 16 bits (STORED-STEPS.md).
static void SetSteps(const Contract& c, DType input, Arithmetic* arithmetic) {
  Arithmetic& a = *arithmetic;
  a.softmax_sum = NarrowRounding(c.softmax_sum.For(input));
  a.log_probs = NarrowRounding(c.log_probs.For(input));
  if (a.log_probs.u > 0) {
    a.recompute_same_bits = true;
    a.ratio = false;
  }
  a.probabilities = NarrowRounding(c.probabilities.For(input));
  a.log_gradient = 4 * kU;
  a.log_gradient_underflow = a.result_underflow;
  if (a.probabilities.u > 0) {
    a.log_gradient = (1 + 4 * kU) * (1 + Gamma(4, a.probabilities.u)) - 1;
    a.log_gradient_underflow += a.probabilities.eta;
    a.largest_log_gradient = a.probabilities.largest;
  }
  const DType dz = c.d_logits.value_or(input);
  if (dz != DType::kF32) a.d_logits = RoundingOf(dz);
  // Such a kernel stores dx in the dtype of its logits, and dx/T once more.
  if (a.scaled_logits) a.dx = a.d_logits.u > 0 ? a.d_logits : Rounding{};
  a.filter = c.filter;
  for (const Output output : kOutputs) {
    const auto at = static_cast<size_t>(output);
    a.outputs[at] = NarrowRounding(c.outputs[at].For(input));
  }
}

int64_t Contract::StretchOf(int64_t v) const {
  if (grad_hidden_stretch == 0 || v <= grad_hidden_stretch) return v;
  if (grad_hidden_stretches == 0) return grad_hidden_stretch;
  const int64_t units = (v - 1) / grad_hidden_stretch + 1;
  const int64_t together = (units - 1) / grad_hidden_stretches + 1;
  return together < units ? together * grad_hidden_stretch : v;
}

static void SetDots(const Contract& c, DType input, const Shape& shape, Arithmetic* arithmetic) {
  Arithmetic& a = *arithmetic;
  const bool planes = c.input_planes > 1 && input == DType::kF32;
  const bool products_exact = input != DType::kF32 && c.input_rounding == 0;
  const double in = c.input_rounding;
  const double input_term = 2 * in + in * in;
  const Rounding partials = c.split > 1 ? NarrowRounding(c.partials.For(input)) : Rounding{};
  if (partials.u > 0) {
    a.partial_underflow = 2 * static_cast<double>(c.split) * partials.eta;
    a.largest_partial = partials.largest;
  }
  const auto dot = [&](int64_t length, bool exact, bool whole_passes, int64_t stretches = 1) {
    const double units = (planes ? PlaneUnits(c, length, whole_passes) : DotUnits(c, length, exact)) +
                         UnitsOfAStretch(c) * static_cast<double>(stretches - 1);
    const double sum = Gamma(units, kU) * (1 + input_term) + input_term;
    // Each partial sum is rounded, and so is the sum after each of them is added.
    return sum + (1 + sum) * Gamma(static_cast<double>(c.split), partials.u);
  };
  a.dot_logit = dot(shape.h, products_exact, true);
  const DType dz = c.d_logits.value_or(input);
  const bool dz_products_exact = dz != DType::kF32 && input != DType::kF32 && in == 0;
  const int64_t longest = c.StretchOf(shape.v);
  const int64_t stretches = shape.v > longest ? (shape.v - 1) / longest + 1 : 1;
  a.dot_grad_hidden = dot(longest, dz_products_exact, false, stretches);
  a.stretches_hidden = static_cast<double>(stretches);
  a.dot_grad_weight = dot(shape.n, dz_products_exact, true);
  a.certificate = in == 0 && partials.u == 0;
  if (planes) a.certificate_limit = 0.98 * 0x1p24;
  a.certificate_lsb = c.flush == Flush::kNone ? -149 : -126;
  // A relative rounding of the operands holds for normal ones alone: TF32 and bf16 lose bits of
  // subnormals.
  a.flush_operands = (c.flush == Flush::kOperands || in > 0) && input != DType::kF16;
}

Arithmetic TargetArithmetic(const Contract& c, DType input, const Shape& shape) {
  Arithmetic a;
  a.u = kU;
  const bool planes = c.input_planes > 1 && input == DType::kF32;
  const bool aligned = c.accumulate == Accumulate::kTensorCore || c.accumulate == Accumulate::kUnknown;
  if (aligned) a.least_operand = input == DType::kF16 ? 0x1p-14 : 0x1p-126;
  if (planes) a.least_operand = c.flush == Flush::kOperands ? 0x1p-100 : 0x1p-110;
  const double least_result = c.flush == Flush::kNone ? 0x1p-149 : 0x1p-126;
  a.eta = planes ? 0x1p5 * least_result : aligned ? 0x1p2 * least_result : least_result;
  a.exp_underflow = c.flush == Flush::kNone && c.exp_gradual ? 0x1p-147 : 0x1p-126;
  a.result_underflow = least_result;
  a.flush = c.flush != Flush::kNone;

  SetDots(c, input, shape, &a);
  a.logits = c.logits.For(input);
  a.scaled_logits = c.scaled_logits.For(input);
  a.scale_before = c.scale == Scale::kBefore || a.scaled_logits;
  a.scale_roundings = Gamma(c.scale_roundings, kU);
  a.argument_roundings = Gamma(c.argument_roundings + (a.scale_before ? 0 : c.scale_roundings), kU);
  a.exact_max = c.shift == Shift::kExactMax;
  a.shift_rounding = a.exact_max ? 0 : 1.1 * kU;
  a.exp_error = Gamma(c.exp_error, kU);
  a.log_absolute = c.log_error_absolute * kU;
  a.log_relative = c.log_error_relative * kU;
  SetDivisions(Gamma(c.division_error, kU), &a);
  const double steps = MergeSteps(c, shape.v);
  a.rescales = Rescales(c, shape.v);
  // No tree of additions over V terms is shallower than log2 V, whatever a contract says, and in none
  // does a term meet more than the V - 1 others.
  const double others = shape.v > 1 ? static_cast<double>(shape.v - 1) : 0;
  a.sum_depth = std::clamp(static_cast<double>(c.tile_depth) + steps,
                           others > 0 ? std::ceil(std::log2(others + 1)) : 0, others);
  a.label_logit_separate = c.label_logit_separate;
  a.plain_logprob = c.plain_logprob;
  a.plain_entropy = c.plain_entropy;
  a.entropy_of_probabilities = c.entropy_of_probabilities;
  a.log_softmax_backward = c.log_softmax_backward;
  a.recompute_same_bits = c.recompute_same_bits;
  a.ratio = c.probability == Probability::kRatio;
  if (input == DType::kBf16 && c.kept_argument > 0) {
    a.kept_argument = c.kept_argument * (1 + 0x1p-10);  // what is kept has roundings of its own
    a.kept_sum = 1.1 * kU;
    a.kept_underflow = 0x1.04p-25;  // half of fp16's least subnormal
    // exp(x - lse) scales the maximum of the tile and, apart from it, the distance.
    if (!a.ratio && !a.scale_before) a.kept_argument += a.scale_roundings;
  }
  if (c.log_softmax_backward) {
    a.entropy_of_probabilities = a.recompute_same_bits = true;
    a.plain_entropy = a.ratio = false;
  }
  a.d_logits_lost = c.input_rounding * 0x1p-126;
  SetSteps(c, input, &a);
  if (c.accumulator && *c.accumulator != DType::kF32) {
    a.accumulator = RoundingOf(*c.accumulator);
    a.chunks_hidden = CeilDiv(shape.v, std::max<int64_t>(c.vocab_chunk, 1));
    a.chunks_weight = CeilDiv(shape.n, std::max<int64_t>(c.row_chunk, 1));
  }
  return a;
}

ArithmeticByTemperature::ArithmeticByTemperature(const Contract& contract, DType input,
                                                 const Shape& shape)
    : any(TargetArithmetic(contract, input, shape)), power(any) {
  if (!contract.scale_exact_powers) return;
  Contract exact = contract;
  exact.scale_roundings = 0;
  power = TargetArithmetic(exact, input, shape);
  power.scale_exact = true;
}

const Arithmetic& ArithmeticByTemperature::At(double temperature) const {
  int exponent = 0;
  return std::frexp(temperature, &exponent) == 0.5 ? power : any;
}

RadiusRatios RadiusOver(const Arithmetic& t, const Shape& shape) {
  constexpr double kU64 = 0x1p-53;
  const auto over = [](double reference, double target) {
    return reference == 0 ? 0 : reference / target;
  };
  const auto length = [](int64_t n) { return static_cast<double>(n); };
  const double v = length(shape.v), exp_error = std::max(t.exp_error, 0x1p-10 * kU);
  // Each quotient is the reference's constant over the target's. Products of two inputs are exact in
  // fp64, so a dot product has H - 1 roundings. A weight that is not 0 has t < 746, so the exponent's
  // three roundings change it by at most 2238 u in relative terms.
  double ratio = 8 * kU64 / t.u;
  ratio += over(Gamma(std::max(0.0, length(shape.h) - 1), kU64), t.dot_logit);
  ratio += std::min(3 * kU64 / t.argument_roundings, 2238 * kU64 / exp_error);
  ratio += 2 * kU64 / exp_error;
  ratio += 2 * kU64 / (t.log_relative + 1.1 * t.u);
  ratio += 4 * kU64 / (t.division + 2 * t.u);
  if (shape.v > 1) ratio += over(Gamma(v, kU64), Gamma(t.sum_depth, t.u)) + Gamma(v, kU64);
  RadiusRatios r;
  // Twice the sum pays for the products of these errors and for those of evaluating the ratio.
  r.forward = 2 * ratio;
  r.grad_hidden = r.forward + 2 * Gamma(v, kU64) / (t.dot_grad_hidden + 2 * t.u);
  r.grad_weight = r.forward + 2 * Gamma(length(shape.n), kU64) / (t.dot_grad_weight + 2 * t.u);
  if constexpr (kPlanted == OracleDefect::kSmallRadius) {
    for (double* of : {&r.forward, &r.grad_hidden, &r.grad_weight}) *of *= 0x1p-12;
  }
  return r;
}

}  // namespace plumbline::oracle
