// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "fuzz/problem/values.h"
#include "fuzz/triage/shrink/passes.h"

namespace plumbline::fuzz {
namespace {

using Indices = std::vector<int64_t>;

// Multiples of the tile sizes in use; a larger one has the residues of the smaller ones.
constexpr int64_t kTiles[] = {16, 32, 64, 128, 256};
constexpr int64_t kRowsTriedAlone = 16;

Indices FirstSorted(const Indices& order, int64_t count) {
  Indices indices(order.begin(), order.begin() + count);
  std::sort(indices.begin(), indices.end());
  return indices;
}

bool TryKeep(ShrinkSession& session, Axis axis, const Indices& indices) {
  if (indices.empty()) return false;
  const Focus focus = Follow(session.focus(), axis, indices);
  return session.Try(Keep(session.best(), axis, indices), &focus);
}

// Tries to keep `count` indices: the most important ones, the last ones, the first ones, and some
// spread evenly.
bool TryCount(ShrinkSession& session, Axis axis, const Indices& order, int64_t count) {
  if (TryKeep(session, axis, FirstSorted(order, count))) return true;
  const auto extent = static_cast<int64_t>(order.size());
  Indices indices = Iota(count);
  for (int64_t& index : indices) index += extent - count;
  if (TryKeep(session, axis, indices)) return true;
  if (TryKeep(session, axis, Iota(count))) return true;
  for (int64_t i = 0; i < count; ++i) indices[static_cast<size_t>(i)] = i * extent / count;
  return TryKeep(session, axis, indices);
}

// Returns the extents with the same residues as `extent` that are smaller, smallest first.
std::set<int64_t> Residues(int64_t extent) {
  std::set<int64_t> counts;
  for (const int64_t tile : kTiles) {
    for (const int64_t count : {extent % tile, tile + extent % tile}) {
      if (count < extent) counts.insert(count);
    }
  }
  return counts;
}

// Deletes [begin, end), or, in the vocabulary, those of them that are no labels.
bool DeleteRange(ShrinkSession& session, Axis axis, int64_t begin, int64_t end) {
  const OwnedProblem& p = session.best();
  Indices kept = Iota(Extent(p, axis));
  kept.erase(kept.begin() + begin, kept.begin() + end);
  if (TryKeep(session, axis, kept)) return true;
  if (axis != Axis::kVocab) return false;
  std::set<int64_t> labels;
  for (int64_t i = 0; i < p.rows(); ++i) {
    const int64_t label = p.labels.GetInt(i);
    if (p.IsClass(label) && label >= begin && label < end) labels.insert(label);
  }
  // The range is all labels, or has none: the candidate would be the whole problem, or the one just
  // judged.
  if (labels.empty() || static_cast<int64_t>(labels.size()) == end - begin) return false;
  kept.insert(kept.begin() + begin, labels.begin(), labels.end());
  return TryKeep(session, axis, kept);
}

struct Corner {
  int64_t values;
  Indices rows, vocab, columns;
  bool fold;
};

// Returns corners of the best problem, smallest first.
std::vector<Corner> Corners(const OwnedProblem& p, const Focus& focus) {
  const Indices rows = ByImportance(p, Axis::kRows, focus);
  const Indices vocab = ByImportance(p, Axis::kVocab, focus);
  const Indices columns = ByImportance(p, Axis::kHidden, focus);
  const auto counts = [](int64_t extent, std::set<int64_t> some) {
    some.insert(extent);
    while (*some.rbegin() > extent) some.erase(*some.rbegin());
    return some;
  };
  std::set<int64_t> vocab_counts = {1, 2, 4, 8, 16};
  for (const int64_t tile : kTiles) vocab_counts.insert(p.vocab() % tile);
  vocab_counts.erase(0);
  std::vector<Corner> corners;
  for (const int64_t n : counts(p.rows(), {1, 2})) {
    if (n > 2) continue;
    for (const int64_t v : counts(p.vocab(), vocab_counts)) {
      for (const int64_t h : counts(p.hidden_size(), {1, 2, 4, 16})) {
        for (const bool fold : {true, false}) {
          if (fold && (h < p.hidden_size() || n > 1)) continue;
          corners.push_back({fold ? v + 1 : (n + v) * h, FirstSorted(rows, n), FirstSorted(vocab, v),
                             FirstSorted(columns, h), fold});
        }
      }
    }
  }
  std::stable_sort(corners.begin(), corners.end(),
                   [](const Corner& a, const Corner& b) { return a.values < b.values; });
  return corners;
}

}  // namespace

bool KeepCorner(ShrinkSession& session, const OwnedProblem& p) {
  if (p.rows() == 0 || p.vocab() == 0 || p.hidden_size() == 0) return false;
  for (const Corner& corner : Corners(p, session.focus())) {
    if (session.Exhausted()) return false;
    Focus focus = Follow(session.focus(), Axis::kRows, corner.rows);
    focus = Follow(focus, Axis::kVocab, corner.vocab);
    focus = Follow(focus, Axis::kHidden, corner.columns);
    OwnedProblem candidate = Keep(p, Axis::kRows, corner.rows);
    candidate = Keep(candidate, Axis::kVocab, corner.vocab);
    if (corner.fold) {
      if (p.hidden_size() == 1) continue;
      candidate = FoldHidden(candidate);
      focus.column = -1;
    } else {
      candidate = Keep(candidate, Axis::kHidden, corner.columns);
    }
    // This returns at once: `p` may refer to the problem that Try has just replaced.
    if (session.Try(std::move(candidate), &focus)) return true;
  }
  return false;
}

bool KeepFew(ShrinkSession& session, Axis axis) {
  const Indices order = ByImportance(session.best(), axis, session.focus());
  const auto extent = static_cast<int64_t>(order.size());
  // Counts are 1, 2, 3, 4, 6, 8, 12, 16, ...
  for (int64_t power = 1; power < extent && !session.Exhausted(); power *= 2) {
    if (TryCount(session, axis, order, power)) return true;
    const int64_t between = power + power / 2;
    if (power > 1 && between < extent && TryCount(session, axis, order, between)) return true;
  }
  return false;
}

bool KeepResidues(ShrinkSession& session, Axis axis) {
  const Indices order = ByImportance(session.best(), axis, session.focus());
  for (const int64_t count : Residues(static_cast<int64_t>(order.size()))) {
    if (count > 0 && TryCount(session, axis, order, count)) return true;
  }
  return false;
}

bool DeleteChunks(ShrinkSession& session, Axis axis, int64_t smallest) {
  bool changed = false;
  for (int64_t half = Extent(session.best(), axis) / 2; half >= smallest && half > 0; half /= 2) {
    // Whole multiples of the smallest tile keep the residue.
    const int64_t chunk = half > kTiles[0] ? half - half % kTiles[0] : half;
    int64_t step = chunk;
    Persistence persistence(Extent(session.best(), axis));
    for (int64_t end = Extent(session.best(), axis); end > 0 && !session.Exhausted();) {
      const int64_t begin = std::max<int64_t>(0, end - step);
      if (persistence.Ends()) break;
      if (persistence.Note(DeleteRange(session, axis, begin, end))) {
        changed = true;
        end = std::min(begin, Extent(session.best(), axis));
        step *= 2;
      } else if (step > chunk) {
        step = chunk;
      } else {
        end = begin;
      }
    }
  }
  return changed;
}

bool KeepOneRow(ShrinkSession& session) {
  if (session.best().rows() < 2) return false;
  const Indices order = ByImportance(session.best(), Axis::kRows, session.focus());
  const size_t few = std::min<size_t>(order.size(), kRowsTriedAlone);
  for (size_t i = 0; i < few; ++i) {
    if (TryKeep(session, Axis::kRows, {order[i]})) return true;
  }
  return false;
}

}  // namespace plumbline::fuzz
