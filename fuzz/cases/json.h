// SPDX-License-Identifier: Apache-2.0
//
// The JSON that a case file carries beside its tensors: everything in a Case except the elements.

#ifndef PLUMBLINE_FUZZ_CASES_JSON_H_
#define PLUMBLINE_FUZZ_CASES_JSON_H_

#include <optional>
#include <string>

#include "fuzz/base/json.h"
#include "fuzz/cases/file.h"

namespace plumbline::fuzz {

// `expansion` replaces the tensors; it is null if they are in the file.
Json CaseToJson(const Case& c, const Expansion* expansion);

// Writes reduction, layout, ignore_index and the outputs wanted: a problem without its tensors.
Json ProblemToJson(const OwnedProblem& problem);

// Reads everything but the tensors of c->problem. Returns an empty text, or the reason of a refusal,
// naming the key and its value.
std::string CaseFromJson(const Json& json, Case* c, std::optional<Expansion>* expansion);

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_CASES_JSON_H_
