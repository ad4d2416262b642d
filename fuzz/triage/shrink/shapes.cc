// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <array>
#include <functional>
#include <utility>
#include <vector>

#include "fuzz/problem/values.h"
#include "fuzz/triage/shrink/passes.h"

namespace plumbline::fuzz {
namespace {

using Indices = std::vector<int64_t>;

// Returns the most important indices of the axis, or the last ones, ascending.
Indices Some(const ShrinkSession& session, Axis axis, int64_t count, bool important) {
  const OwnedProblem& p = session.best();
  Indices indices = Iota(Extent(p, axis));
  if (important && count < Extent(p, axis)) indices = ByImportance(p, axis, session.focus());
  if (!important) std::ranges::reverse(indices);
  indices.resize(static_cast<size_t>(count));
  std::ranges::sort(indices);
  return indices;
}

bool TryShape(ShrinkSession& session, const std::array<int64_t, 3>& shape, bool important) {
  OwnedProblem candidate = session.best();
  Focus focus = session.focus();
  for (const Axis axis : kAxes) {
    const int64_t count = shape[static_cast<size_t>(axis)];
    if (count == Extent(candidate, axis)) continue;
    const Indices indices = Some(session, axis, count, important);
    candidate = Keep(candidate, axis, indices);
    focus = Follow(focus, axis, indices);
  }
  return session.Try(std::move(candidate), &focus);
}

}  // namespace

bool KeepKnownShape(ShrinkSession& session, std::vector<std::array<int64_t, 3>> shapes) {
  const OwnedProblem& p = session.best();
  const std::array<int64_t, 3> now = {p.rows(), p.vocab(), p.hidden_size()};
  std::erase_if(shapes, [&](const std::array<int64_t, 3>& shape) {
    return shape == now || !std::ranges::equal(shape, now, std::ranges::less_equal{}) ||
           *std::ranges::min_element(shape) < 1;
  });
  std::ranges::sort(shapes, {}, [](const std::array<int64_t, 3>& shape) {
    return std::pair((shape[0] + shape[1]) * shape[2], shape);
  });
  for (const auto& shape : shapes) {
    if (session.Exhausted()) return false;
    if (TryShape(session, shape, true) || TryShape(session, shape, false)) return true;
  }
  return false;
}

void SpendFirstCalls(ShrinkSession& session, int64_t first_calls) {
  struct Share {
    int64_t in24;  // first calls of 24; those that a pass leaves are for the next
    std::function<bool()> pass;
  };
  const auto halve = [&](Axis axis) {
    return DeleteChunks(session, axis, Coarse(Extent(session.best(), axis)));
  };
  const Share shares[] = {
      {6, [&] { return KeepCorner(session, session.best()); }},
      {1, [&] { return KeepOneRow(session); }},
      {4, [&] { return KeepFew(session, Axis::kVocab); }},
      {4, [&] { return KeepResidues(session, Axis::kVocab); }},
      {3, [&] { return KeepFew(session, Axis::kHidden); }},
      {2, [&] { return KeepFew(session, Axis::kRows); }},
      {2, [&] { return halve(Axis::kVocab); }},
      {1, [&] { return halve(Axis::kHidden); }},
      {1, [&] { return halve(Axis::kRows); }},
  };
  int64_t allowed = 0;
  for (const Share& share : shares) {
    allowed += share.in24;
    session.AllowFirstCalls(first_calls * allowed / 24);
    share.pass();
  }
}

}  // namespace plumbline::fuzz
