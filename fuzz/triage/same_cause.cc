// SPDX-License-Identifier: Apache-2.0
#include "fuzz/triage/same_cause.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>
#include <utility>

#include "fuzz/base/harness_defect.h"
#include "fuzz/recipe/recipe.h"
#include "fuzz/triage/severity.h"
#include "fuzz/triage/shrink/extent_rule.h"

namespace plumbline::fuzz {
namespace {

using Signatures = std::set<std::string>;

Signatures Shown(const Sighting& sighting) {
  const Cause& cause = sighting.kept->cause;
  Signatures shown(cause.also.begin(), cause.also.end());
  shown.insert(cause.near.begin(), cause.near.end());
  shown.insert(sighting.signature);
  return shown;
}

bool Damages(const Sighting& sighting, const std::string& output) {
  const auto same = [&](const std::string& signature) { return OutputOf(signature) == output; };
  return std::ranges::any_of(Shown(sighting), same);
}

bool Intersect(const Signatures& a, const Signatures& b) {
  return std::ranges::any_of(a, [&](const std::string& signature) { return b.contains(signature); });
}

// Returns the word for an axis; empty if there is none.
std::string_view WordOf(const std::vector<std::string>& words, char axis) {
  for (const std::string& word : words) {
    if (word.size() > 1 && word.front() == axis) return word;
  }
  return {};
}

// "=1%8" of "V>=9=1%8"; empty if the word is no residue.
std::string_view ResidueOf(std::string_view word) {
  const size_t from = word.find_last_of("=!");
  return word.find('%') == std::string_view::npos ? std::string_view() : word.substr(from);
}

// True for a range, and for one extent above 2.
bool IsPlace(std::string_view word) {
  if (word.find('%') != std::string_view::npos || word.size() < 3 || word[1] != '=') return false;
  return word.substr(2) != "1" && word.substr(2) != "2";
}

// What an output that is wrong is expected to show as well.
bool IsConsequence(const Finding& finding) {
  return finding.suspect || finding.kind == FindingKind::kRelation ||
         finding.kind == FindingKind::kConsistency;
}

bool SameExtents(const Sighting& graver, const Sighting& milder, bool strictly) {
  const Cause &g = graver.kept->cause, &m = milder.kept->cause;
  for (const char axis : {'N', 'V', 'H'}) {
    const std::string_view g_own = WordOf(g.rules, axis), g_any = WordOf(g.any_rules, axis);
    const std::string_view m_own = WordOf(m.rules, axis), m_any = WordOf(m.any_rules, axis);
    // An axis that was not tried, for want of time, contradicts nothing.
    const bool untried = (g_own.empty() && g_any.empty()) || (m_own.empty() && m_any.empty());
    if (untried && IsConsequence(milder.finding)) continue;
    const bool unknown = m_any.ends_with(":mixed") || g_any.ends_with(":mixed");
    if (!unknown && ResidueOf(g_any) != ResidueOf(m_any)) return false;
    const auto known = [](std::string_view word, std::string_view own, std::string_view any) {
      return ResidueOf(word).empty() || ResidueOf(word) == ResidueOf(own) ||
             ResidueOf(word) == ResidueOf(any);
    };
    if (!known(g_own, m_own, m_any)) return false;
    if (IsConsequence(milder.finding)) continue;
    if (!known(m_own, g_own, g_any)) return false;
    if (strictly && IsPlace(g_own) && g_own != m_own && g_own != m_any) return false;
  }
  return true;
}

bool IsWrongValue(const Finding& finding) {
  const Severity severity = SeverityOf(finding);
  return severity == Severity::kNonFinite || severity == Severity::kWrong ||
         severity == Severity::kSuspect;
}

// True if `suspect` is a suspect value of an output that is wrong in `wrong`.
bool Follows(const Sighting& suspect, const Sighting& wrong) {
  const std::string& output = suspect.finding.output;
  return suspect.finding.suspect && !wrong.finding.suspect && IsWrongValue(wrong.finding) &&
         !output.empty() && Damages(wrong, output);
}

// True if `status`, a failure that is about no output, needs less than `value`, a wrong value that its
// problem does not show: most cases of a target that always fails show the failure.
bool FailsWithout(const Sighting& status, const Sighting& value) {
  if (status.finding.kind != FindingKind::kStatus || !status.finding.output.empty()) return false;
  if (value.finding.output.empty() || !IsWrongValue(value.finding)) return false;
  const std::vector<std::string>& needs = status.kept->cause.needs;
  return !Shown(status).contains(value.signature) &&
         std::ranges::any_of(value.kept->cause.needs, [&](const std::string& need) {
           return std::ranges::find(needs, need) == needs.end();
         });
}

// True if the rules of `graver` hold at the extents at which `milder` was drawn.
bool FailsWhere(const Sighting& graver, const Sighting& milder) {
  Recipe recipe;
  std::string error;
  const bool drawn = Parse(milder.recipe, &recipe, &error);
  const Cause& cause = graver.kept->cause;
  for (const auto& [axis, extent] :
       {std::pair('N', recipe.n), std::pair('V', recipe.v), std::pair('H', recipe.h)}) {
    const std::string_view own = WordOf(cause.rules, axis), any = WordOf(cause.any_rules, axis);
    if (!drawn && !own.ends_with(":any") && !any.ends_with(":any")) return false;
    if (!FailsAt(own, extent).value_or(true) && !FailsAt(any, extent).value_or(true)) return false;
  }
  return true;
}

// True if the extents and options that `known` needs are those of `other` as it was drawn.
bool HoldsFor(const Sighting& known, const Sighting& other) {
  const std::vector<std::string>& has = other.kept->cause.needs;
  const bool options = std::ranges::all_of(known.kept->cause.needs, [&](const std::string& need) {
    return std::ranges::find(has, need) != has.end();
  });
  return options && FailsWhere(known, other);
}

// True if `infinite` is a number that became infinite, that there was no time to shrink in full, of an
// output that `wrong` makes wrong there: a wrong value that is too large.
bool Overflows(const Sighting& infinite, const Sighting& wrong) {
  const Finding& f = infinite.finding;
  const Cause& cause = infinite.kept->cause;
  const bool told = std::ranges::all_of(std::string_view("NVH"), [&](char axis) {
    return !WordOf(cause.rules, axis).empty() || !WordOf(cause.any_rules, axis).empty();
  });
  return f.kind == FindingKind::kNonFinite && std::isinf(f.got) && std::isfinite(f.expected) && !told &&
         IsShrunk(wrong) && SeverityOf(wrong.finding) == Severity::kWrong && Damages(wrong, f.output) &&
         HoldsFor(wrong, infinite);
}

// Where nothing is known of the milder's extents, for want of time: true if its output is one that the
// graver makes wrong, there and under its options as well. Where the graver was not shrunk either,
// nothing contradicts.
bool Untold(const Sighting& graver, const Sighting& milder) {
  if (IsShrunk(milder) || !milder.kept->note.empty()) return false;
  if (!IsWrongValue(graver.finding) || graver.finding.suspect) return false;
  if (!IsWrongValue(milder.finding) && !IsConsequence(milder.finding)) return false;
  if (milder.finding.output.empty() || !Damages(graver, milder.finding.output)) return false;
  if (!IsShrunk(graver)) return true;
  return HoldsFor(graver, milder);
}

}  // namespace

bool SameCause(const Sighting& a, const Sighting& b) {
  // A rounding is the one's cause, and known not to be the other's.
  if (a.finding.unexplained != b.finding.unexplained) return false;
  const bool shrunk_a = IsShrunk(a), shrunk_b = IsShrunk(b);
  if (!(shrunk_a && shrunk_b) && (Follows(a, b) || Follows(b, a))) return true;
  const Severity of_a = SeverityOf(a.finding), of_b = SeverityOf(b.finding);
  if (of_a <= of_b && Untold(a, b)) return true;
  if (of_b <= of_a && Untold(b, a)) return true;
  if (Overflows(a, b) || Overflows(b, a)) return true;
  if (!shrunk_a && !shrunk_b) return false;
  if (!shrunk_a || !shrunk_b) {
    const Sighting &known = shrunk_a ? a : b, &seldom = shrunk_a ? b : a;
    const bool milder =
        IsWrongValue(seldom.finding) || SeverityOf(known.finding) <= SeverityOf(seldom.finding);
    return IsWrongValue(known.finding) && !known.finding.suspect && !seldom.kept->note.empty() &&
           !seldom.finding.output.empty() && milder && Damages(known, seldom.finding.output);
  }
  const Sighting &graver = of_b < of_a ? b : a, &milder = of_b < of_a ? a : b;
  if (Planted(HarnessDefect::kLinkIsCause)) return Intersect(Shown(graver), Shown(milder));
  const auto shows = [](const Sighting& one, const Sighting& other) {
    const std::vector<std::string>& also = one.kept->cause.also;
    return std::ranges::find(also, other.signature) != also.end();
  };
  // A crash, a status or a write outside is no wrong output, and explains none that its problem does
  // not show.
  if (a.finding.output.empty() || b.finding.output.empty()) {
    if (!shows(a, b) && !shows(b, a)) return false;
    if (FailsWithout(a, b) || FailsWithout(b, a)) return false;
  } else if (!Damages(graver, milder.finding.output) ||
             (of_a == of_b && !Damages(milder, graver.finding.output))) {
    return false;
  }
  const bool expected =
      IsConsequence(milder.finding) && IsWrongValue(graver.finding) && !graver.finding.suspect;
  const Signatures of_graver = Shown(graver);
  if (!expected && !Intersect(of_graver, Shown(milder))) return false;
  if (!SameExtents(graver, milder, of_a != of_b)) return false;
  if (expected || graver.kept->cause.needs == milder.kept->cause.needs) return true;
  Signatures besides(milder.kept->cause.also.begin(), milder.kept->cause.also.end());
  besides.erase(milder.signature);
  return Intersect(besides, of_graver);
}

}  // namespace plumbline::fuzz
