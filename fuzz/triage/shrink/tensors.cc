// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "fuzz/triage/shrink/order.h"
#include "fuzz/triage/shrink/passes.h"

namespace plumbline::fuzz {
namespace {

// Tries one candidate: the best problem with tensor `number` mapped element by element. A positive
// temperature stays positive: zero would be another finding, invalid data.
template <class F>
bool TryMap(ShrinkSession& session, int number, F map) {
  OwnedProblem candidate = session.best();
  HostTensor& tensor = *FloatTensor(candidate, number);
  for (int64_t i = 0; i < tensor.size(); ++i) {
    const float before = tensor.GetFloat(i);
    tensor.SetFloat(i, map(before));
    if (number == kTemperatureNumber && before > 0 && !(tensor.GetFloat(i) > 0)) return false;
  }
  return session.Try(std::move(candidate));
}

// Returns the most frequent values of a tensor, the more frequent first.
std::vector<float> CommonValues(const HostTensor& tensor) {
  constexpr size_t kValues = 3;
  std::map<uint64_t, int64_t> counts;
  for (int64_t i = 0; i < tensor.size(); ++i) ++counts[tensor.GetBits(i)];
  std::vector<std::pair<int64_t, uint64_t>> sorted;
  for (const auto& [bits, count] : counts) sorted.emplace_back(-count, bits);
  std::sort(sorted.begin(), sorted.end());
  std::vector<float> values;
  HostTensor one = HostTensor::Zeros(tensor.dtype, {1});
  for (size_t i = 0; i < std::min(kValues, sorted.size()); ++i) {
    one.SetBits(0, sorted[i].second);
    values.push_back(one.GetFloat(0));
  }
  return values;
}

bool MakeConstant(ShrinkSession& session, int number) {
  std::vector<float> constants = {0, 1, -1};
  const std::vector<float> common = CommonValues(*FloatTensor(session.best(), number));
  constants.insert(constants.end(), common.begin(), common.end());
  for (const float constant : constants) {
    if (TryMap(session, number, [&](float) { return constant; })) return true;
  }
  return false;
}

bool FewerBits(ShrinkSession& session, int number) {
  for (int bits = 1; bits < 24; bits += bits < 8 ? 1 : 4) {
    for (const bool toward_zero : {false, true}) {
      const auto round = [&](float x) { return RoundToBits(x, bits, toward_zero); };
      if (TryMap(session, number, round)) return true;
    }
  }
  return false;
}

// Multiplies by a power of two that brings the largest element near 1, else half of the way, and so on.
bool SmallerExponent(ShrinkSession& session, int number) {
  float largest = 0;
  const HostTensor& tensor = *FloatTensor(session.best(), number);
  for (int64_t i = 0; i < tensor.size(); ++i) {
    const float magnitude = std::abs(tensor.GetFloat(i));
    if (std::isfinite(magnitude)) largest = std::max(largest, magnitude);
  }
  for (int power = largest > 0 ? -std::ilogb(largest) : 0; power != 0; power /= 2) {
    if (TryMap(session, number, [&](float x) { return std::ldexp(x, power); })) return true;
  }
  return false;
}

bool SimplifyTensor(ShrinkSession& session, int number) {
  if (MakeConstant(session, number)) return true;
  bool changed = false;
  const auto sign = [](float x) { return x > 0 ? 1.0f : x < 0 ? -1.0f : x; };
  if (TryMap(session, number, sign)) return true;
  if (TryMap(session, number, [](float x) { return std::abs(x); })) changed = true;
  if (FewerBits(session, number)) changed = true;
  if (SmallerExponent(session, number)) changed = true;
  if (TryMap(session, number, [](float x) { return std::nearbyint(x); })) changed = true;
  if (TryMap(session, number, [](float x) { return std::trunc(x); })) changed = true;
  return changed;
}

// Calls attempt(begin, end) over [0, extent) in runs of the whole extent, half of it, ..., `smallest`.
bool OverRuns(ShrinkSession& session, int64_t extent, int64_t smallest,
              const std::function<bool(int64_t, int64_t)>& attempt) {
  bool changed = false;
  for (int64_t run = extent; run >= smallest && run > 0; run /= 2) {
    Persistence persistence(extent);
    for (int64_t begin = 0; begin < extent && !session.Exhausted() && !persistence.Ends();
         begin += run) {
      if (persistence.Note(attempt(begin, std::min(extent, begin + run)))) changed = true;
    }
  }
  return changed;
}

// Returns the row whose values have the smallest sum of ranks, zero rows left out; -1 if there is none.
int64_t PlainestRow(const HostTensor& matrix) {
  int64_t plainest = -1;
  uint64_t least = std::numeric_limits<uint64_t>::max();
  const int64_t width = matrix.shape[1];
  for (int64_t i = 0; i < matrix.shape[0]; ++i) {
    uint64_t sum = 0;
    for (int64_t d = 0; d < width; ++d) sum += FloatRank(matrix.GetFloat(i * width + d));
    if (sum == 0 || sum >= least) continue;
    least = sum;
    plainest = i;
  }
  return plainest;
}

// Copies a row over the rows of the run that are less simple than it; source -1: zeros.
bool CoverRows(ShrinkSession& session, int number, int64_t source, int64_t begin, int64_t end) {
  OwnedProblem candidate = session.best();
  HostTensor& matrix = *FloatTensor(candidate, number);
  const size_t row = static_cast<size_t>(matrix.shape[1]) * kernel::SizeOf(matrix.dtype);
  if (row == 0) return false;
  for (int64_t i = begin; i < end; ++i) {
    std::byte* to = &matrix.bytes[static_cast<size_t>(i) * row];
    if (source < 0) {
      std::memset(to, 0, row);
    } else if (i != source) {
      std::memcpy(to, &matrix.bytes[static_cast<size_t>(source) * row], row);
    }
  }
  return session.Try(std::move(candidate));
}

bool ZeroColumns(ShrinkSession& session, bool hidden, bool weight, int64_t begin, int64_t end) {
  OwnedProblem candidate = session.best();
  const auto zero = [&](HostTensor& matrix) {
    for (int64_t i = 0; i < matrix.shape[0]; ++i) {
      for (int64_t d = begin; d < end; ++d) matrix.SetFloat(i * matrix.shape[1] + d, 0);
    }
  };
  if (hidden) zero(candidate.hidden);
  if (weight) zero(candidate.weight);
  return session.Try(std::move(candidate));
}

}  // namespace

HostTensor* FloatTensor(OwnedProblem& p, int number) {
  return const_cast<HostTensor*>(FloatTensor(std::as_const(p), number));
}

const HostTensor* FloatTensor(const OwnedProblem& p, int number) {
  if (number < kTemperatureNumber) return number == 0 ? &p.hidden : &p.weight;
  const auto& tensor = p.*kOptionalTensors[static_cast<size_t>(number - kTemperatureNumber)].tensor;
  return tensor ? &*tensor : nullptr;
}

float RoundToBits(float value, int bits, bool toward_zero) {
  if (value == 0 || !std::isfinite(value)) return value;
  const int shift = bits - 1 - std::ilogb(value);
  // This is computed in double: the scaled value of a subnormal may be beyond the range of float.
  const double scaled = std::ldexp(static_cast<double>(value), shift);
  const double rounded = toward_zero ? std::trunc(scaled) : std::nearbyint(scaled);
  return static_cast<float>(std::ldexp(rounded, -shift));
}

bool SimplifyTensors(ShrinkSession& session) {
  bool changed = false;
  for (int number = 0; number < kFloatTensors && !session.Exhausted(); ++number) {
    const HostTensor* tensor = FloatTensor(session.best(), number);
    if (tensor != nullptr && tensor->size() > 0 && SimplifyTensor(session, number)) changed = true;
  }
  return changed;
}

bool Neutralise(ShrinkSession& session, int64_t smallest) {
  bool changed = false;
  for (const int number : {1, 0}) {
    const int64_t rows = FloatTensor(session.best(), number)->shape[0];
    for (const bool zeros : {true, false}) {
      const int64_t source = zeros ? -1 : PlainestRow(*FloatTensor(session.best(), number));
      if (!zeros && source < 0) continue;
      changed |= OverRuns(session, rows, smallest, [&](int64_t begin, int64_t end) {
        return CoverRows(session, number, source, begin, end);
      });
    }
  }
  const int64_t columns = session.best().hidden_size();
  const std::pair<bool, bool> which[] = {{true, true}, {true, false}, {false, true}};
  for (const auto& pair : which) {
    changed |= OverRuns(session, columns, smallest, [&](int64_t begin, int64_t end) {
      return ZeroColumns(session, pair.first, pair.second, begin, end);
    });
  }
  return changed;
}

}  // namespace plumbline::fuzz
