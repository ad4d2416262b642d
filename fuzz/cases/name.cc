// SPDX-License-Identifier: Apache-2.0

#include "fuzz/cases/name.h"

#include <cinttypes>
#include <filesystem>
#include <string_view>

#include "fuzz/base/hash.h"
#include "fuzz/base/text.h"
#include "fuzz/cases/expansion.h"

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

std::string TargetPart(const std::string& target) {
  constexpr std::string_view kPlugin = "plugin:";
  if (target.starts_with(kPlugin)) {
    return "plugin-" + NamePart(std::filesystem::path(target.substr(kPlugin.size())).stem().string());
  }
  return target.empty() ? "unknown" : NamePart(target);
}

}  // namespace

uint64_t ProblemHash(const OwnedProblem& problem) {
  Fnv1a hash(TensorHash(problem));
  hash.Add(ToJson(problem).Dump());
  return hash.value();
}

std::string CaseFileName(const Case& c) {
  const uint64_t hash = ProblemHash(c.problem);
  const std::string bucket = c.bucket.id.empty() ? BucketOf(c.problem, c.finding).id : c.bucket.id;
  return TargetPart(c.target) + "-" + NamePart(c.finding.Signature()) + "-" + bucket +
         Text("-%08" PRIx32 ".safetensors", static_cast<uint32_t>(hash ^ (hash >> 32)));
}

}  // namespace plumbline::fuzz
