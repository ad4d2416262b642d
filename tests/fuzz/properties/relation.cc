// SPDX-License-Identifier: Apache-2.0

#include "tests/fuzz/properties/relation.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "fuzz/base/text.h"
#include "oracle/judge/judge.h"
#include "oracle/verdict/verdict.h"

namespace plumbline::fuzz::testing {
Measured::Measured(const OwnedProblem& asked, const Subject& subject, int poison)
    : target_(*subject.target),
      placement_(WithoutWhatItLacks(target_.description().capabilities, asked)),
      hidden_size_(asked.hidden_size()) {
  const OwnedProblem problem = WithoutWhatItLacks(target_.description().capabilities, asked);
  if (WhySkipped(target_.description(), problem)) return;
  placement_.Poison(poison);
  ok_ = target_.Run(placement_.problem(), placement_.results()).status == RunStatus::kOk;
  if (ok_ && subject.tamper) subject.tamper(placement_.problem(), placement_.results());
  damage_ = placement_.Inspect();
  if (ok_) bits_ = CopyBits(placement_.results());
}

const ElementBits& Measured::bits(Output output) const {
  return bits_.outputs[static_cast<size_t>(output)];
}

double Measured::value(Output output, size_t element) const {
  const auto i = static_cast<int64_t>(element);
  const bool matrix = output == Output::kGradHidden || output == Output::kGradWeight;
  const auto tensor = kernel::AsConst(*oracle::Find(placement_.results(), output));
  return matrix ? oracle::ReadElement(tensor, i / hidden_size_, i % hidden_size_)
                : oracle::ReadElement(tensor, i, 0);
}

Measured::Term Measured::term(Output output, size_t element) const {
  if (!expected_) {
    expected_ =
        oracle::Expected(placement_.problem(), placement_.results(), target_.description().contract);
  }
  const oracle::Element& e = (*expected_)[output].elements[element];
  const bool judged = e.expect == oracle::Expect::kFinite || e.expect == oracle::Expect::kPlusZero ||
                      e.expect == oracle::Expect::kEmptyMean || e.expect == oracle::Expect::kIgnored;
  return {judged, value(output, element), e.bound};
}

void Comparison::Break(Output output, size_t element, const std::string& what) {
  if (checked_.broken) return;
  Finding f;
  f.kind = FindingKind::kBound;
  f.output = oracle::Name(output);
  f.row = static_cast<int64_t>(element);
  f.what = f.output + Text(", element %zu: ", element) + what + ": " + relation_;
  checked_.broken = std::move(f);
}

void Comparison::Same(Output output, const Measured& a, size_t i, const Measured& b, size_t j) {
  ++checked_.compared;
  const uint64_t before = a.bits(output)[i], after = b.bits(output)[j];
  if (before == after || (std::isnan(a.value(output, i)) && std::isnan(b.value(output, j)))) return;
  Break(output, i,
        Text("bits %llx, and %llx", static_cast<unsigned long long>(before),
             static_cast<unsigned long long>(after)));
}

void Comparison::AllSame(Output output, const Measured& a, const Measured& b) {
  if (a.size(output) != b.size(output)) return;
  for (size_t i = 0; i < a.size(output); ++i) Same(output, a, i, b, i);
}

void Comparison::Scaled(Output output, const Measured& a, size_t i, const Measured& b, size_t j,
                        int exponent, bool negated) {
  const double before = a.value(output, i), after = b.value(output, j);
  // 2^-14 is the smallest normal number of fp16, and may be a rounded subnormal one; the others go
  // further in both directions.
  constexpr double kSmallest = 0x1p-14, kLargest = 0x1p15;
  const double required = std::ldexp(negated ? -before : before, exponent);
  const auto within = [&](double x) {
    return x == 0 || (std::fabs(x) > kSmallest && std::fabs(x) <= kLargest);
  };
  if (!within(before) || !within(required)) return;
  // A zero may be the rounded form of a number that is subnormal in one of the two scales.
  if (before == 0 && std::fabs(after) <= kSmallest) return;
  Near(output, i, after, required, 0);
}

void Comparison::Near(Output output, size_t i, double got, double required, double allowed) {
  ++checked_.compared;
  if (std::fabs(got - required) <= allowed) return;
  Break(output, i, Text("%.9g where %.9g +- %.3g is required", got, required, allowed));
}

void Comparison::Near(Output output, size_t i, const Measured::Term& a, double shift,
                      const Measured::Term& b) {
  if (!a.judged || !b.judged) return;
  const double rounding = 0x1p-50 * (std::fabs(a.value) + std::fabs(shift) + std::fabs(b.value));
  Near(output, i, b.value, a.value + shift, a.bound + b.bound + rounding);
}

void Comparison::Hold(Output output, size_t i, bool holds, const std::string& what) {
  ++checked_.compared;
  if (!holds) Break(output, i, what);
}

OwnedProblem Plain(OwnedProblem p) {
  if (p.layout.grad_stride == 0) {
    for (auto* grad : {&p.grad_logprob, &p.grad_entropy}) {
      if (!*grad || (*grad)->shape.empty()) continue;
      for (int64_t i = 1; i < (*grad)->size(); ++i) (*grad)->SetBits(i, (*grad)->GetBits(0));
    }
  }
  p.layout.grad_stride = 1;
  for (int64_t i = 0; i < p.rows(); ++i) {
    if (Ignored(p, i)) p.labels.SetInt(i, -100);
  }
  p.ignore_index = -100;
  return p;
}

bool Ignored(const OwnedProblem& p, int64_t row) { return p.labels.GetInt(row) == p.ignore_index; }

bool Counts(const OwnedProblem& p, int64_t row) {
  const int64_t label = p.labels.GetInt(row);
  return !Ignored(p, row) && label >= 0 && label < p.vocab();
}

bool AllFinite(const HostTensor& tensor) {
  for (int64_t i = 0; i < tensor.size(); ++i) {
    if (!std::isfinite(tensor.GetFloat(i))) return false;
  }
  return true;
}

double TemperatureOf(const OwnedProblem& p, int64_t row) {
  if (!p.temperature) return 1;
  return p.temperature->GetFloat(p.temperature->shape.empty() ? 0 : row);
}

HostTensor WithColumn(const HostTensor& t, float value) {
  const int64_t rows = t.shape[0], columns = t.shape[1];
  HostTensor wide = HostTensor::Zeros(t.dtype, {rows, columns + 1});
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t d = 0; d < columns; ++d) {
      wide.SetBits(i * (columns + 1) + d, t.GetBits(i * columns + d));
    }
    wide.SetFloat(i * (columns + 1) + columns, value);
  }
  return wide;
}

