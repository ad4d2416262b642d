// SPDX-License-Identifier: Apache-2.0
//
// The description that a target gives of itself, parsed and validated. fuzz/target/DESCRIPTION.md
// defines it.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/problem/owned_problem.h"
#include "fuzz/target/assumptions.h"
#include "kernel/problem.h"
#include "oracle/contract.h"

namespace plumbline::fuzz {

enum class TemperatureSupport : uint8_t { kNone, kScalar, kRow };

struct Capabilities {
  std::vector<kernel::DType> dtypes = {kernel::DType::kBf16, kernel::DType::kF16, kernel::DType::kF32};
  bool vocab_major = true, hidden_major = true;
  bool label_int32 = true, label_int64 = true;
  TemperatureSupport temperature = TemperatureSupport::kRow;
  std::vector<kernel::Reduction> reductions = {kernel::Reduction::kNone, kernel::Reduction::kSum,
                                               kernel::Reduction::kMean};
  bool ignore_index = true, entropy = true, lse = true, grad_hidden = true, grad_weight = true;
  bool fp32_grads = true, strided_inputs = true, zero_stride_grads = true, special_values = true;
  bool invalid_labels = true, deterministic = true, batch_invariant = true;
  bool negative_strides = true, empty_extents = true, first_invalid_row = true;
  int64_t hidden_multiple = 1, vocab_multiple = 1, rows_multiple = 1;
  // In bytes, powers of two: the first element of every tensor lies at a multiple of base_alignment,
  // and every row of a matrix at a multiple of row_alignment.
  int64_t base_alignment = 1, row_alignment = 1;
  bool operator==(const Capabilities&) const = default;
};
// The alignment of tensors that begin without an offset, in bytes: the largest that may be needed.
inline constexpr int64_t kMostAlignment = 64;

struct Description {
  std::string name;
  std::string version;
  std::string device = "cpu";  // "cpu" or "cuda"
  Capabilities capabilities;
  // As declared, each absent key at its default; and what is assumed of absent keys.
  oracle::Contract contract;
  Assumptions assumptions;
  // The same in the words of the target's own side, to be copied from there; for `plumb targets` alone.
  std::string declaration;
  // What the target's own side knows that no check of it can see, a line each.
  std::vector<std::string> cannot_show;

  // The contract that the target is judged by first.
  oracle::Contract Assumed() const { return Assume(contract, assumptions); }
};

// These read only.
void Fields(FieldVisitor& io, Capabilities& capabilities);
void Fields(FieldVisitor& io, Description& description);

// These validate keys, types and ranges; the error names the key and its value.
std::optional<Description> ParseDescription(std::string_view json, std::string* error);
std::optional<Capabilities> ParseCapabilities(std::string_view json, std::string* error);

// Returns the problem that this target is asked to solve. Outputs that it does not have are not asked
// for; without entropy there is no upstream gradient of it; gradients have the inputs' dtype if it has
// no others. Padding and the offset of labels are rounded up to its alignments. What is left is judged
// in full.
OwnedProblem WithoutWhatItLacks(const Capabilities& can, OwnedProblem problem);

// Returns why this target cannot be held to this problem: the first capability that the problem needs
// and the target does not declare. nullopt if it can. A skipped case is counted as skipped, never as
// passed.
std::optional<std::string> WhySkipped(const Description& target, const OwnedProblem& problem);

}  // namespace plumbline::fuzz
