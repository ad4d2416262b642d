// SPDX-License-Identifier: Apache-2.0
//
// A covering design: rows of levels in which every pair of levels of two factors that can meet occurs,
// and then every triple. Rows are made one at a time, as AETG makes them (Cohen, Dalal, Fredman and
// Patton, IEEE TSE 23, 1997): of a few candidates, each filled greedily from a tuple that no row has,
// the one with the most new tuples is taken. A design is a pure function of its seed.

#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "fuzz/recipe/levels.h"

namespace plumbline::fuzz {

// The pairs and triples of levels that can meet, and which of them were marked.
class LevelTuples {
 public:
  // With `whole` false nothing can meet and all counts are 0. `allowed`: the levels that can occur, by
  // factor; empty: all.
  explicit LevelTuples(bool whole = true, const AllowedLevels& allowed = {})
      : LevelTuples(whole, allowed, false) {}

  int64_t pairs() const { return all_[0]; }
  int64_t triples() const { return all_[1]; }
  int64_t pairs_marked() const { return marked_[0]; }
  int64_t triples_marked() const { return marked_[1]; }

  // Marks all tuples of a row.
  void Mark(const Levels& row);
  // Returns the number of tuples of this many factors, 2 or 3, that are unmarked and consist of
  // `level` of `factor` and of levels of the row's factors that `assigned` has as bits.
  int New(int factors, const Levels& row, unsigned assigned, int factor, int level) const;
  // Returns the first unmarked tuple of 2 or 3 factors from `*from` on, around the end, as a row that
  // has its levels alone; *from becomes its place. Precondition: there is one.
  Levels NextUnmarked(int factors, size_t* from) const;

 private:
  friend class CoveringDesign;
  enum class State : uint8_t { kImpossible, kUnmarked, kMarked };
  using Place = std::array<size_t, 3>;  // of factors, ascending

  LevelTuples(bool whole, const AllowedLevels& allowed, bool for_design);
  void Fill(const AllowedLevels& allowed, bool for_design);
  size_t PairAt(size_t a, int x, size_t b, int y) const;
  size_t TripleAt(size_t a, int x, size_t b, int y, size_t c, int z) const;
  Levels LevelsAt(int factors, size_t index) const;

  std::array<int, kFactors> counts_{};
  std::array<std::array<size_t, kFactors>, kFactors> pair_first_{};
  std::array<std::array<std::array<size_t, kFactors>, kFactors>, kFactors> triple_first_{};
  std::vector<State> pairs_, triples_;
  std::array<int64_t, 2> all_{}, marked_{};
};

class CoveringDesign {
 public:
  // All pairs occur in the first kPairRows rows, and all triples in the first kTripleRows. A design
  // that is complete earlier begins anew, with other rows.
  static constexpr int64_t kPairRows = 750, kTripleRows = 7'000;

  // With `whole` false there is no row, and At must not be called. `allowed` as in LevelTuples.
  explicit CoveringDesign(uint64_t seed, bool whole = true, AllowedLevels allowed = {});
  // Makes the rows up to this one, some 50 us each. The reference is valid until the next call.
  const Levels& At(int64_t index);

 private:
  Levels Next();
  Levels Candidate(int factors, const Levels& from, uint64_t bits) const;

  const uint64_t seed_;
  const AllowedLevels allowed_;
  LevelTuples planned_;
  size_t from_ = 0;
  std::vector<Levels> rows_;
};

}  // namespace plumbline::fuzz
