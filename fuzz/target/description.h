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
  int64_t hidden_multiple = 1, vocab_multiple = 1, rows_multiple = 1;
};

struct Description {
  std::string name;
  std::string version;
  std::string device = "cpu";  // "cpu" or "cuda"
  Capabilities capabilities;
  oracle::Contract contract;
};

// These read only.
void Fields(FieldVisitor& io, Capabilities& capabilities);
void Fields(FieldVisitor& io, oracle::Contract& contract);
void Fields(FieldVisitor& io, Description& description);

// Validates keys, types and ranges; the error names the key and its value.
std::optional<Description> ParseDescription(std::string_view json, std::string* error);

// Returns the problem that this target is asked to solve. Outputs that it does not have are not asked
// for; without entropy there is no upstream gradient of it; gradients have the inputs' dtype if it has
// no others. What is left is judged in full.
OwnedProblem WithoutWhatItLacks(const Capabilities& can, OwnedProblem problem);

// Returns why this target cannot be held to this problem: the first capability that the problem needs
// and the target does not declare. nullopt if it can. A skipped case is counted as skipped, never as
// passed.
std::optional<std::string> WhySkipped(const Description& target, const OwnedProblem& problem);

}  // namespace plumbline::fuzz
