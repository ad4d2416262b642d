// SPDX-License-Identifier: Apache-2.0

#include "fuzz/recipe/expand/sequences.h"

#include <algorithm>

#include "fuzz/recipe/expand/values.h"

namespace plumbline::fuzz {

bool IsSequences(Labels labels) {
  return labels == Labels::kPrompts || labels == Labels::kPadded || labels == Labels::kPacked;
}

std::vector<Sequence> SequencesOf(const Recipe& r) {
  constexpr int64_t kLongestPacked = 32, kMostSequences = 4;
  const Stream stream = StreamOf(r, Purpose::kSequences);
  const int64_t length = (r.n - 1) / (1 + Below(stream.At(0)[0], kMostSequences)) + 1;
  std::vector<Sequence> sequences;
  for (int64_t begin = 0; begin < r.n;) {
    const PhiloxBlock bits = stream.At(1 + std::ssize(sequences));
    const int64_t rows = r.labels == Labels::kPacked ? 1 + Below(bits[0], kLongestPacked) : length;
    Sequence s{.begin = begin, .end = std::min(begin + rows, r.n)};
    s.first = s.begin;
    s.last = s.end;
    const int64_t size = s.end - s.begin;
    if (r.labels == Labels::kPacked) {
      s.last -= size > 1 ? 1 : 0;
    } else if (r.labels == Labels::kPadded) {
      s.last = s.begin + 1 + Below(bits[1], size);
    } else {
      s.first = s.end - 1 - Below(bits[1], std::max<int64_t>(size / 8, 1));
    }
    begin = s.end;
    sequences.push_back(s);
  }
  return sequences;
}

std::vector<bool> IgnoredBySequence(const Recipe& r) {
  std::vector<bool> ignored(static_cast<size_t>(r.n), true);
  for (const Sequence& s : SequencesOf(r)) {
    std::fill(ignored.begin() + s.first, ignored.begin() + s.last, false);
  }
  return ignored;
}

}  // namespace plumbline::fuzz
