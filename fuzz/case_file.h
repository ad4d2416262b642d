// SPDX-License-Identifier: Apache-2.0
//
// A case: a problem stored with what was expected, what came back and why it matters. A safetensors
// file whose metadata has one key, "case", holding JSON; tensors hidden, weight, labels and, where
// present, temperature, grad_logprob, grad_entropy. Layout and options live in the JSON.

#ifndef PLUMBLINE_FUZZ_CASE_FILE_H_
#define PLUMBLINE_FUZZ_CASE_FILE_H_

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fuzz/examine.h"
#include "fuzz/json.h"
#include "fuzz/owned_problem.h"

namespace plumbline::fuzz {

struct Case {
  OwnedProblem problem;
  std::string target;  // the target that failed, e.g. "mutant:tail-unmasked"
  std::string why;     // one line: why this matters
  std::string recipe;  // the line that first showed it; empty if it did not come from one
  Finding finding;     // what was seen on `target`
  Json extra;          // object: versions, date, shrink log; kept verbatim
  bool operator==(const Case&) const;  // all but `extra`
};

std::vector<std::byte> SerializeCase(const Case& c);
std::optional<Case> ParseCase(std::span<const std::byte> bytes, std::string* error);

// Writes to a temporary name beside it, syncs, then renames: a reader never sees half a file.
bool WriteCase(const std::filesystem::path& path, const Case& c, std::string* error);
std::optional<Case> ReadCase(const std::filesystem::path& path, std::string* error);

// "<target>-<signature>-<hash8 of the problem>.safetensors", characters [a-z0-9_.-] only: sorts by
// target and says why. The same minimised problem gets the same name whenever and however it was found.
std::string CaseFileName(const Case& c);

// For people: shapes, options, every tensor (values decimal and hexfloat, large tensors abridged), what
// was expected and what came back.
std::string Show(const Case& c);

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_CASE_FILE_H_
