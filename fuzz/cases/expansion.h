// SPDX-License-Identifier: Apache-2.0
//
// A case without tensors: the recipe that its tensors are expanded from, and the few elements in which
// they differ from the expansion. A problem of millions of elements thus fits a file that a person can
// review. In a case's JSON (fuzz/cases/file.h):
//
//   "expansion": {"generator": 1, "recipe": "v1 ...", "absent": ["temperature"],
//                 "overrides": [["weight", 17, "3f80"]], "check": "16 hexadecimal digits"}
//
// An override is a tensor, an element in row-major order, and its bits. Reduction, layout and the
// outputs wanted are in the case's "problem", as in every case. `check` is TensorHash of the expanded
// tensors: if the generator has changed, the case is refused, not replayed as another one.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fuzz/base/fields.h"
#include "fuzz/problem/owned_problem.h"

namespace plumbline::fuzz {

inline constexpr size_t kMaxOverrides = 1024;  // about 32 KiB of JSON

// Limits on the cost of reading a case. 2^27 elements are 512 MiB in fp32. 2^33 multiply-adds (N*V*H,
// which labels=argmax takes) are some ten seconds.
struct ExpansionLimits {
  int64_t elements = int64_t{1} << 27;  // N*H + V*H + 4*N
  int64_t work = int64_t{1} << 33;      // N*V*H
};

struct Expansion {
  struct Override {
    std::string tensor;
    int64_t index = 0;
    uint64_t bits = 0;
    bool operator==(const Override&) const = default;
  };
  std::string recipe;
  std::vector<std::string> absent;  // tensors that the recipe has and the problem has not
  std::vector<Override> overrides;
  uint64_t check = 0;
  bool operator==(const Expansion&) const = default;
};

// FNV-1a over the names, dtypes, shapes and bytes of the tensors.
uint64_t TensorHash(const OwnedProblem& problem);

// Returns nullopt if the recipe does not parse, is beyond the limits, or gives tensors that differ in
// dtype, in shape, or in more than kMaxOverrides elements.
std::optional<Expansion> ExpansionOf(const OwnedProblem& problem, const std::string& recipe);

// Writes the tensors of *problem; the rest of it stays as it is. Returns an empty text, or what was
// refused.
std::string Materialise(const Expansion& expansion, const ExpansionLimits& limits,
                        OwnedProblem* problem);

void Fields(FieldVisitor& io, Expansion& expansion);

}  // namespace plumbline::fuzz
