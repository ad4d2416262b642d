// SPDX-License-Identifier: Apache-2.0
//
// A bucket: findings that look as if they had one cause. Read off the minimised problem and the
// finding, and off nothing else: not the target, so that findings of two targets may share a bucket;
// not the numbers that came back, which change with the arithmetic.
//
// What survives shrinking is what the finding needs, so the key is a list of needs: the signature, the
// extents by class, the options, the values, the label and where the failing element lies. A need is
// named only where it departs from the plainest problem there is, one row of bf16 logits in [0, 1].

#ifndef PLUMBLINE_FUZZ_BUCKET_H_
#define PLUMBLINE_FUZZ_BUCKET_H_

#include <string>

#include "fuzz/examine.h"
#include "fuzz/owned_problem.h"

namespace plumbline::fuzz {

struct Bucket {
  std::string key;  // "bound:logprob N=1 V=2 H=1 offset label=last ..."; characters [ -~]
  std::string id;   // 8 hexadecimal digits, a hash of the key
  bool operator==(const Bucket&) const = default;
};

Bucket BucketOf(const OwnedProblem& minimised, const Finding& finding);

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_BUCKET_H_
