// SPDX-License-Identifier: Apache-2.0
//
// The shortcuts that inference knows, each with the words of a contract that declare it
// (fuzz/target/CONTRACTS.md), and sets of them.

#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/baseline/family.h"
#include "kernel/dtype.h"
#include "oracle/output.h"

namespace plumbline::fuzz {

struct Member {
  std::string what;  // "logits rounded to the dtype of hidden"
  // Keys and values that declare it: {"logits", "input"}.
  std::vector<std::pair<std::string, std::string>> words;
  // What it rounds, for a hidden of this dtype. None: a form, which changes no exact value.
  std::function<void(kernel::DType hidden, Shortcuts*)> apply;
  // The output that is stored in this dtype, where that is the shortcut; fp32 stands for hidden's.
  std::optional<oracle::Output> stored = {};
  kernel::DType stored_in = kernel::DType::kF32;

  // Operands of a product: fp32 inputs alone tell. With 16-bit inputs a product has d_logits to round
  // and nothing else, which is a shortcut of its own.
  bool of_fp32_operands = false;
  bool MayTell(kernel::DType hidden) const {
    return !of_fp32_operands || hidden == kernel::DType::kF32;
  }

  // Where two forms explain as much, the one of lower rank is taken; of one rank, the narrower.
  int rank = 0;

  bool IsForm() const { return !apply; }
  bool HasDtypeOfHidden() const { return !IsForm() && HasKey() && words.back().second == "input"; }
  // Not all that is known can be declared.
  bool HasKey() const { return !words.empty(); }
};

// Roundings to the dtype of hidden, to bf16 and to fp16, then accumulators, then forms.
std::vector<Member> Members();

// Members that go together: no two set one key of a contract.
class MemberSet {
 public:
  const std::vector<const Member*>& members() const { return members_; }
  bool CanTake(const Member& member) const;
  MemberSet With(const Member& member) const;
  MemberSet Without(const Member& member) const;
  // As a contract's words; empty for none.
  std::string Words() const;
  // The dtype that an output is stored in; nothing if none of them says.
  std::optional<kernel::DType> StoredIn(oracle::Output output, kernel::DType hidden) const;
  // Beside what is declared.
  Shortcuts RoundingsFor(kernel::DType hidden, Shortcuts declared) const;

 private:
  std::vector<const Member*> members_;
};

}  // namespace plumbline::fuzz
