// SPDX-License-Identifier: Apache-2.0
#include "fuzz/worker/protocol.h"

#include <utility>

#include "fuzz/cases/file.h"
#include "fuzz/recipe/recipe.h"

namespace plumbline::fuzz {

void Fields(FieldVisitor& io, Hello& hello) {
  io("error", hello.error);
  io("name", hello.name);
  io("version", hello.version);
  io("device", hello.device);
  io("description", hello.description);
}

void Fields(FieldVisitor& io, Request& request) {
  io("recipe", request.recipe);
  io.As("seed", static_cast<int64_t>(request.seed),
        [&](int64_t seed) { request.seed = static_cast<uint64_t>(seed); });
  io("arbiter", request.arbiter);
  io("arbiter_on_pass", request.arbiter_on_pass);
  io("honest_errors", request.honest_errors);
  io("unit_ratios", request.unit_ratios);
  io("tell_apart", request.tell_apart);
  io("infer_within", request.infer_within);
}

CompiledShape ShapeOf(const OwnedProblem& problem) {
  return {problem.rows(), problem.vocab(), problem.hidden_size(),
          static_cast<int64_t>(problem.hidden.dtype)};
}

Request RequestFor(const OwnedProblem& problem, uint64_t seed, bool honest_errors) {
  Case c;
  c.problem = problem;
  c.extra = Json(Json::Object{});
  const bool many = problem.rows() > 0 && problem.vocab() > kManyLogits / problem.rows();
  return {.recipe = {},
          .case_file = SerializeCase(c),
          .seed = seed,
          .honest_errors = honest_errors,
          .many_logits = many,
          .shape = ShapeOf(problem)};
}

Request RequestFor(const OwnedProblem& problem, uint64_t seed, const Finding& finding) {
  Request request = RequestFor(problem, seed, finding.kind == FindingKind::kMagnitude);
  request.tell_apart = finding.unexplained;
  return request;
}

Request RequestFor(std::string recipe_line, uint64_t seed) {
  Recipe recipe;
  std::string unused;  // the worker says why it cannot be parsed
  const bool many = Parse(recipe_line, &recipe, &unused) && recipe.n * recipe.v > kManyLogits;
  return {.recipe = std::move(recipe_line),
          .case_file = {},
          .seed = seed,
          .many_logits = many,
          .shape = {recipe.n, recipe.v, recipe.h, static_cast<int64_t>(recipe.dtype)}};
}

std::vector<std::byte> Encode(const Request& request) {
  std::vector<std::byte> bytes = ToBytes(request);
  bytes.insert(bytes.end(), request.case_file.begin(), request.case_file.end());
  return bytes;
}

std::optional<Request> DecodeRequest(std::span<const std::byte> bytes, std::string* error) {
  std::optional<Request> request = FromBytes<Request>(&bytes);
  if (request) {
    request->case_file.assign(bytes.begin(), bytes.end());
  } else {
    *error = kNoMessage;
  }
  return request;
}

CaseResult FailedWith(FindingKind kind, std::string_view output, std::string what) {
  CaseResult result;
  result.verdict = oracle::Verdict::kFail;
  Finding& finding = result.findings.emplace_back();
  finding.kind = kind;
  finding.output = output;
  finding.what = std::move(what);
  return result;
}

}  // namespace plumbline::fuzz
