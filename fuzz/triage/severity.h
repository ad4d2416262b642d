// SPDX-License-Identifier: Apache-2.0
//
// How grave a finding is. Reports rank findings by it, and the gravest signature of a case leads the
// others.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "fuzz/triage/sighting.h"

namespace plumbline::fuzz {

enum class Severity : uint8_t {  // the gravest first
  kCrash,
  kHang,
  kMemory,     // a write outside its outputs
  kNonFinite,  // NaN or infinity
  kWrong,
  kSuspect,
  kNondeterministic,
  kBatchVariant,
  kConsistency,  // outputs that contradict each other
  kRelation,     // another result for a related problem
  kSlip,         // seen while another finding was shrunk, and shown by no recipe
};

std::string_view Name(Severity severity);
Severity SeverityOf(const Finding& finding);

// Returns the output that a signature names; empty if it names none.
std::string OutputOf(std::string_view signature);

// True if `a` leads `b` where both are new in one case: what was seen twice before what was not, what
// is wrong before what is suspect, then by severity, then the earlier in the operator's data flow (lse,
// logprob, loss, entropy, grad_hidden, grad_weight), then by name.
bool Leads(const Sighting& a, const Sighting& b);

}  // namespace plumbline::fuzz
