// SPDX-License-Identifier: Apache-2.0
//
// How much of a contract key's term a kernel uses: its error on problems made for that, over what the
// key adds to the bound.

#pragma once

#include <functional>
#include <string>
#include <vector>

#include "fuzz/problem/owned_problem.h"
#include "oracle/contract.h"

namespace plumbline::fuzz {

// A problem of fp32 rows, or of another dtype if that is set; what is empty is absent.
struct Rows {
  kernel::DType dtype = kernel::DType::kF32;
  int64_t h = 1;
  std::vector<float> hidden = {1}, weight;  // [N, H], [V, H]
  std::vector<int64_t> labels = {0};
  float temperature = 1;
  float g = 1, k = 0;  // of every row
};
OwnedProblem ProblemOf(const Rows& rows);

// One key. `narrow` gives it its narrowest value, which leaves its term out of the bounds.
struct Key {
  std::string name;    // as in DESCRIPTION.md, without "contract."
  std::string kernel;  // the foreign kernel that declares it, or "simulated"
  std::function<void(oracle::Contract*)> narrow;
  std::function<std::vector<Rows>()> problems;
};
const std::vector<Key>& Keys();
// Keys that move what is exact and do not widen a bound.
const std::vector<Key>& MovingKeys();

struct Reach {
  // The largest |error| / (bound with the key - bound without it), at most 1, among elements whose
  // error is beyond the bound without the key. 0: there is no such element.
  double share = 0;
  std::string output;  // its output
  int exceeded = 0;    // elements beyond the bound with the key: must be 0
  int without = 0;     // elements beyond the bound without it
};
Reach Measure(const Key& key);

}  // namespace plumbline::fuzz
