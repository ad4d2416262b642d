// SPDX-License-Identifier: Apache-2.0
//
// The honest kernels whose verdicts are counted, each with the contract that it is held to:
//
//   foreign   the 24 kernels of tests/fuzz/honest, each by what it declares itself
//   form      an order of the sums that a named contract allows and none of its baselines takes
//   beyond    likewise, where no hardware is known that does it: measured, and not counted
//   baseline  a member of a black box's family, against that family without every baseline of its dot
//   product.
//             A family without its largest dot product is no family of its contract, so Volta's is no
//             target; nor is one of a contract with one dot product, whose forms each have an error of
//             their own.
//   target    this project's own operators on the host, by what they declare

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fuzz/baseline/family.h"
#include "fuzz/target/target.h"
#include "oracle/contract.h"
#include "tests/fuzz/honest/kernel.h"

namespace plumbline::false_alarms {

struct Member {
  std::string name;  // "foreign:flash"
  oracle::Contract contract;
  bool only_sixteen_bits = false;

  // One of these three.
  std::optional<honest::Kernel> kernel;
  std::optional<size_t> baseline;  // its place in its contract's family
  const fuzz::Target* target = nullptr;

  bool pairwise = false;  // a kernel's logits: in a tree
};

class Members {
 public:
  // runtime_error, with the reason, if a contract is unknown or does not parse.
  Members();
  const std::vector<Member>& all() const { return all_; }

 private:
  void AddForeign();
  void AddForms();
  void AddBaselines();
  void AddTarget(const std::string& name);

  std::vector<Member> all_;
  std::vector<std::unique_ptr<fuzz::Target>> targets_;
};

// The family that a member's errors are measured in.
fuzz::Family FamilyFor(const Member& member, kernel::DType inputs);
// A member that is a baseline, for inputs of this dtype.
fuzz::Baseline BaselineOf(const Member& member, kernel::DType inputs);

}  // namespace plumbline::false_alarms
