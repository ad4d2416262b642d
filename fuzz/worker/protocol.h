// SPDX-License-Identifier: Apache-2.0
//
// The protocol between supervisor and worker, over messages (fuzz/worker/message.h). The worker speaks
// first (Hello). Then each Request is answered by one CaseResult. All are records in bytes
// (fuzz/base/fields.h): JSON for each reply took a tenth of a campaign's time. After a request come the
// bytes of a case, if it has one.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/base/fields.h"
#include "fuzz/examine/result.h"
#include "fuzz/problem/owned_problem.h"

namespace plumbline::fuzz {

// The worker's exit status if a case made the device unusable; its last line says why.
inline constexpr int kWorkerDeviceLost = 6;

inline constexpr const char* kNoMessage = "not a message of this protocol";

struct Hello {
  std::string error;  // empty: ready
  std::string name, version, device;
  std::string description;  // JSON, in the target's own words
};

// N, V, H and the dtype: what a target that compiles for each shape compiles for.
using CompiledShape = std::array<int64_t, 4>;
CompiledShape ShapeOf(const OwnedProblem& problem);

struct Request {
  std::string recipe;                // a recipe line; or, if empty,
  std::vector<std::byte> case_file;  // SerializeCase
  uint64_t seed = 0;                 // ExamineOptions::seed
  bool arbiter = false;              // ExamineOptions::arbiter
  bool arbiter_on_pass = false;      // ExamineOptions::arbiter_on_pass
  bool honest_errors = false;        // of a case_file; a recipe line says it by its values
  bool unit_ratios = false;          // ExamineOptions::unit_ratios
  bool tell_apart = false;           // ExamineOptions::tell_apart
  // Not to judge: `recipe` is many lines, of whose results shortcuts are inferred (fuzz/infer/infer.h),
  // run for so many milliseconds. 0: to judge.
  int64_t infer_within = 0;
  // Not sent: more than kManyLogits logits, which take minutes, so the deadline is another
  // (fuzz/worker/case_runner.h).
  bool many_logits = false;
  CompiledShape shape{};  // not sent
};
inline constexpr int64_t kManyLogits = int64_t{1} << 28;

void Fields(FieldVisitor& io, Hello& hello);
void Fields(FieldVisitor& io, Request& request);  // without what is not sent

// `honest_errors`: ExamineOptions::honest_errors.
Request RequestFor(const OwnedProblem& problem, uint64_t seed, bool honest_errors = false);
// Asks what shows this finding, if the problem does.
Request RequestFor(const OwnedProblem& problem, uint64_t seed, const Finding& finding);
Request RequestFor(std::string recipe_line, uint64_t seed);

std::vector<std::byte> Encode(const Request& request);
// Returns nullopt, with the reason, for anything that Encode does not write.
std::optional<Request> DecodeRequest(std::span<const std::byte> bytes, std::string* error);

// Reads a Hello or a CaseResult, which is all of its message. Returns nullopt, with the reason, for
// anything that ToBytes does not write.
template <class R>
std::optional<R> Decode(std::span<const std::byte> bytes, std::string* error) {
  std::optional<R> record = FromBytes<R>(&bytes);
  if (record && bytes.empty()) return record;
  *error = kNoMessage;
  return std::nullopt;
}

// Returns the result of a case that fails with this finding alone.
CaseResult FailedWith(FindingKind kind, std::string_view output, std::string what);

}  // namespace plumbline::fuzz