HostTensor WithRow(const HostTensor& t, const std::vector<float>& row) {
  HostTensor tall = HostTensor::Zeros(t.dtype, {t.shape[0] + 1, t.shape[1]});
  std::copy(t.bytes.begin(), t.bytes.end(), tall.bytes.begin());
  for (size_t d = 0; d < row.size(); ++d) tall.SetFloat(t.size() + static_cast<int64_t>(d), row[d]);
  return tall;
}

HostTensor SelectRowsOf(const HostTensor& t, const std::vector<int64_t>& rows) {
  HostTensor selected = HostTensor::Zeros(t.dtype, {static_cast<int64_t>(rows.size()), t.shape[1]});
  int64_t at = 0;
  for (const int64_t row : rows) {
    for (int64_t d = 0; d < t.shape[1]; ++d) selected.SetBits(at++, t.GetBits(row * t.shape[1] + d));
  }
  return selected;
}

bool ScaleBy(HostTensor* t, int exponent) {
  const bool half = t->dtype == kernel::DType::kF16;
  const float smallest = half ? 0x1p-14F : 0x1p-126F, largest = half ? 0x1p15F : 0x1p127F;
  for (int64_t i = 0; i < t->size(); ++i) {
    const float before = t->GetFloat(i), after = std::ldexp(before, exponent);
    if (before == 0) continue;
    if (!(std::fabs(before) >= smallest && std::fabs(after) >= smallest && std::fabs(after) <= largest))
      return false;
    t->SetFloat(i, after);
  }
  return true;
}

