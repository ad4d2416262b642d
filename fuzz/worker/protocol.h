// SPDX-License-Identifier: Apache-2.0
//
// The protocol between supervisor and worker, over messages (fuzz/worker/message.h). The worker speaks
// first (Hello). Then each Request is answered by one CaseResult, brief (fuzz/worker/brief_result.h) or
// as JSON. A request is a line of JSON; after its newline come the bytes of a case, if it has one.

#ifndef PLUMBLINE_FUZZ_WORKER_PROTOCOL_H_
#define PLUMBLINE_FUZZ_WORKER_PROTOCOL_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fuzz/examine/result.h"
#include "fuzz/problem/owned_problem.h"

namespace plumbline::fuzz {

// This descriptor is not touched by a target that prints to stdout or reads stdin.
inline constexpr int kWorkerSocket = 3;
// The worker's exit status if its target does not load; the Hello says why.
inline constexpr int kWorkerUnavailable = 4;
// The worker's exit status if a case made the device unusable; its last line says why.
inline constexpr int kWorkerDeviceLost = 6;

struct Hello {
  std::string error;  // empty: ready
  std::string name, version, device;
  std::string description;  // JSON, in the target's own words
};

struct Request {
  std::string recipe;                // a recipe line; or, if empty,
  std::vector<std::byte> case_file;  // SerializeCase
  uint64_t seed = 0;                 // ExamineOptions::seed
  bool arbiter = false;              // ExamineOptions::arbiter
  bool arbiter_on_pass = false;      // ExamineOptions::arbiter_on_pass
};

Request RequestFor(const OwnedProblem& problem, uint64_t seed);
Request RequestFor(std::string recipe_line, uint64_t seed);

std::vector<std::byte> Encode(const Hello& hello);
std::vector<std::byte> Encode(const Request& request);
std::vector<std::byte> Encode(const CaseResult& result);

// Returns nullopt, with the reason, for anything that Encode does not write.
std::optional<Hello> DecodeHello(std::span<const std::byte> bytes, std::string* error);
std::optional<Request> DecodeRequest(std::span<const std::byte> bytes, std::string* error);
std::optional<CaseResult> DecodeResult(std::span<const std::byte> bytes, std::string* error);

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_WORKER_PROTOCOL_H_
