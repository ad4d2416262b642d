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
  std::sort(weighed->begin(), weighed->end(),
            [&](const Weighed& a, const Weighed& b) { return order(a) < order(b); });
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
  const auto key = [](const MergeCase& m) {
    return std::tuple(m.c.target, m.c.finding.Signature(), ProblemHash(m.c.problem));
  };
  using Key = decltype(key(cases.front()));
  struct Entry {
    Key key;
    bool moves = false;
    int below = 0;  // states under the highest
    std::vector<std::byte> bytes;
    MergeCase merged;
  };
  std::vector<Entry> entries;
  for (MergeCase& merged : cases) {
    Entry entry{.key = key(merged),
                .moves = !merged.stays,
                .below = -static_cast<int>(merged.c.state),
                .bytes = StoredBytes(merged.c),
                .merged = {}};
    entry.merged = std::move(merged);
    entries.push_back(std::move(entry));
  }
  const auto order = [](const Entry& e) {
    return std::tie(e.key, e.moves, e.below, e.bytes, e.merged.path);
  };
  std::sort(entries.begin(), entries.end(),
            [&](const Entry& a, const Entry& b) { return order(a) < order(b); });
  std::vector<MergeCase> unique;
  for (size_t i = 0; i < entries.size(); ++i) {
    const bool again = i > 0 && entries[i].key == entries[i - 1].key;
    if (again) {
      dropped->push_back({entries[i].merged.path, "the same case as " + unique.back().path.string()});
    } else {
      unique.push_back(std::move(entries[i].merged));
    }
  }
  return unique;
}

std::vector<MergeCase> SelectCases(std::vector<MergeCase> cases, int64_t per_bucket,
                                   std::vector<Dropped>* dropped) {
  std::vector<Weighed> weighed = Weigh(std::move(cases));
  Rank(&weighed);
  std::stable_sort(weighed.begin(), weighed.end(), [](const Weighed& a, const Weighed& b) {
    return std::tuple(!a.merged.stays, a.rank) < std::tuple(!b.merged.stays, b.rank);
  });
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
  std::sort(kept.begin(), kept.end(),
            [](const Weighed& a, const Weighed& b) { return a.name < b.name; });
  std::vector<MergeCase> selected;
  for (Weighed& w : kept) selected.push_back(std::move(w.merged));
  return selected;
}

}  // namespace plumbline::fuzz
