// SPDX-License-Identifier: Apache-2.0

#include "fuzz/examine/conventions.h"

#include <cstdint>
#include <string_view>
#include <utility>

namespace plumbline::fuzz {
namespace {

using oracle::Convention;
using oracle::ConventionsSeen;
using oracle::ConventionText;

// Calls visit(text, inconsistent) for each convention whose alternative was seen.
template <class Visit>
void ForEachFollowed(const ConventionsSeen& seen, Visit visit) {
  for (const Convention convention : oracle::kConventions) {
    const uint8_t bit = ConventionsSeen::Bit(convention);
    if ((seen.alternative & bit) == 0) continue;
    const ConventionText text = TextOf(convention);
    visit(text, text.exclusive && (seen.definition & bit) != 0);
  }
}

void Side(FieldVisitor& io, std::string_view key, uint8_t* side) {
  std::vector<std::string> names;
  for (const Convention convention : oracle::kConventions) {
    if ((*side & ConventionsSeen::Bit(convention)) != 0) names.emplace_back(TextOf(convention).name);
  }
  io.IfSet(key, names);
  if (!io.reading()) return;
  *side = 0;
  for (const std::string& name : names) {
    bool known = false;
    for (const Convention convention : oracle::kConventions) {
      if (TextOf(convention).name != name) continue;
      *side = static_cast<uint8_t>(*side | ConventionsSeen::Bit(convention));
      known = true;
    }
    if (!known) io.Wrong(key, "names of conventions");
  }
}

}  // namespace

std::vector<std::string> ConventionLines(const ConventionsSeen& seen) {
  std::vector<std::string> lines;
  ForEachFollowed(seen, [&](const ConventionText& text, bool inconsistent) {
    std::string line = std::string(text.subject) + ": ";
    if (inconsistent) line += "inconsistent, " + std::string(text.definition) + " in some cases and ";
    line += text.alternative;
    if (inconsistent) line += " in others";
    lines.push_back(std::move(line) + "; the definition has " + std::string(text.definition));
  });
  return lines;
}

Json ConventionsJson(const ConventionsSeen& seen) {
  Json list(Json::Array{});
  ForEachFollowed(seen, [&](const ConventionText& text, bool inconsistent) {
    list.Append(Json::Object{{"convention", text.name},
                             {"follows", text.alternative},
                             {"definition", text.definition},
                             {"inconsistent", inconsistent}});
  });
  return list;
}

void Fields(FieldVisitor& io, ConventionsSeen& seen) {
  Side(io, "definition", &seen.definition);
  Side(io, "alternative", &seen.alternative);
}

}  // namespace plumbline::fuzz
