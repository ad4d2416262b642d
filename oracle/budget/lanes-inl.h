// SPDX-License-Identifier: Apache-2.0
//
// The words in which the bounds of a column are written (oracle/budget/forward_bound-inl.h,
// gradient_bound-inl.h), so that one text serves the host's vectors and a device's threads. On the host
// a number is Lanes, one column a lane, with Highway's functions for the instruction set at hand; on a
// device it is a double. Min and Max of a NaN differ between the two; no bound rests on them.
//
// On the host include it after hwy/contrib/math/math-inl.h. It is read once for each instruction set,
// as Highway's own headers are.

#if defined(PLUMBLINE_ORACLE_BUDGET_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLUMBLINE_ORACLE_BUDGET_LANES_INL_H_
#undef PLUMBLINE_ORACLE_BUDGET_LANES_INL_H_
#else
#define PLUMBLINE_ORACLE_BUDGET_LANES_INL_H_
#endif

#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include "oracle/budget/row.h"

#undef PLUMBLINE_FORMULA
#undef PLUMBLINE_FORMULAS_BEGIN
#undef PLUMBLINE_FORMULAS_END

#if defined(__CUDACC__) || defined(PLUMBLINE_FORMULAS_OF_DOUBLES)

#ifdef __CUDACC__
#define PLUMBLINE_FORMULA __device__ __forceinline__
#else  // a test of the device's text
#define PLUMBLINE_FORMULA inline
#endif
#define PLUMBLINE_FORMULAS_BEGIN namespace plumbline::oracle::cuda {
#define PLUMBLINE_FORMULAS_END }

PLUMBLINE_FORMULAS_BEGIN

PLUMBLINE_FORMULA double Fma(double a, double b, double c) { return std::fma(a, b, c); }
PLUMBLINE_FORMULA double Min(double a, double b) { return std::fmin(a, b); }
PLUMBLINE_FORMULA double Max(double a, double b) { return std::fmax(a, b); }
PLUMBLINE_FORMULA double Abs(double x) { return std::fabs(x); }
PLUMBLINE_FORMULA double Exp(double x) { return std::exp(x); }
PLUMBLINE_FORMULA double RareExp(double x) { return std::exp(x); }
PLUMBLINE_FORMULA double ExpM1(double x) { return std::expm1(x); }
PLUMBLINE_FORMULA double Log1p(double x) { return std::log1p(x); }
PLUMBLINE_FORMULA bool IsNaN(double x) { return std::isnan(x); }
PLUMBLINE_FORMULA bool All(bool truth) { return truth; }
PLUMBLINE_FORMULA double Select(bool truth, double yes, double no) { return truth ? yes : no; }
PLUMBLINE_FORMULA double ZeroUnless(bool truth, double x) { return truth ? x : 0; }

PLUMBLINE_FORMULAS_END

#else

#define PLUMBLINE_FORMULA HWY_INLINE
#define PLUMBLINE_FORMULAS_BEGIN \
  HWY_BEFORE_NAMESPACE();        \
  namespace plumbline::oracle {  \
  namespace HWY_NAMESPACE {
#define PLUMBLINE_FORMULAS_END \
  }                            \
  }                            \
  HWY_AFTER_NAMESPACE();

PLUMBLINE_FORMULAS_BEGIN
namespace hn = hwy::HWY_NAMESPACE;

using Doubles = hn::CappedTag<double, kColumnStep>;
constexpr Doubles kDoubles;
constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(Doubles()));

struct Truth {
  hn::Mask<Doubles> mask;
};
struct Lanes {
  Lanes() = default;
  HWY_INLINE Lanes(hn::Vec<Doubles> x) : vector(x) {}
  HWY_INLINE Lanes(double x) : vector(hn::Set(kDoubles, x)) {}
  hn::Vec<Doubles> vector;
};

