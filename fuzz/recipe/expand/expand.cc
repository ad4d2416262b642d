// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "fuzz/base/philox.h"
#include "fuzz/problem/owned_problem.h"
#include "fuzz/recipe/expand/argmax.h"
#include "fuzz/recipe/expand/expand.h"
#include "fuzz/recipe/expand/sequences.h"
#include "fuzz/recipe/expand/upstream.h"
#include "fuzz/recipe/expand/values.h"
#include "fuzz/recipe/recipe.h"

namespace plumbline::fuzz {

namespace {

using kernel::DType;
using kernel::Reduction;

constexpr int64_t kUsualIgnoreIndex = -100;

bool Ignores(Labels labels) {
  return labels == Labels::kSomeIgnored || labels == Labels::kAllIgnored ||
         labels == Labels::kIgnoredNaN || labels == Labels::kOneValid || IsSequences(labels);
}

// For kFarIgnored: the label that live rows use. It equals the low 32 bits of ignore_index, so a kernel
// that truncates labels ignores them.
int64_t FarColumn(const Recipe& r) { return Below(StreamOf(r, Purpose::kIgnored).At(0)[3], r.v); }

// Draws which rows are ignored: none; all; or a random half, with at least one row ignored and, from
// two rows on, at least one not. Without a vocabulary there is no label to look up, so all are.
std::vector<bool> IgnoredRows(const Recipe& r) {
  std::vector<bool> ignored(static_cast<size_t>(r.n), r.labels == Labels::kAllIgnored || r.v == 0);
  // A 32-bit label cannot hold the ignore_index of kFarIgnored.
  const bool far = r.labels == Labels::kFarIgnored && r.label_dtype == DType::kI64;
  if (r.n == 0 || r.v == 0 || r.labels == Labels::kAllIgnored || !(Ignores(r.labels) || far)) {
    return ignored;
  }
  if (IsSequences(r.labels)) return IgnoredBySequence(r);
  const Stream stream = StreamOf(r, Purpose::kIgnored);
  for (int64_t i = 0; i < r.n; ++i) ignored[static_cast<size_t>(i)] = (stream.At(i, 1)[0] & 1) != 0;
  const PhiloxBlock plan = stream.At(0);
  const int64_t in = Below(plan[1], r.n);
  if (r.labels == Labels::kOneValid) {
    ignored.assign(ignored.size(), true);
    ignored[static_cast<size_t>(in)] = false;
    return ignored;
  }
  ignored[static_cast<size_t>(in)] = true;
  if (r.n > 1) ignored[static_cast<size_t>((in + 1 + Below(plan[2], r.n - 1)) % r.n)] = false;
  return ignored;
}

// Draws ignore_index, mostly the usual one. If rows are ignored, it is half of the time a number that
// can be confused with a label: inside the vocabulary, at either end of it, or just outside.
int64_t IgnoreIndex(const Recipe& r) {
  if (r.labels == Labels::kFarIgnored) return (int64_t{1} << 32) + FarColumn(r);
  if (!Ignores(r.labels) || r.v < 2) return kUsualIgnoreIndex;
  const int64_t choices[] = {0, r.v - 1, -1, r.v};
  const int64_t which = Below(StreamOf(r, Purpose::kIgnored).At(0)[0], 2 * std::ssize(choices));
  return which < std::ssize(choices) ? choices[which] : kUsualIgnoreIndex;
}

// True for half of the rows, and at least for one.
bool HasInvalidLabel(const Recipe& r, int64_t row) {
  const Stream stream = StreamOf(r, Purpose::kInvalid);
  return row == Below(stream.At(0)[0], r.n) || (stream.At(row, 1)[0] & 1) != 0;
}

// Draws a label just outside the vocabulary, at the ends of the dtype, or, in 64 bits, one whose lower
// half is valid.
int64_t InvalidLabel(const Recipe& r, int64_t row) {
  const PhiloxBlock bits = StreamOf(r, Purpose::kInvalid).At(row, 2);
  const bool wide = r.label_dtype == DType::kI64;
  const int64_t choices[] = {
      -1,
      r.v,
      r.v + 1 + Below(bits[1], 64),
      -2 - Below(bits[1], 64),
      wide ? INT64_MAX : INT32_MAX,
      wide ? INT64_MIN : INT32_MIN,
      wide ? (int64_t{1} << 32) + Below(bits[1], std::max<int64_t>(r.v, 1)) : r.v};
  return choices[Below(bits[0], 7)];
}

// The label of a row that is not ignored; V >= 1.
int64_t LabelOf(const Recipe& r, int64_t ignore_index, const std::vector<int64_t>& argmax,
                int64_t row) {
  switch (r.labels) {
    case Labels::kArgmax:
    case Labels::kArgmin:
      return argmax[static_cast<size_t>(row)];
    case Labels::kFirst:
      return 0;
    case Labels::kLast:
      return r.v - 1;
    case Labels::kTileEdge: {
      const PhiloxBlock bits = StreamOf(r, Purpose::kLabels).At(row);
      const int64_t tile = int64_t{16} << Below(bits[0], 5);
      const int64_t edge = tile * Below(bits[1], r.v / tile + 1);
      return std::clamp<int64_t>(edge - static_cast<int64_t>(bits[2] & 1), 0, r.v - 1);
    }
    case Labels::kLastTile: {
      const PhiloxBlock bits = StreamOf(r, Purpose::kLabels).At(row);
      const int64_t first = (r.v - 1) & -(int64_t{16} << Below(bits[0], 5));
      return first + Below(bits[1], r.v - first);
    }
    case Labels::kSame:
      return Below(StreamOf(r, Purpose::kLabels).At(0)[0], r.v);
    case Labels::kDistinct:
      return (Below(StreamOf(r, Purpose::kLabels).At(0)[0], r.v) + row) % r.v;
    case Labels::kFarIgnored:
      if ((StreamOf(r, Purpose::kLabels).At(row)[1] & 1) != 0) return FarColumn(r);
      break;
    case Labels::kRandom:
    case Labels::kSomeIgnored:
    case Labels::kAllIgnored:
    case Labels::kIgnoredNaN:
    case Labels::kInvalid:
    case Labels::kOneValid:
    case Labels::kPrompts:
    case Labels::kPadded:
    case Labels::kPacked:
      break;
  }
  const int64_t label = Below(StreamOf(r, Purpose::kLabels).At(row)[0], r.v);
  return label == ignore_index ? (label + 1) % r.v : label;
}

std::optional<HostTensor> MakeTemperature(const Recipe& r, const std::vector<bool>& poisoned) {
  if (!r.temperature_per_row) {
    if (r.temperature == 1) return std::nullopt;
    HostTensor scalar = HostTensor::Zeros(DType::kF32, {});
    scalar.SetFloat(0, r.temperature);
    return scalar;
  }
  HostTensor temperature = HostTensor::Zeros(DType::kF32, {r.n});
  const Stream stream = StreamOf(r, Purpose::kTemperature);
  for (int64_t i = 0; i < r.n; ++i) {
    const int exponent =
        static_cast<int>(Below(stream.At(i)[0], 2 * r.temperature_spread + 1) - r.temperature_spread);
    temperature.SetFloat(i, std::ldexp(r.temperature, exponent));
    if (poisoned[static_cast<size_t>(i)]) temperature.SetBits(i, NaNBits(DType::kF32));
  }
  return temperature;
}

void RepeatFirstRow(HostTensor* hidden) {
  const int64_t h = hidden->shape[1];
  for (int64_t k = h; k < hidden->size(); ++k) hidden->SetBits(k, hidden->GetBits(k % h));
}

// A stride with which the last of `lines` begins just beyond 2^31 elements, where a 32-bit offset turns
// negative, or just beyond 2^32, where it is small again.
int64_t WideStride(const Recipe& r, int64_t lines) {
  const PhiloxBlock plan = StreamOf(r, Purpose::kLayout).At(0);
  const int64_t reach = (int64_t{1} << ((plan[0] & 1) != 0 ? 32 : 31)) + Below(plan[1], 64);
  return reach / std::max<int64_t>(lines - 1, 1) + 1;
}

Layout LayoutOf(const Recipe& r) {
  Layout layout = {.weight_hidden_major = r.hidden_major,
                   .hidden_padding = r.pad,
                   .weight_padding = r.pad,
                   .label_offset = r.pad,
                   .grad_stride = r.grad_stride,
                   .label_stride = r.label_stride,
                   .offset = r.offset,
                   .reversed = r.rows == Rows::kReversed,
                   .hidden_broadcast = r.rows == Rows::kBroadcast,
                   .temperature_stride = r.temperature_stride,
                   .output_stride = r.output_stride,
                   .gradient_step = r.gradient_step,
                   .single_stride = r.single_stride};
  const int64_t lines = r.hidden_major ? r.h : r.v, length = r.hidden_major ? r.v : r.h;
  switch (r.wide) {
    case Wide::kNone:
      break;
    case Wide::kHidden:
      layout.hidden_padding = std::max<int64_t>(WideStride(r, r.n) - r.h, 0);
      break;
    case Wide::kWeight:
      layout.weight_padding = std::max<int64_t>(WideStride(r, lines) - length, 0);
      break;
    case Wide::kLabels:
      layout.label_stride = WideStride(r, r.n);
      break;
    case Wide::kGrads:
      layout.grad_stride = WideStride(r, r.n);
      break;
  }
  return layout;
}

}  // namespace

void PoisonRow(const Recipe& r, int64_t row, HostTensor* hidden, int64_t at) {
  const Stream stream = StreamOf(r, Purpose::kIgnoredValues);
  const PhiloxBlock plan = stream.At(row);
  const int64_t style = Below(plan[0], 5), place = r.h > 0 ? Below(plan[1], r.h) : 0;
  const uint64_t nan = NaNBits(r.dtype), infinity = InfinityBits(r.dtype);
  const uint64_t sign = uint64_t{1} << (8 * kernel::SizeOf(r.dtype) - 1);
  const uint64_t mixture[] = {nan, infinity, infinity | sign};
  for (int64_t d = 0; d < r.h; ++d) {
    const int64_t index = at * r.h + d;
    if (style == 0) {
      hidden->SetBits(index, nan);
    } else if (style == 4) {
      hidden->SetBits(index, mixture[Below(stream.At(row, 1 + d)[0], 3)]);
    } else if (d == place) {
      hidden->SetBits(index, mixture[style - 1]);
    }
  }
}

void ExpandRows(const Recipe& r, const std::function<std::vector<int64_t>()>& argmax_of,
                OwnedProblem* out, std::vector<bool>* poisoned_rows) {
  OwnedProblem& problem = *out;
  std::vector<bool> ignored = IgnoredRows(r);
  if (r.label_stride == 0 && r.n > 0) ignored.assign(ignored.size(), ignored.front());
  // If all rows share hidden, no row can hold NaN that others must not see.
  const std::vector<bool> poisoned = r.labels == Labels::kIgnoredNaN && r.rows != Rows::kBroadcast
                                         ? ignored
                                         : std::vector<bool>(ignored.size(), false);
  problem.ignore_index = IgnoreIndex(r);
  problem.labels = HostTensor::Zeros(r.label_dtype, {r.n});
  std::vector<int64_t> argmax;
  if (r.labels == Labels::kArgmax || r.labels == Labels::kArgmin) argmax = argmax_of();
  for (int64_t i = 0; i < r.n; ++i) {
    const bool is_ignored = ignored[static_cast<size_t>(i)];
    problem.labels.SetInt(i, is_ignored ? problem.ignore_index
                             : r.labels == Labels::kInvalid && HasInvalidLabel(r, i)
                                 ? InvalidLabel(r, i)
                                 : LabelOf(r, problem.ignore_index, argmax, i));
  }
  problem.temperature = MakeTemperature(r, poisoned);

  problem.reduction = r.reduction;
  if (r.grads != Grads::kNone) {
    const bool scalar = r.reduction != Reduction::kNone;
    problem.grad_logprob = MakeGrads(r, r.grads, Purpose::kGrads, scalar, poisoned);
  }
  if (r.entropy_grads != Grads::kNone) {
    problem.grad_entropy = MakeGrads(r, r.entropy_grads, Purpose::kEntropyGrads, false, poisoned);
  }

  problem.layout = LayoutOf(r);
  // Without an upstream gradient every gradient is zero, so no backward pass is asked for.
  const bool backward = problem.grad_logprob.has_value() || problem.grad_entropy.has_value();
  problem.wanted = {.entropy = (r.want & kWantEntropy) != 0,
                    .lse = (r.want & kWantLse) != 0,
                    .grad_hidden = backward && (r.want & kWantGradHidden) != 0,
                    .grad_weight = backward && (r.want & kWantGradWeight) != 0,
                    .fp32_grads = r.fp32_grads};
  *poisoned_rows = poisoned;
}

OwnedProblem Expand(const Recipe& r) {
  OwnedProblem problem;
  problem.hidden = HostTensor::Zeros(r.dtype, {r.n, r.h});
  problem.weight = HostTensor::Zeros(r.dtype, {r.v, r.h});
  FillValues(r, &problem.hidden, &problem.weight);
  if (r.rows == Rows::kBroadcast) RepeatFirstRow(&problem.hidden);

  std::vector<bool> poisoned;
  const auto argmax = [&] {
    return r.labels == Labels::kArgmax ? Argmaxes(problem) : Argmins(problem);
  };
  ExpandRows(r, argmax, &problem, &poisoned);
  for (int64_t i = 0; i < r.n; ++i) {
    if (poisoned[static_cast<size_t>(i)]) PoisonRow(r, i, &problem.hidden, i);
  }
  if (r.special != Special::kNone) ApplySpecial(r, &problem);
  if (r.rows == Rows::kBroadcast) RepeatFirstRow(&problem.hidden);
  if (r.label_stride == 0) {
    for (int64_t i = 1; i < r.n; ++i) problem.labels.SetInt(i, problem.labels.GetInt(0));
  }
  return problem;
}

}  // namespace plumbline::fuzz
