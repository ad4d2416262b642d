// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/search/covering.h"

#include <algorithm>
#include <utility>

#include "fuzz/base/harness_defect.h"
#include "fuzz/base/mix.h"

namespace plumbline::fuzz {
namespace {

// More candidates make fewer rows and cost more time: 8 instead of 4 save one row in thirty.
constexpr uint64_t kCandidates = 4;

bool Meet(size_t a, int x, size_t b, int y) {
  return CanMeet(static_cast<Factor>(a), x, static_cast<Factor>(b), y);
}

Levels NoLevels() {
  Levels none;
  none.fill(kByRegime);
  return none;
}

}  // namespace

LevelTuples::LevelTuples(bool whole, const AllowedLevels& allowed, bool for_design) {
  if (!whole) return;
  for (size_t f = 0; f < kFactors; ++f) counts_[f] = LevelCount(static_cast<Factor>(f));
  const auto count = [&](size_t f) { return static_cast<size_t>(counts_[f]); };
  size_t pairs = 0, triples = 0;
  for (size_t a = 0; a < kFactors; ++a) {
    for (size_t b = a + 1; b < kFactors; ++b) {
      pair_first_[a][b] = pairs;
      pairs += count(a) * count(b);
      for (size_t c = b + 1; c < kFactors; ++c) {
        triple_first_[a][b][c] = triples;
        triples += count(a) * count(b) * count(c);
      }
    }
  }
  pairs_.resize(pairs, State::kImpossible);
  triples_.resize(triples, State::kImpossible);
  Fill(allowed, for_design);
}

// A triple can occur if each two of its levels can meet: the rest of a row can always be filled, as
// some regimes fix nothing.
void LevelTuples::Fill(const AllowedLevels& allowed, bool for_design) {
  const auto dropped = [&](size_t factor, int level) {
    if (!allowed.empty() && !allowed[factor][static_cast<size_t>(level)]) return true;
    return for_design && Planted(HarnessDefect::kLevelDropped) && level > 0 &&
           level == counts_[factor] - 1;
  };
  const auto meet = [&](size_t a, int x, size_t b, int y) {
    return Meet(a, x, b, y) && !dropped(a, x) && !dropped(b, y);
  };
  for (size_t a = 0; a < kFactors; ++a) {
    for (size_t b = a + 1; b < kFactors; ++b) {
      for (int x = 0; x < counts_[a]; ++x) {
        for (int y = 0; y < counts_[b]; ++y) {
          if (!meet(a, x, b, y)) continue;
          pairs_[PairAt(a, x, b, y)] = State::kUnmarked;
          ++all_[0];
          for (size_t c = b + 1; c < kFactors; ++c) {
            for (int z = 0; z < counts_[c]; ++z) {
              if (!meet(a, x, c, z) || !meet(b, y, c, z)) continue;
              triples_[TripleAt(a, x, b, y, c, z)] = State::kUnmarked;
              ++all_[1];
            }
          }
        }
      }
    }
  }
}

size_t LevelTuples::PairAt(size_t a, int x, size_t b, int y) const {
  return pair_first_[a][b] + static_cast<size_t>(x * counts_[b] + y);
}

size_t LevelTuples::TripleAt(size_t a, int x, size_t b, int y, size_t c, int z) const {
  return triple_first_[a][b][c] + static_cast<size_t>((x * counts_[b] + y) * counts_[c] + z);
}

void LevelTuples::Mark(const Levels& row) {
  if (pairs_.empty()) return;
  const auto mark = [](State* state, int64_t* marked) {
    if (*state != State::kUnmarked) return;
    *state = State::kMarked;
    ++*marked;
  };
  for (size_t a = 0; a < kFactors; ++a) {
    for (size_t b = a + 1; b < kFactors && row[a] != kByRegime; ++b) {
      if (row[b] == kByRegime) continue;
      mark(&pairs_[PairAt(a, row[a], b, row[b])], &marked_[0]);
      for (size_t c = b + 1; c < kFactors; ++c) {
        if (row[c] != kByRegime)
          mark(&triples_[TripleAt(a, row[a], b, row[b], c, row[c])], &marked_[1]);
      }
    }
  }
}

int LevelTuples::New(int factors, const Levels& row, unsigned assigned, int factor, int level) const {
  Levels with = row;
  const auto own = static_cast<size_t>(factor);
  with[own] = level;
  int fresh = 0;
  const auto has = [&](size_t f) {
    return f != own && (assigned >> f & 1) != 0 && with[f] != kByRegime;
  };
  for (size_t p = 0; p < kFactors; ++p) {
    if (!has(p)) continue;
    if (factors == 2) {
      const size_t a = std::min(p, own), b = std::max(p, own);
      fresh += pairs_[PairAt(a, with[a], b, with[b])] == State::kUnmarked ? 1 : 0;
      continue;
    }
    for (size_t q = p + 1; q < kFactors; ++q) {
      if (!has(q)) continue;
      Place t = {p, q, own};
      std::sort(t.begin(), t.end());
      fresh +=
          triples_[TripleAt(t[0], with[t[0]], t[1], with[t[1]], t[2], with[t[2]])] == State::kUnmarked
              ? 1
              : 0;
    }
  }
  return fresh;
}

Levels LevelTuples::LevelsAt(int factors, size_t index) const {
  Levels row = NoLevels();
  const auto count = [&](size_t f) { return static_cast<size_t>(counts_[f]); };
  for (size_t a = 0; a < kFactors; ++a) {
    for (size_t b = a + 1; b < kFactors; ++b) {
      const auto set = [&](size_t of_pair) {
        row[a] = static_cast<int>(of_pair / count(b));
        row[b] = static_cast<int>(of_pair % count(b));
      };
      if (factors == 2) {
        const size_t first = pair_first_[a][b];
        if (index < first || index >= first + count(a) * count(b)) continue;
        set(index - first);
        return row;
      }
      for (size_t c = b + 1; c < kFactors; ++c) {
        const size_t first = triple_first_[a][b][c];
        if (index < first || index >= first + count(a) * count(b) * count(c)) continue;
        row[c] = static_cast<int>((index - first) % count(c));
        set((index - first) / count(c));
        return row;
      }
    }
  }
  return row;
}

Levels LevelTuples::NextUnmarked(int factors, size_t* from) const {
  const std::vector<State>& states = factors == 2 ? pairs_ : triples_;
  *from %= states.size();
  while (states[*from] != State::kUnmarked) *from = (*from + 1) % states.size();
  return LevelsAt(factors, *from);
}

CoveringDesign::CoveringDesign(uint64_t seed, bool whole, AllowedLevels allowed)
    : seed_(seed), allowed_(std::move(allowed)), planned_(whole, allowed_, true) {}

const Levels& CoveringDesign::At(int64_t index) {
  while (std::ssize(rows_) <= index) rows_.push_back(Next());
  return rows_[static_cast<size_t>(index)];
}

Levels CoveringDesign::Next() {
  if (planned_.triples_marked() == planned_.triples()) planned_ = LevelTuples(true, allowed_, true);
  const int factors = planned_.pairs_marked() < planned_.pairs() ? 2 : 3;
  const uint64_t row_seed = Mix(seed_, rows_.size());
  Levels best = NoLevels();
  int64_t most = -1;
  for (uint64_t k = 0; k < kCandidates; ++k) {
    const uint64_t bits = Mix(row_seed, k);
    // Tuples are looked for from another place each time, or neighbours would have the same rows.
    from_ = static_cast<size_t>(bits >> 16);
    const Levels row = Candidate(factors, planned_.NextUnmarked(factors, &from_), bits);
    int64_t fresh = 0;
    for (int f = 0; f < kFactors; ++f) {
      if (row[static_cast<size_t>(f)] == kByRegime) continue;
      // Each tuple is counted with its last factor.
      fresh += planned_.New(factors, row, (1U << f) - 1, f, row[static_cast<size_t>(f)]);
    }
    if (fresh > most) {
      most = fresh;
      best = row;
    }
  }
  planned_.Mark(best);
  return best;
}

Levels CoveringDesign::Candidate(int factors, const Levels& from, uint64_t bits) const {
  Levels row = from;
  std::array<int, kFactors> order;
  for (int f = 0; f < kFactors; ++f) order[static_cast<size_t>(f)] = f;
  for (size_t i = kFactors; i > 1; --i) std::swap(order[i - 1], order[Mix(bits, i) % i]);
  unsigned assigned = 0;
  for (size_t f = 0; f < kFactors; ++f) assigned |= row[f] != kByRegime ? 1U << f : 0;
  const auto fits = [&](int factor, int level) {
    for (size_t f = 0; f < kFactors; ++f) {
      if (row[f] == kByRegime || f == static_cast<size_t>(factor)) continue;
      if (planned_.pairs_[planned_.PairAt(std::min(f, static_cast<size_t>(factor)),
                                          f < static_cast<size_t>(factor) ? row[f] : level,
                                          std::max(f, static_cast<size_t>(factor)),
                                          f < static_cast<size_t>(factor) ? level : row[f])] ==
          LevelTuples::State::kImpossible) {
        return false;
      }
    }
    return true;
  };
  for (const int factor : order) {
    if ((assigned >> factor & 1) != 0) continue;
    const int count = planned_.counts_[static_cast<size_t>(factor)];
    const auto first =
        static_cast<int>(Mix(bits, 100 + static_cast<uint64_t>(factor)) % static_cast<uint64_t>(count));
    int most = -1;
    for (int k = 0; k < count; ++k) {
      const int level = (first + k) % count;
      if (!fits(factor, level)) continue;
      const int fresh = planned_.New(factors, row, assigned, factor, level);
      if (fresh <= most) continue;
      most = fresh;
      row[static_cast<size_t>(factor)] = level;
    }
    // Where nothing fits, the regime fixes the factor.
    assigned |= 1U << factor;
  }
  return row;
}

}  // namespace plumbline::fuzz
