// SPDX-License-Identifier: Apache-2.0

#include "oracle/arbiter.h"

#include <algorithm>
#include <bit>
#include <boost/multiprecision/cpp_bin_float.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <unordered_map>
#include <vector>

namespace plumbline::oracle {
namespace {

using kernel::ConstTensor;
using kernel::DType;
using kernel::Problem;
using kernel::Reduction;
using Class = ArbiterValue::Class;

// 1280 bits are needed because the definitions are evaluated as they stand, 1 - p_y and -sum p ln p
// included. Those cancel down to e^-745 = 2^-1075, the least weight that an fp64 reference can tell
// from zero. Logits that share an offset of 2^126 take another 126 bits, and the result takes the rest.
// Every sum of products of two fp32 numbers fits as well (2^-298 to 2^256 and the carries), so logits
// are exact before the temperature.
using Real = boost::multiprecision::number<
    boost::multiprecision::cpp_bin_float<1280, boost::multiprecision::digit_base_2>,
    boost::multiprecision::et_off>;

// e^-t for t >= 0, to 2^-250 relative. More digits would show nowhere: what cancels later are sums of
// these very weights, and they are formed with all bits. The method is Taylor's series at t / 2^32,
// where 12 terms leave 2^-292, and 32 squarings, which multiply that by 2^32. Measured against Boost's
// exp: 2^-260; Boost takes ten times as long at this width. Beyond t = 4096 the weight is under
// 2^-5909, and is 0 here.
Real Weight(const Real& t) {
  constexpr int kHalvings = 32;
  if (t > 4096) return 0;
  const Real step = -ldexp(t, -kHalvings);
  Real e = 1;
  for (unsigned n = 12; n > 0; --n) e = 1 + e * step / n;
  for (int i = 0; i < kHalvings; ++i) e *= e;
  return e;
}

// The number of `digits` binary digits, its last no less than 2^least, that is nearest to x; of two the
// one whose last digit is even.
Real Nearest(const Real& x, int digits, int least) {
  if (x == 0) return x;
  int exponent = 0;
  frexp(x, &exponent);
  const int last = std::max(exponent - digits, least);
  const Real units = ldexp(x, -last);
  Real whole = floor(units);
  const Real rest = units - whole;
  const bool odd = whole - 2 * floor(ldexp(whole, -1)) != 0;
  if (rest > 0.5 || (rest == 0.5 && odd)) whole += 1;
  return ldexp(whole, last);
}

// The units of Arbiter::Cost, 0.2 us each. In this order: a product of two inputs added to a logit, a
// weight with all that depends on it, a d_logit times an input, and a row's logarithm.
constexpr double kProductCost = 1.5;
constexpr double kWeightCost = 200;
constexpr double kWideProductCost = 5;
constexpr double kRowCost = 2000;

// Element (i, j) of a tensor of elements of T.
template <class T>
T At(const ConstTensor& tensor, int64_t i, int64_t j) {
  int64_t elements = 0;
  if (tensor.rank >= 1) elements += i * tensor.stride[0];
  if (tensor.rank >= 2) elements += j * tensor.stride[1];
  T value;
  std::memcpy(&value, static_cast<const char*>(tensor.data) + elements * int64_t{sizeof value},
              sizeof value);
  return value;
}

// The double that a binary32 pattern encodes. It is assembled in integers alone, because a target may
// leave the processor reading subnormals as zero.
double FromBinary32(uint32_t bits) {
  const uint64_t sign = uint64_t{bits >> 31} << 63;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude >= 0x7f800000u) {
    return std::bit_cast<double>(sign | 0x7ff0000000000000u | uint64_t{magnitude & 0x7fffffu} << 29);
  }
  if (magnitude < 0x00800000u) {
    const double value = std::ldexp(static_cast<double>(magnitude), -149);
    return sign != 0 ? -value : value;
  }
  return std::bit_cast<double>(sign | ((uint64_t{magnitude} << 29) + (uint64_t{1023 - 127} << 52)));
}

double FromBinary16(uint32_t bits) {
  const uint32_t exponent = (bits >> 10) & 31u, fraction = bits & 1023u;
  double value;
  if (exponent == 31) {
    value = fraction == 0 ? std::numeric_limits<double>::infinity()
                          : std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    value = fraction * 0x1p-24;
  } else {
    value = std::ldexp(1 + fraction * 0x1p-10, static_cast<int>(exponent) - 15);
  }
  return (bits >> 15) != 0 ? -value : value;
}

double FloatAt(const ConstTensor& tensor, int64_t i, int64_t j) {
  if (tensor.dtype == DType::kF32) return FromBinary32(At<uint32_t>(tensor, i, j));
  const uint32_t bits = At<uint16_t>(tensor, i, j);
  return tensor.dtype == DType::kBf16 ? FromBinary32(bits << 16) : FromBinary16(bits);
}

double FloatOr(const std::optional<ConstTensor>& tensor, int64_t i, double absent) {
  return tensor ? FloatAt(*tensor, i, 0) : absent;
}

int64_t IntegerAt(const ConstTensor& tensor, int64_t i) {
  return tensor.dtype == DType::kI64 ? At<int64_t>(tensor, i, 0) : At<int32_t>(tensor, i, 0);
}

// A number of the extended reals, or NaN.
struct Extended {
  Class kind = Class::kFinite;
  Real value = 0;
};

// A sum over the extended reals. Infinities of both signs make a NaN, and so does any NaN.
class Sum {
 public:
  void Add(const Real& value) { value_ += value; }
  void AddNaN() { nan_ = true; }
  void AddInfinity(bool negative) { (negative ? minus_ : plus_) = true; }
  // a * b, with 0 * infinity a NaN.
  void AddProduct(double a, double b) {
    // Exact: two significands of 24 bits, exponents far inside fp64.
    if (std::isfinite(a) && std::isfinite(b)) return Add(a * b);
    const double product = a * b;
    if (std::isnan(product)) return AddNaN();
    AddInfinity(product < 0);
  }
  void AddProduct(const Real& a, double b) {
    if (std::isfinite(b)) return Add(a * b);
    if (std::isnan(b) || a == 0) return AddNaN();
    AddInfinity((a < 0) != (b < 0));
  }
  Extended Result() const {
    if (nan_ || (plus_ && minus_)) return {Class::kNaN, 0};
    if (plus_) return {Class::kPlusInf, 0};
    if (minus_) return {Class::kMinusInf, 0};
    return {Class::kFinite, value_};
  }

