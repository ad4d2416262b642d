// SPDX-License-Identifier: Apache-2.0
//
// A bucket groups findings that look as if they had one cause. It is read off the minimised problem,
// the finding, and the target's behaviour on problems nearby. It never depends on the target's name, so
// findings of two targets may share a bucket; nor on the numbers that came back, which change with the
// arithmetic.
//
// Shrinking keeps what the finding needs, but that is not enough: a tail that is not masked and one
// that is clamped both end at V = 1. They differ in which other outputs fail when every output is asked
// for, and in what may vary (fuzz/triage/shrink/explain.h). If both are known, the key is made of them
// and of the problem's options, labels and special values, so one cause has one bucket whichever output
// showed it. If they are not known (a case that could not be shrunk), the key is the signature and all
// properties of the problem.
//
// `plumb selftest --seeds K` measures on the mutants how pure buckets are, and how many one cause has.

#pragma once

#include <string>
#include <vector>

#include "fuzz/base/fields.h"
#include "fuzz/examine/result.h"
#include "fuzz/problem/owned_problem.h"

namespace plumbline::fuzz {

struct Bucket {
  std::string key;  // "bound:logprob N=1 V=2 H=1 offset label=last ..."; characters [ -~]
  std::string id;   // 8 hexadecimal digits, a hash of the key
  bool operator==(const Bucket&) const = default;
};

void Fields(FieldVisitor& io, Bucket& bucket);

struct Behaviour {
  std::vector<std::string> also;   // signatures of the problem with every output asked for
  std::vector<std::string> rules;  // Explanation::rules
};

// Returns the words of a key that say which options and special values the problem needs.
std::vector<std::string> NeedsOf(const OwnedProblem& minimised);

Bucket BucketOf(const OwnedProblem& minimised, const Finding& finding, const Behaviour& seen = {});

}  // namespace plumbline::fuzz
