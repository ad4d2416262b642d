// SPDX-License-Identifier: Apache-2.0
//
// What tells whether two shrunk findings of one target have one cause (fuzz/triage/same_cause.h): what
// each problem shows besides, what its neighbours show, and what it needs. Explaining a finding
// measures all of it.

#pragma once

#include <string>
#include <vector>

#include "fuzz/base/fields.h"

namespace plumbline::fuzz {

struct Cause {
  std::vector<std::string> also;       // signatures that the problem shows with every output asked for
  std::vector<std::string> near;       // those that the tries of its explanation showed
  std::vector<std::string> rules;      // words for N, V and H (Explanation::rules)
  std::vector<std::string> any_rules;  // the same by failing in any way
  std::vector<std::string> needs;      // options and special values that the problem has
  bool operator==(const Cause&) const = default;
};

void Fields(FieldVisitor& io, Cause& cause);

}  // namespace plumbline::fuzz
