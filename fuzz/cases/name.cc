// SPDX-License-Identifier: Apache-2.0

#include "fuzz/cases/name.h"

#include <cinttypes>
#include <filesystem>
#include <string_view>

#include "fuzz/base/hash.h"
#include "fuzz/base/text.h"
#include "fuzz/cases/expansion.h"
#include "fuzz/target/contracts.h"

namespace plumbline::fuzz {
namespace {

std::string NamePart(std::string_view text) {
  constexpr size_t kMaxPart = 64;  // a plug-in's stem may fill a whole file name
  std::string part;
  for (const char c : text.substr(0, kMaxPart)) {
    if (c >= 'A' && c <= 'Z') {
      part += static_cast<char>(c - 'A' + 'a');
    } else {
      const bool allowed = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
      part += allowed ? c : '-';
    }
  }
  return part;
}

std::string Stem(std::string_view path) { return std::filesystem::path(path).stem().string(); }

std::string TargetPart(const std::string& target) {
  constexpr std::string_view kPlugin = "plugin:";
  const auto [plain, contract] = SplitTarget(target);
  const std::string held = contract.empty() ? "" : "-" + NamePart(Stem(contract));
  if (plain.starts_with(kPlugin))
    return "plugin-" + NamePart(Stem(plain.substr(kPlugin.size()))) + held;
  return plain.empty() ? "unknown" : NamePart(plain) + held;
}

}  // namespace

uint64_t ProblemHash(const OwnedProblem& problem) {
  Fnv1a hash(TensorHash(problem));
  hash.Add(ToJson(problem).Dump());
  return hash.value();
}

std::string CaseFileName(const Case& c) {
  uint64_t hash = ProblemHash(c.problem);
  // Two files of contracts may have one name in different folders.
  if (const auto contract = SplitTarget(c.target).second; !contract.empty()) {
    Fnv1a held(hash);
    held.Add(contract);
    hash = held.value();
  }
  const std::string bucket = c.bucket.id.empty() ? BucketOf(c.problem, c.finding).id : c.bucket.id;
  return TargetPart(c.target) + "-" + NamePart(c.finding.Signature()) + "-" + bucket +
         Text("-%08" PRIx32 ".safetensors", static_cast<uint32_t>(hash ^ (hash >> 32)));
}

}  // namespace plumbline::fuzz