PLUMBLINE_FORMULA Lanes operator+(Lanes a, Lanes b) { return hn::Add(a.vector, b.vector); }
PLUMBLINE_FORMULA Lanes operator-(Lanes a, Lanes b) { return hn::Sub(a.vector, b.vector); }
PLUMBLINE_FORMULA Lanes operator*(Lanes a, Lanes b) { return hn::Mul(a.vector, b.vector); }
PLUMBLINE_FORMULA Lanes operator-(Lanes x) { return hn::Neg(x.vector); }
PLUMBLINE_FORMULA Truth operator<(Lanes a, Lanes b) { return {hn::Lt(a.vector, b.vector)}; }
PLUMBLINE_FORMULA Truth operator<=(Lanes a, Lanes b) { return {hn::Le(a.vector, b.vector)}; }
PLUMBLINE_FORMULA Truth operator>(Lanes a, Lanes b) { return {hn::Gt(a.vector, b.vector)}; }
PLUMBLINE_FORMULA Truth operator>=(Lanes a, Lanes b) { return {hn::Ge(a.vector, b.vector)}; }
PLUMBLINE_FORMULA Truth operator==(Lanes a, Lanes b) { return {hn::Eq(a.vector, b.vector)}; }
PLUMBLINE_FORMULA Truth operator&(Truth a, Truth b) { return {hn::And(a.mask, b.mask)}; }
PLUMBLINE_FORMULA Truth operator|(Truth a, Truth b) { return {hn::Or(a.mask, b.mask)}; }
PLUMBLINE_FORMULA Truth operator!(Truth a) { return {hn::Not(a.mask)}; }

// a b + c, rounded once where the instruction set can.
PLUMBLINE_FORMULA Lanes Fma(Lanes a, Lanes b, Lanes c) {
  return hn::MulAdd(a.vector, b.vector, c.vector);
}
PLUMBLINE_FORMULA Lanes Min(Lanes a, Lanes b) { return hn::Min(a.vector, b.vector); }
PLUMBLINE_FORMULA Lanes Max(Lanes a, Lanes b) { return hn::Max(a.vector, b.vector); }
PLUMBLINE_FORMULA Lanes Abs(Lanes x) { return hn::Abs(x.vector); }
PLUMBLINE_FORMULA Lanes Exp(Lanes x) { return hn::Exp(kDoubles, x.vector); }
// These three are not inlined: they stand where few columns come.
PLUMBLINE_FORMULA Lanes RareExp(Lanes x) { return hn::CallExp(kDoubles, x.vector); }
PLUMBLINE_FORMULA Lanes ExpM1(Lanes x) { return hn::CallExpm1(kDoubles, x.vector); }
PLUMBLINE_FORMULA Lanes Log1p(Lanes x) { return hn::CallLog1p(kDoubles, x.vector); }
PLUMBLINE_FORMULA Truth IsNaN(Lanes x) { return {hn::IsNaN(x.vector)}; }
PLUMBLINE_FORMULA bool All(Truth truth) { return hn::AllTrue(kDoubles, truth.mask); }
PLUMBLINE_FORMULA Lanes Select(Truth truth, Lanes yes, Lanes no) {
  return hn::IfThenElse(truth.mask, yes.vector, no.vector);
}
PLUMBLINE_FORMULA Lanes ZeroUnless(Truth truth, Lanes x) {
  return hn::IfThenElseZero(truth.mask, x.vector);
}

// The host alone has these words.
PLUMBLINE_FORMULA Lanes Load(const double* from) { return hn::LoadU(kDoubles, from); }
PLUMBLINE_FORMULA void Store(Lanes x, double* to) { hn::StoreU(x.vector, kDoubles, to); }
PLUMBLINE_FORMULA Lanes CountFrom(double first) { return hn::Iota(kDoubles, first); }
PLUMBLINE_FORMULA bool Any(Truth truth) { return !hn::AllFalse(kDoubles, truth.mask); }
PLUMBLINE_FORMULA double Sum(Lanes x) { return hn::GetLane(hn::SumOfLanes(kDoubles, x.vector)); }
PLUMBLINE_FORMULA double Least(Lanes x) { return hn::GetLane(hn::MinOfLanes(kDoubles, x.vector)); }
PLUMBLINE_FORMULA double Largest(Lanes x) { return hn::GetLane(hn::MaxOfLanes(kDoubles, x.vector)); }

PLUMBLINE_FORMULAS_END

#endif

PLUMBLINE_FORMULAS_BEGIN

// The result of comparing two numbers: Truth or bool.
template <class Number>
using TruthOf = decltype(std::declval<Number>() < std::declval<Number>());

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr double kLargestFloat = std::numeric_limits<float>::max();

PLUMBLINE_FORMULAS_END

#endif  // PLUMBLINE_ORACLE_BUDGET_LANES_INL_H_