 private:
  Real value_ = 0;
  bool nan_ = false, plus_ = false, minus_ = false;
};

Extended Stored(const Extended& x, const std::optional<DType>& dtype) {
  if (!dtype || x.kind != Class::kFinite) return x;
  const bool half = *dtype == DType::kF16, single = *dtype == DType::kF32;
  const Real value = Nearest(x.value, half ? 11 : single ? 24 : 8, half ? -24 : single ? -149 : -133);
  if (abs(value) < (half ? Real(65536) : ldexp(Real(1), 128))) return {Class::kFinite, value};
  return {value > 0 ? Class::kPlusInf : Class::kMinusInf, 0};
}

double Upstream(double x, const std::optional<DType>& dtype) {
  if (!dtype || !std::isfinite(x)) return x;
  const Extended rounded = Stored({Class::kFinite, x}, dtype);
  if (rounded.kind == Class::kFinite) return static_cast<double>(rounded.value);
  return std::copysign(std::numeric_limits<double>::infinity(), x);
}

ArbiterValue Report(const Extended& x) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (x.kind == Class::kNaN) return {x.kind, std::numeric_limits<double>::quiet_NaN(), 0, "nan"};
  if (x.kind == Class::kPlusInf) return {x.kind, kInfinity, 0, "inf"};
  if (x.kind == Class::kMinusInf) return {x.kind, -kInfinity, 0, "-inf"};
  const auto high = static_cast<double>(x.value);
  return {x.kind, high, std::isfinite(high) ? static_cast<double>(Real(x.value - high)) : 0,
          x.value == 0 ? "0" : x.value.str(39, std::ios_base::scientific)};
}

enum class RowKind : uint8_t { kOrdinary, kIgnored, kInvalid };

struct Row {
  bool nan = false;  // true: nothing else is set
  Real lse, entropy;
  Extended logprob;
  bool gradient_nan = false;
  std::vector<Real> d_logits;  // [V] d objective / d z; empty where backward leaves the row out
};

}  // namespace

