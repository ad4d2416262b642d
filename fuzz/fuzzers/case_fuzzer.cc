// SPDX-License-Identifier: Apache-2.0
//
// Reads any bytes as a case file: container, JSON, expansion, and for an accepted case its text, its
// bucket, its name and its bytes. Limits are small, so that an input takes microseconds.

#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

#include "fuzz/cases/file.h"
#include "fuzz/cases/name.h"
#include "fuzz/fuzzers/fuzzers.h"
#include "fuzz/problem/safetensors.h"
#include "fuzz/recipe/expand/expand.h"
#include "fuzz/recipe/recipe.h"

namespace plumbline::fuzz {

namespace {

// Returns tensors for any JSON: those of the smallest problem that has them all.
SafeTensors Container() {
  Recipe recipe;
  std::string error;
  if (!Parse("v1 n=2 v=3 h=2 temperature=2 entropy_grads=ones", &recipe, &error)) std::abort();
  Case c;
  c.problem = Expand(recipe);
  return *ReadSafeTensors(SerializeCase(c), &error);
}

}  // namespace

int FuzzCase(std::span<const std::byte> bytes) {
  std::string error;
  constexpr ExpansionLimits kSmall{.elements = 1 << 12, .work = 1 << 14};
  const std::optional<Case> c = ParseCase(bytes, &error, kSmall);
  if (!c) {
    // A refusal without a reason is a defect, and so is a reason as long as the file.
    if (error.empty() || error.size() > 2048) std::abort();
    return -1;
  }
  // Extents without elements take no bytes in a file, but printing or naming such a problem may take
  // long.
  if (ValueCount(c->problem) <= 1 << 16 && c->problem.vocab() <= 1 << 16) {
    if (Show(*c).empty() || CaseFileName(*c).find('/') != std::string::npos) std::abort();
  }
  // A case that was read is written unchanged and read again.
  const std::vector<std::byte> written = SerializeCase(*c);
  const std::optional<Case> again = ParseCase(written, &error, kSmall);
  if (!again || !(*again == *c) || SerializeCase(*again) != written) std::abort();
  return 0;
}

int FuzzCaseJson(std::span<const std::byte> bytes) {
  static const SafeTensors kContainer = Container();
  const std::string json(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  SafeTensors content;
  // The writer replaces bytes that are not UTF-8 by U+FFFD; FuzzCase gives such bytes to the reader.
  content.metadata["case"] = json;
  if (json.find("\"expansion\"") == json.npos) content.tensors = kContainer.tensors;
  return FuzzCase(WriteSafeTensors(content));
}

}  // namespace plumbline::fuzz
