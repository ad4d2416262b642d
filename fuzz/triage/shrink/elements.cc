// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "fuzz/problem/values.h"
#include "fuzz/triage/shrink/order.h"
#include "fuzz/triage/shrink/passes.h"

namespace plumbline::fuzz {
namespace {

struct Element {
  int tensor;
  int64_t index;
};

// Elements of one magnitude; their signs stay as they are relative to the first one's.
using Group = std::vector<Element>;

float Get(const OwnedProblem& p, const Element& e) {
  return FloatTensor(p, e.tensor)->GetFloat(e.index);
}

// Gives the first element this value, the others its magnitude.
bool TrySet(ShrinkSession& session, const Group& group, float value) {
  const bool negative = std::signbit(Get(session.best(), group[0]));
  OwnedProblem candidate = session.best();
  for (const Element& e : group) {
    const bool same = std::signbit(Get(candidate, e)) == negative;
    // Minus zero is avoided: it is less simple than the zero that it stands for.
    FloatTensor(candidate, e.tensor)->SetFloat(e.index, same || value == 0 ? value : -value);
  }
  return session.Try(std::move(candidate));
}

// Tries 0, 1, -1, 2, ... Returns true if one was taken: nothing is simpler then.
bool TryPlain(ShrinkSession& session, const Group& group) {
  const float value = Get(session.best(), group[0]);
  const float sign = std::signbit(value) ? -1.0f : 1.0f;
  const bool positive_only = group[0].tensor == kTemperatureNumber;
  for (const float plain : {0.0f, 1.0f, -1.0f, sign * 2, sign * 4, sign * 3, sign * 0.5f}) {
    if (positive_only && plain <= 0) continue;
    if (FloatRank(plain) < FloatRank(value) && TrySet(session, group, plain)) return true;
  }
  return false;
}

// Returns the smallest k in [low, high) for which attempt(k) succeeds, if success is monotone. Every
// success is kept at once, so the result is right even if it is not monotone.
template <class F>
bool Bisect(int low, int high, F attempt) {
  bool changed = false;
  while (low < high) {
    const int middle = low + (high - low) / 2;
    if (attempt(middle)) {
      high = middle;
      changed = true;
    } else {
      low = middle + 1;
    }
  }
  return changed;
}

// Tries integers near the value, fewer significant bits, an exponent nearer to 0, then one step down.
bool Reduce(ShrinkSession& session, const Group& group) {
  const auto now = [&] { return Get(session.best(), group[0]); };
  if (!std::isfinite(now())) return false;
  bool changed = false;
  for (const float whole :
       {std::trunc(now()), std::nearbyint(now()), std::floor(now()), std::ceil(now())}) {
    if (whole != now() && TrySet(session, group, whole)) {
      changed = true;
      break;
    }
  }
  const float before_bits = now();
  for (const bool toward_zero : {false, true}) {
    changed |= Bisect(1, SignificantBits(now()), [&](int bits) {
      return TrySet(session, group, RoundToBits(before_bits, bits, toward_zero));
    });
  }
  const float before_exponent = now();
  if (before_exponent != 0) {
    const int exponent = std::ilogb(before_exponent);
    changed |= Bisect(0, std::abs(exponent), [&](int distance) {
      const int power = (exponent < 0 ? -distance : distance) - exponent;
      return TrySet(session, group, std::ldexp(before_exponent, power));
    });
  }
  // A positive value is simpler than a negative one.
  if (now() < 0 && TrySet(session, group, -now())) changed = true;
  return changed;
}

bool SimplifyGroup(ShrinkSession& session, const Group& group) {
  if (FloatRank(Get(session.best(), group[0])) == 0) return false;
  return TryPlain(session, group) || Reduce(session, group);
}

// Returns groups of two or more with the sums of their ranks, those with the largest sum first.
std::vector<std::pair<uint64_t, Group>> Duplicates(const OwnedProblem& p,
                                                   const std::vector<int>& tensors) {
  std::map<uint32_t, Group> groups;
  for (const int tensor : tensors) {
    const HostTensor* t = FloatTensor(p, tensor);
    for (int64_t i = 0; t != nullptr && i < t->size(); ++i) {
      const float value = t->GetFloat(i);
      if (value != 0) groups[std::bit_cast<uint32_t>(std::abs(value))].push_back({tensor, i});
    }
  }
  std::vector<std::pair<uint64_t, Group>> weighed;
  for (auto& [bits, group] : groups) {
    if (group.size() < 2) continue;
    weighed.emplace_back(group.size() * uint64_t{FloatRank(std::bit_cast<float>(bits))},
                         std::move(group));
  }
  std::stable_sort(weighed.begin(), weighed.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  return weighed;
}

// Tries other pairs with the same sum, one of the two simpler.
bool Redistribute(ShrinkSession& session, int tensor, int64_t i, int64_t j) {
  const HostTensor& t = *FloatTensor(session.best(), tensor);
  const float a = t.GetFloat(i), b = t.GetFloat(j), sum = a + b;
  if (a == 0 || b == 0 || !std::isfinite(sum)) return false;
  const float whole = std::trunc(sum);
  for (const float first :
       {0.0f, sum, 1.0f, sum - 1, whole, sum - whole, std::trunc(a), sum - std::trunc(b),
        RoundToBits(a, 1, true), sum - RoundToBits(b, 1, true), sum / 2}) {
    if (FloatRank(first) + FloatRank(sum - first) >= FloatRank(a) + FloatRank(b)) continue;
    OwnedProblem candidate = session.best();
    FloatTensor(candidate, tensor)->SetFloat(i, first);
    FloatTensor(candidate, tensor)->SetFloat(j, sum - first);
    if (session.Try(std::move(candidate))) return true;
  }
  return false;
}

}  // namespace

bool RedistributePairs(ShrinkSession& session) {
  // Each element is paired with the few that follow it: these are all pairs of a row as small as it
  // should be.
  constexpr int64_t kMostElements = 64, kReach = 8;
  bool changed = false;
  for (const int tensor : {0, 1, 3, 4}) {
    const HostTensor* t = FloatTensor(session.best(), tensor);
    const int64_t size = t != nullptr ? t->size() : 0;
    if (size > kMostElements) continue;
    for (int64_t i = 0; i < size; ++i) {
      for (int64_t j = i + 1; j < std::min(size, i + 1 + kReach) && !session.Exhausted(); ++j) {
        changed |= Redistribute(session, tensor, i, j);
      }
    }
  }
  return changed;
}

bool SimplifyDuplicates(ShrinkSession& session) {
  bool changed = false;
  const std::vector<int> scopes[] = {{0, 1}, {0}, {1}, {2}, {3}, {4}};
  for (const std::vector<int>& tensors : scopes) {
    // Groups stay together while others change: values may become equal, but never differ again.
    for (const auto& [weight, group] : Duplicates(session.best(), tensors)) {
      if (session.Exhausted()) return changed;
      changed |= SimplifyGroup(session, group);
    }
  }
  return changed;
}

bool SimplifyElements(ShrinkSession& session) {
  std::vector<std::pair<uint32_t, Element>> elements;
  for (int tensor = 0; tensor < kFloatTensors; ++tensor) {
    const HostTensor* t = FloatTensor(session.best(), tensor);
    for (int64_t i = 0; t != nullptr && i < t->size(); ++i) {
      elements.push_back({FloatRank(t->GetFloat(i)), {tensor, i}});
    }
  }
  std::stable_sort(elements.begin(), elements.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  bool changed = false;
  Persistence persistence(static_cast<int64_t>(elements.size()));
  for (const auto& [rank, element] : elements) {
    if (rank == 0 || session.Exhausted() || persistence.Ends()) break;
    changed |= persistence.Note(SimplifyGroup(session, {element}));
  }
  return changed;
}

}  // namespace plumbline::fuzz
