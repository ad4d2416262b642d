// SPDX-License-Identifier: Apache-2.0

#include "fuzz/triage/shrink/order.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <string_view>

#include "fuzz/problem/values.h"

namespace plumbline::fuzz {
namespace {

using kernel::DType;

constexpr uint32_t kSubnormal = 400, kInfinity = 5000, kNaN = 6000;

int64_t Departure(int64_t value) { return std::clamp<int64_t>(value, 0, 2); }

int64_t LayoutScore(const Layout& layout) {
  int64_t score = layout.weight_hidden_major ? 1 : 0;
  score += Departure(layout.hidden_padding) + Departure(layout.weight_padding);
  score += Departure(layout.label_offset) + Departure(layout.offset);
  score += (layout.reversed ? 1 : 0) + (layout.hidden_broadcast ? 2 : 0);
  score += layout.temperature_stride == 1 ? 0 : 1;
  score += layout.output_stride == 1 ? 0 : 1;
  score += (layout.gradient_step == 1 ? 0 : 1) + (layout.single_stride == 1 ? 0 : 1);
  score += layout.label_stride == 1 ? 0 : layout.label_stride == 0 ? 2 : 1;
  // A broadcast is rarer than a stride, so it costs more.
  return score + (layout.grad_stride == 1 ? 0 : layout.grad_stride == 0 ? 2 : 1);
}

int64_t DTypeScore(DType dtype) { return dtype == DType::kBf16 ? 0 : dtype == DType::kF16 ? 1 : 2; }

// std::bit_width returns the type of its argument in some standard libraries, int in others.
int Width(uint32_t bits) { return static_cast<int>(std::bit_width(bits)); }

}  // namespace

uint32_t FloatRank(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7fff'ffff, sign = bits >> 31;
  if (magnitude == 0) return sign == 0 ? 0 : 3;
  if (magnitude > 0x7f80'0000) return kNaN;
  if (magnitude == 0x7f80'0000) return kInfinity + sign;
  const int significant = SignificantBits(value);
  const int leading =
      magnitude < 0x0080'0000 ? Width(magnitude) - 150 : static_cast<int>(magnitude >> 23) - 127;
  uint32_t cost = 3 * static_cast<uint32_t>(significant - 1) + static_cast<uint32_t>(std::abs(leading));
  // leading - significant + 1 is the exponent of the last significant bit.
  if (leading - significant + 1 < 0) cost += 4;
  if (magnitude < 0x0080'0000) cost += kSubnormal;
  return 1 + 2 * cost + sign;
}

uint64_t LabelRank(int64_t label, int64_t ignore_index) {
  if (label == ignore_index) return 1;
  if (label == 0) return 0;
  constexpr int64_t kCap = int64_t{1} << 40;
  if (label < 0) return static_cast<uint64_t>(kCap + std::min(kCap, -(label + 1)));
  return static_cast<uint64_t>(1 + std::min(kCap, label));
}

int64_t OptionsScore(const OwnedProblem& p) {
  int64_t score = LayoutScore(p.layout) + DTypeScore(p.hidden.dtype);
  score += static_cast<int64_t>(p.reduction);
  if (p.temperature) score += p.temperature->shape.empty() ? 1 : 2;
  for (const bool present :
       {p.grad_logprob.has_value(), p.grad_entropy.has_value(), p.wanted.entropy, p.wanted.lse,
        p.wanted.grad_hidden, p.wanted.grad_weight, p.wanted.fp32_grads, p.labels.dtype == DType::kI32,
        p.ignore_index != -100}) {
    score += present ? 1 : 0;
  }
  return score;
}

int64_t Cost(const OwnedProblem& p) { return ValueCount(p) + kValuesPerOption * OptionsScore(p); }

uint64_t RankSum(const OwnedProblem& p) {
  uint64_t sum = 0;
  ForEachTensor(p, [&](std::string_view, const HostTensor* tensor) {
    for (int64_t i = 0, n = tensor != nullptr ? tensor->size() : 0; i < n; ++i) {
      sum += kernel::IsFloat(tensor->dtype) ? FloatRank(tensor->GetFloat(i))
                                            : LabelRank(tensor->GetInt(i), p.ignore_index);
    }
  });
  return sum;
}

}  // namespace plumbline::fuzz
