// SPDX-License-Identifier: Apache-2.0
//
// A bucket: findings that look as if they had one cause. Read off the minimised problem, the finding,
// and how the target behaves around the problem; never off the target's name, so that findings of two
// targets may share a bucket, nor off the numbers that came back, which change with the arithmetic.
//
// What survives shrinking is what the finding needs, but not all of that: a tail that is not masked and
// one that is clamped both end at V = 1. What tells them apart is what else fails with every output
// asked for, and what may vary (fuzz/triage/shrink/explain.h). Where both are known the key is made of
// them, and of what the problem says of options, labels and special values; so one cause has one bucket
// whichever output showed it. Where they are not (a case that could not be shrunk), the key is the
// signature and all that the problem says.
//
// How pure buckets are, and how many one cause has, `plumb selftest --seeds K` says of the planted
// defects.

#ifndef PLUMBLINE_FUZZ_CASES_BUCKET_H_
#define PLUMBLINE_FUZZ_CASES_BUCKET_H_

#include <string>
#include <vector>

#include "fuzz/examine/result.h"
#include "fuzz/problem/owned_problem.h"

namespace plumbline::fuzz {

struct Bucket {
  std::string key;  // "bound:logprob N=1 V=2 H=1 offset label=last ..."; characters [ -~]
  std::string id;   // 8 hexadecimal digits, a hash of the key
  bool operator==(const Bucket&) const = default;
};

struct Behaviour {
  std::vector<std::string> also;   // signatures of the problem with every output asked for
  std::vector<std::string> rules;  // Explanation::rules
};

Bucket BucketOf(const OwnedProblem& minimised, const Finding& finding, const Behaviour& seen = {});

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_CASES_BUCKET_H_
