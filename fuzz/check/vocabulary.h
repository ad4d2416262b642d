// SPDX-License-Identifier: Apache-2.0
//
// A padded vocabulary: rows of weight from `vocabulary_size` on belong to no token, and a kernel masks
// them. They take no part in the softmax, a label there is invalid, and their rows of grad_weight are
// 0.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "fuzz/check/dump.h"
#include "fuzz/check/report.h"

namespace plumbline::fuzz {

// Cuts weight, and grad_weight if it has as many rows, to the first vocabulary_size rows, which stay
// where they are. `asked`, if given, goes before the metadata. Returns a refusal that names the key and
// its value; empty if there is none.
std::string CutVocabulary(const std::map<std::string, std::string>& metadata,
                          std::optional<int64_t> asked, Dump* dump);

// What the padding's rows of grad_weight hold. Every element of them is looked at, as they depend on no
// row of hidden.
struct PaddingVerdict {
  int64_t judged = 0, wrong = 0;  // elements
  int64_t row = -1, column = -1;  // the first wrong one, by its place in grad_weight
  double got = 0;
};
PaddingVerdict JudgePadding(const Dump& dump);

// Adds the finding, if there is one, and what a report says of the padding.
void ReportPadding(const Dump& dump, bool ran, DumpReport* report);

}  // namespace plumbline::fuzz