struct Arbiter::State {
  Problem problem;
  RoundedSteps steps;
  int64_t counted = 0;  // rows that are not ignored
  std::unordered_map<int64_t, Row> rows;

  double Temperature(int64_t i) const { return FloatOr(problem.temperature, i, 1); }
  double UpstreamLogprob(int64_t i) const {
    return Upstream(FloatOr(problem.grad_logprob, i, 0), steps.upstream_logprob);
  }
  double UpstreamEntropy(int64_t i) const {
    return Upstream(FloatOr(problem.grad_entropy, i, 0), steps.upstream_entropy);
  }
  bool LeftOut(int64_t i) const { return UpstreamLogprob(i) == 0 && UpstreamEntropy(i) == 0; }

  RowKind Kind(int64_t i) const {
    const int64_t label = IntegerAt(problem.labels, i);
    if (label == problem.ignore_index) return RowKind::kIgnored;
    if (label < 0 || label >= problem.vocab()) return RowKind::kInvalid;
    const double t = Temperature(i);
    return t > 0 && std::isfinite(t) ? RowKind::kOrdinary : RowKind::kInvalid;
  }

  const Row& Solved(int64_t i) {
    const auto found = rows.find(i);
    return found != rows.end() ? found->second : rows.emplace(i, Solve(i)).first->second;
  }

  Row Solve(int64_t i) const {
    const int64_t vocab = problem.vocab(), size = problem.hidden_size();
    Row row;

    // x_v = z_v / T. The largest of them only keeps the exponentials in range.
    std::vector<Extended> x;
    const Real temperature = Temperature(i);
    const Real* largest = nullptr;
    x.reserve(static_cast<size_t>(vocab));
    for (int64_t v = 0; v < vocab; ++v) {
      Sum z;
      for (int64_t d = 0; d < size; ++d) {
        z.AddProduct(FloatAt(problem.hidden, i, d), FloatAt(problem.weight, v, d));
      }
      x.push_back(Stored(z.Result(), steps.logits));
      Extended& last = x.back();
      if (last.kind == Class::kFinite) last.value /= temperature;
      last = Stored(last, steps.scaled_logits);
      if (last.kind == Class::kFinite && (largest == nullptr || last.value > *largest)) {
        largest = &last.value;
      }
      row.nan = row.nan || last.kind == Class::kNaN || last.kind == Class::kPlusInf;
    }
    row.nan = row.nan || largest == nullptr;
    if (row.nan) return row;

    // lse = ln sum e^x, p_v = e^(x_v - lse), logprob = x_y - lse, entropy = -sum p ln p.
    std::vector<Real> p;
    p.reserve(x.size());
    Real s = 0;
    for (const Extended& logit : x) {
      p.push_back(logit.kind == Class::kFinite ? Weight(*largest - logit.value) : Real(0));
      s += p.back();
    }
    row.lse = *largest + log(s);
    for (size_t v = 0; v < x.size(); ++v) {
      p[v] /= s;
      if (p[v] != 0) row.entropy -= p[v] * (x[v].value - row.lse);
    }
    row.logprob = x[static_cast<size_t>(IntegerAt(problem.labels, i))];
    if (row.logprob.kind == Class::kFinite) row.logprob.value -= row.lse;
    if (!LeftOut(i)) Differentiate(i, x, p, &row);
    return row;
  }

  // dz_v = (g ([v = y] - p_v) - k p_v (ln p_v + H)) / T, and p ln p = 0 at p = 0, as at a logit of
  // -inf.
  void Differentiate(int64_t i, const std::vector<Extended>& x, const std::vector<Real>& p,
                     Row* row) const {
    const double upstream = UpstreamLogprob(i), k = UpstreamEntropy(i);
    if (!std::isfinite(upstream) || !std::isfinite(k)) {
      row->gradient_nan = true;
      return;
    }
    Real g = upstream;
    if (problem.reduction != Reduction::kNone) g = -g;
    if (problem.reduction == Reduction::kMean) g /= counted;
    const auto label = static_cast<size_t>(IntegerAt(problem.labels, i));
    const Real temperature = Temperature(i);
    row->d_logits.reserve(x.size());
    for (size_t v = 0; v < x.size(); ++v) {
      Real dx = g * ((v == label ? 1 : 0) - p[v]);
      if (p[v] != 0) dx -= k * p[v] * (x[v].value - row->lse + row->entropy);
      row->d_logits.push_back(dx / temperature);
    }
  }