void Negate(std::optional<HostTensor>* t) {
  if (!*t) return;
  const uint64_t sign = (*t)->dtype == kernel::DType::kF32 ? 0x80000000u : 0x8000u;
  for (int64_t i = 0; i < (*t)->size(); ++i) (*t)->SetBits(i, (*t)->GetBits(i) ^ sign);
}

double Logits::Error(size_t column, int64_t hidden_size) const {
  return static_cast<double>(hidden_size + 2) * 0x1p-53 * magnitude[column];
}

Logits LogitsOf(const OwnedProblem& p, int64_t row) {
  Logits logits;
  const int64_t h = p.hidden_size();
  const double t = TemperatureOf(p, row);
  for (int64_t v = 0; v < p.vocab(); ++v) {
    double sum = 0, magnitude = 0;
    for (int64_t d = 0; d < h; ++d) {
      // The product of two fp32 numbers is exact in fp64.
      const double product = double{p.hidden.GetFloat(row * h + d)} * p.weight.GetFloat(v * h + d);
      sum += product;
      magnitude += std::fabs(product);
    }
    logits.x.push_back(sum / t);
    logits.magnitude.push_back(magnitude / t);
  }
  return logits;
}

std::optional<OwnedProblem> Tamed(const OwnedProblem& given) {
  // p >= 2^-29 / V, with V <= 2^10. d_logits are differences of fp32 numbers no smaller than 2^-12 p /
  // T, so 0 or at least 2^-24 of that: 2^-79. Times 2^-12 and 2^-8 that is above 2^-126.
  constexpr float kLargest = 0x1p12F;
  constexpr double kRange = 20;
  OwnedProblem p = Plain(given);
  if (p.vocab() < 1 || p.vocab() > 1024) return std::nullopt;
  const auto clear = [](HostTensor* t) {
    for (int64_t i = 0; i < t->size(); ++i) {
      const float x = std::fabs(t->GetFloat(i));
      if (!(x >= 1 / kLargest && x <= kLargest)) t->SetFloat(i, 0);
    }
  };
  clear(&p.hidden);
  clear(&p.weight);
  if (p.grad_logprob) clear(&*p.grad_logprob);
  if (p.grad_entropy) clear(&*p.grad_entropy);
  p.temperature.reset();
  double widest = 0;
  for (int64_t i = 0; i < p.rows(); ++i) {
    if (Ignored(p, i)) continue;
    if (!Counts(p, i)) return std::nullopt;
    const Logits logits = LogitsOf(p, i);
    const auto [low, high] = std::minmax_element(logits.x.begin(), logits.x.end());
    widest = std::max(widest, *high - *low);
  }
  float temperature = 0.5F;
  while (widest / temperature >= kRange && temperature < 32) temperature *= 2;
  if (temperature > 16) return std::nullopt;
  p.temperature = HostTensor::Zeros(kernel::DType::kF32, {});
  p.temperature->SetFloat(0, temperature);
  return p;
}

float* Floats(const std::optional<kernel::Tensor>& t) {
  const bool fp32 = t && t->dtype == kernel::DType::kF32 && t->size() > 0;
  return fp32 ? static_cast<float*>(t->data) : nullptr;
}

void Nudge(const std::optional<kernel::Tensor>& t, int64_t i) {
  float* data = Floats(t);
  if (data == nullptr || i >= t->shape[0]) return;
  float& x = data[i * t->stride[0]];
  x = std::nextafter(x, std::numeric_limits<float>::infinity());
}

}  // namespace plumbline::fuzz::testing
