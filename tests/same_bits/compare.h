// SPDX-License-Identifier: Apache-2.0
//
// One problem on two targets, in the same memory one after the other, and every byte that they leave
// there compared.
//
// Four rounds: run(), then sizes(), forward() and backward(), each over two poisons; in the second
// round of each the targets change places. Before each call the memory (inputs, outputs, padding, guard
// bands) is put back to what it was before the first. Workspace and saved state are filled likewise
// before forward().
//
// Compared: status, message, sizes, every output element, and every other byte of the memory. Not
// compared: what is in workspace and saved state, which is the operator's own business.
//
// A change of the specification may be stated (Except). Elements that it concerns may then differ.

#pragma once

#include <cstdint>
#include <string>

#include "fuzz/problem/owned_problem.h"
#include "fuzz/target_abi.h"

namespace plumbline::same_bits {

// What has been compared. Plain numbers: it lies in memory that processes share.
struct Counts {
  int64_t cases = 0;
  int64_t not_run = 0;        // cases whose problem could not be expanded or placed
  int64_t different = 0;      // cases with a difference
  int64_t computed = 0;       // cases for which run() said OK
  int64_t calls = 0;          // pairs of calls (run, sizes, forward, backward)
  int64_t outputs = 0;        // pairs of output tensors with at least one element
  int64_t elements = 0;       // pairs of output elements
  int64_t output_bytes = 0;   // bytes of those elements
  int64_t memory_bytes = 0;   // bytes of all memory that was compared, outputs among them
  int64_t rows_excepted = 0;  // rows that the stated change concerns
  int64_t rows_changed = 0;   // those of them that differ
  void Add(const Counts& other);
};

enum class Except : uint8_t {
  kNothing,
  // Rows whose label has a logit of -inf: grad_hidden of the row, and grad_weight of its label.
  kInfiniteLabels,
  // What sizes() says, and the words of a message: tests/blind_mutants asks for outputs alone, over one
  // poison.
  kSizesAndMessages,
};

// Empty where the two are the same on this problem, else the first difference: "run, poison 0:
// logprob[3]: old 0x3f800000, new 0x3f800001". `counts` is added to, but for cases and different.
// Throws what Placement throws.
std::string Compare(const fuzz::OwnedProblem& problem, const plumbline_target_v1& old_target,
                    const plumbline_target_v1& new_target, Except except, Counts* counts);

}  // namespace plumbline::same_bits
