// SPDX-License-Identifier: Apache-2.0

#include "fuzz/cases/merge.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "fuzz/cases/corpus.h"
#include "fuzz/cases/name.h"

namespace plumbline::fuzz {
namespace {

struct Weighed {
  MergeCase merged;
  std::string name;
  int64_t values = 0, bytes = 0;
  size_t rank = 0;  // in its bucket
};

std::vector<Weighed> Weigh(std::vector<MergeCase> cases) {
  std::vector<Weighed> weighed;
  for (MergeCase& merged : cases) {
    Weighed w;
    w.name = CaseFileName(merged.c);
    w.values = ValueCount(merged.c.problem);
    w.bytes = static_cast<int64_t>(StoredBytes(merged.c).size());
    w.merged = std::move(merged);
    weighed.push_back(std::move(w));
  }
  return weighed;
}

// Ranks the cases of each bucket: cases that stay come first, then regressions, then the others by
// size.
void Rank(std::vector<Weighed>* weighed) {
  const auto order = [](const Weighed& w) {
    return std::tuple(!w.merged.stays, w.merged.c.state != CaseState::kRegression, w.values, w.bytes,
                      std::string_view(w.name));
  };
  std::ranges::sort(*weighed, {}, order);
  std::map<std::pair<std::string, std::string>, size_t> seen;
  for (Weighed& w : *weighed) w.rank = seen[{w.merged.c.target, w.merged.c.bucket.id}]++;
}

}  // namespace

std::vector<MergeCase> DropDuplicates(std::vector<MergeCase> cases, std::vector<Dropped>* dropped) {
  for (MergeCase& merged : cases) {
    Case& c = merged.c;
    if (c.bucket.id.empty()) c.bucket = BucketOf(c.problem, c.finding);
  }
  // Sorts by what makes two cases one, and among equals puts the better one first.
  const auto key = [](const Case& c) {
    return std::tuple(c.target, c.finding.Signature(), ProblemHash(c.problem));
  };
  using Key = decltype(key(cases.front().c));
  std::map<Key, std::vector<MergeCase>> equals;
  for (MergeCase& merged : cases) equals[key(merged.c)].push_back(std::move(merged));
  std::vector<MergeCase> unique;
  for (auto& [same, alike] : equals) {
    std::ranges::sort(alike, {}, [](const MergeCase& m) {
      return std::tuple(!m.stays, -static_cast<int>(m.c.state), StoredBytes(m.c), m.path);
    });
    for (size_t i = 1; i < alike.size(); ++i) {
      dropped->push_back({alike[i].path, "the same case as " + alike.front().path.string()});
    }
    unique.push_back(std::move(alike.front()));
  }
  return unique;
}

std::vector<MergeCase> SelectCases(std::vector<MergeCase> cases, int64_t per_bucket,
                                   std::vector<Dropped>* dropped) {
  std::vector<Weighed> weighed = Weigh(std::move(cases));
  Rank(&weighed);
  std::ranges::stable_sort(weighed, {},
                           [](const Weighed& w) { return std::tuple(!w.merged.stays, w.rank); });
  int64_t total = 0;
  std::vector<Weighed> kept;
  for (Weighed& w : weighed) {
    std::string why;
    if (!w.merged.stays) {
      if (w.bytes > kMaxCaseBytes) {
        why = std::to_string(w.bytes) + " bytes, a case has at most " + std::to_string(kMaxCaseBytes);
      } else if (static_cast<int64_t>(w.rank) >= per_bucket &&
                 w.merged.c.state != CaseState::kRegression) {
        why = "bucket " + w.merged.c.bucket.id + " of " + w.merged.c.target + " has its " +
              std::to_string(per_bucket) + " smallest";
      } else if (total + w.bytes > kMaxCorpusBytes) {
        why = "no room: with its " + std::to_string(w.bytes) + " bytes the corpus would be above " +
              std::to_string(kMaxCorpusBytes);
      }
    }
    if (!why.empty()) {
      dropped->push_back({w.merged.path, why});
      continue;
    }
    total += w.bytes;
    kept.push_back(std::move(w));
  }
  std::ranges::sort(kept, {}, &Weighed::name);
  std::vector<MergeCase> selected;
  for (Weighed& w : kept) selected.push_back(std::move(w.merged));
  return selected;
}

}  // namespace plumbline::fuzz
