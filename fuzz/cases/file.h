// SPDX-License-Identifier: Apache-2.0
//
// A case: a problem stored with the expected result, the result that came back, and why it matters. It
// is a safetensors file whose metadata has one key, "case", holding JSON. The tensors are hidden,
// weight, labels and, if present, temperature, grad_logprob, grad_entropy. Layout and options are in
// the JSON. Instead of tensors the JSON may hold an "expansion" (fuzz/cases/expansion.h).

#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fuzz/base/json.h"
#include "fuzz/cases/bucket.h"
#include "fuzz/cases/expansion.h"
#include "fuzz/cases/state.h"
#include "fuzz/examine/result.h"
#include "fuzz/problem/owned_problem.h"

namespace plumbline::fuzz {

struct Case {
  OwnedProblem problem;
  CaseState state = CaseState::kNew;
  std::string target;    // the target that failed, e.g. "mutant:tail-unmasked"
  std::string drawn_by;  // one line: what the regime that drew it is for, or how else it was found
  std::string recipe;    // the line that first showed it; empty if it did not come from one
  Finding finding;       // what was seen on `target`
  Bucket bucket;         // read off problem and finding; empty: not known yet
  Json extra;            // object: versions, date, shrink log, history of the state; kept verbatim
  bool operator==(const Case&) const;  // all but `extra`
};

// The case with its tensors, however large they are.
std::vector<std::byte> SerializeCase(const Case& c);

// The bytes of a case's file: SerializeCase, or a form without tensors if that would be above
// kMaxCaseBytes (fuzz/cases/corpus.h) and the problem is little else than what its recipe expands to.
std::vector<std::byte> StoredBytes(const Case& c);

// Reads the JSON in a case's metadata: everything but the tensors of c->problem. Returns an empty text,
// or the reason of a refusal, naming the key and its value.
std::string CaseFromJson(const Json& json, Case* c, std::optional<Expansion>* expansion);

std::optional<Case> ParseCase(std::span<const std::byte> bytes, std::string* error,
                              const ExpansionLimits& limits = {});

// Writes StoredBytes, whole or not at all (WriteWhole of fuzz/base/regular_file.h).
bool WriteCase(const std::filesystem::path& path, const Case& c, std::string* error);

// Reads a case. Errors name the path. Only regular files are opened, and none above kMaxCaseRead is
// read.
inline constexpr uint64_t kMaxCaseRead = uint64_t{256} << 20;
std::optional<Case> ReadCase(const std::filesystem::path& path, std::string* error);

// Text for people and for `git diff`: shapes, options, every tensor (values decimal and hexfloat, large
// tensors abridged), the expected result and the one that came back. It depends on the case alone.
std::string Show(const Case& c);

}  // namespace plumbline::fuzz
