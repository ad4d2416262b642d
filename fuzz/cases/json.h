// SPDX-License-Identifier: Apache-2.0
//
// The JSON that a case file carries beside its tensors: everything of a Case but the elements.

#ifndef PLUMBLINE_FUZZ_CASES_JSON_H_
#define PLUMBLINE_FUZZ_CASES_JSON_H_

#include <optional>
#include <string>

#include "fuzz/base/json.h"
#include "fuzz/cases/file.h"

namespace plumbline::fuzz {

// `expansion`: what stands in for the tensors; null where they are in the file.
Json CaseToJson(const Case& c, const Expansion* expansion);

// Reduction, layout, ignore_index and the outputs wanted: a problem without its tensors.
Json ProblemToJson(const OwnedProblem& problem);

// Everything but the tensors of c->problem. The reason of a refusal, naming the key and its value;
// empty if there is none.
std::string CaseFromJson(const Json& json, Case* c, std::optional<Expansion>* expansion);

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_CASES_JSON_H_
