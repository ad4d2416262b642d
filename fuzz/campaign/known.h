// SPDX-License-Identifier: Apache-2.0
//
// Findings that a project has accepted, in a JSON file of its own:
//
//   {"known": [{"target": "plugin:./mine.so",     the target that shows it; may be left out: any
//               "signature": "bound:entropy",     as it is printed; or, instead, "bucket": "fa83f5fd"
//               "also": ["bound:loss"],           beside a signature, may be left out: its parts
//               "reason": "entropy is formed in bf16 on purpose",
//               "link": "https://example.org/issues/7",
//               "date": "2025-01-31"}]}
//
// An entry accepts what it names and nothing else: one target, if it names one, and its signatures or
// one bucket, each compared as a whole; "status" accepts every failure (Means in examine/result.h).

#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/base/fields.h"

namespace plumbline::fuzz {

struct KnownFinding {
  std::string target;             // empty: any
  std::string signature, bucket;  // one of them is empty
  std::vector<std::string> also;  // further signatures
  std::string reason, link, date;

  // Returns "bound:entropy on plugin:./mine.so", "bucket fa83f5fd".
  std::string Name() const;
  // True if the entry is about findings of this target, and so may be asked whether it still fails.
  bool Concerns(std::string_view on) const { return target.empty() || target == on; }
};

// `path` must be a regular file. nullopt, with a reason that names file, entry and value, if anything
// is missing or malformed: an entry that names no finding, or two of them the same.
std::optional<std::vector<KnownFinding>> ReadKnown(const std::filesystem::path& path,
                                                   std::string* error);

// Returns the index of the entry that accepts a finding, if one does. `bucket`: the id of its stored
// case's bucket; empty if it has none.
std::optional<size_t> Accepting(const std::vector<KnownFinding>& known, std::string_view target,
                                std::string_view signature, std::string_view bucket);

void Fields(FieldVisitor& io, KnownFinding& known);

}  // namespace plumbline::fuzz