  Extended Forward(Output output, int64_t i) {
    const RowKind kind = Kind(i);
    if (kind == RowKind::kIgnored) return {};
    if (kind == RowKind::kInvalid) return {Class::kNaN, 0};
    const Row& row = Solved(i);
    if (row.nan) return {Class::kNaN, 0};
    if (output == Output::kLogprob) return row.logprob;
    return {Class::kFinite, output == Output::kEntropy ? row.entropy : row.lse};
  }

  Extended Loss() {
    Sum sum;
    for (int64_t i = 0; i < problem.rows(); ++i) {
      const Extended logprob = Forward(Output::kLogprob, i);
      if (logprob.kind == Class::kFinite) {
        sum.Add(-logprob.value);
      } else if (logprob.kind == Class::kMinusInf) {
        sum.AddInfinity(false);
      } else {
        sum.AddNaN();
      }
    }
    Extended loss = sum.Result();
    if (problem.reduction == Reduction::kMean && counted > 0) loss.value /= counted;
    return loss;
  }

  Extended GradHidden(int64_t i, int64_t d) {
    const RowKind kind = Kind(i);
    if (kind == RowKind::kInvalid) return {Class::kNaN, 0};
    if (kind == RowKind::kIgnored || LeftOut(i)) return {};
    const Row& row = Solved(i);
    if (row.nan || row.gradient_nan) return {Class::kNaN, 0};
    Sum sum;
    for (int64_t v = 0; v < problem.vocab(); ++v) {
      sum.AddProduct(row.d_logits[static_cast<size_t>(v)], FloatAt(problem.weight, v, d));
    }
    return sum.Result();
  }

  Extended GradWeight(int64_t v, int64_t d) {
    Sum sum;
    for (int64_t i = 0; i < problem.rows(); ++i) {
      const RowKind kind = Kind(i);
      if (kind == RowKind::kInvalid) return {Class::kNaN, 0};
      if (kind == RowKind::kIgnored || LeftOut(i)) continue;
      const Row& row = Solved(i);
      if (row.nan || row.gradient_nan) return {Class::kNaN, 0};
      sum.AddProduct(row.d_logits[static_cast<size_t>(v)], FloatAt(problem.hidden, i, d));
    }
    return sum.Result();
  }
};

Arbiter::Arbiter(const Problem& problem, const RoundedSteps& steps)
    : state_(std::make_unique<State>()) {
  state_->problem = problem;
  state_->steps = steps;
  for (int64_t i = 0; i < problem.rows(); ++i) {
    state_->counted += state_->Kind(i) != RowKind::kIgnored;
  }
}

Arbiter::~Arbiter() = default;

ArbiterValue Arbiter::Evaluate(Output output, int64_t row, int64_t column) {
  if (output == Output::kLoss) return Report(state_->Loss());
  if (output == Output::kGradHidden) return Report(state_->GradHidden(row, column));
  if (output == Output::kGradWeight) return Report(state_->GradWeight(row, column));
  return Report(state_->Forward(output, row));
}

double Arbiter::Cost(Output output, int64_t row, int64_t) const {
  const Problem& problem = state_->problem;
  const auto vocab = static_cast<double>(problem.vocab());
  const double a_row =
      kRowCost + vocab * (kWeightCost + kProductCost * static_cast<double>(problem.hidden_size()));
  const bool all_rows = output == Output::kLoss || output == Output::kGradWeight;
  const bool gradient = output == Output::kGradHidden || output == Output::kGradWeight;
  double cost = 1;
  for (int64_t i = all_rows ? 0 : row; i < (all_rows ? problem.rows() : row + 1); ++i) {
    if (state_->Kind(i) != RowKind::kOrdinary || (gradient && state_->LeftOut(i))) continue;
    if (!state_->rows.contains(i)) cost += a_row;
    if (output == Output::kGradHidden) cost += vocab * kWideProductCost;
    if (output == Output::kGradWeight) cost += kWideProductCost;
  }
  return cost;
}

}  // namespace plumbline::oracle
