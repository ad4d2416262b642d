// SPDX-License-Identifier: Apache-2.0

#include "tests/fuzz/properties/property.h"

#include <chrono>
#include <cstdlib>

#include "fuzz/cases/file.h"
#include "fuzz/cases/name.h"
#include "fuzz/recipe/expand/expand.h"
#include "fuzz/triage/shrink/shrink.h"

namespace plumbline::fuzz::testing {

std::optional<Finding> WithinBounds(const OwnedProblem& problem, const Target& target) {
  const CaseResult result = Examine(problem, target);
  if (!result.harness_fault.empty()) {
    Finding fault;
    fault.what = "the harness itself is at fault: " + result.harness_fault;
    return fault;
  }
  if (result.findings.empty()) return std::nullopt;
  return result.findings.front();
}

std::filesystem::path NewCasesFolder() {
  const char* folder = std::getenv("PLUMBLINE_CORPUS_NEW");
  return folder != nullptr ? std::filesystem::path(folder)
                           : std::filesystem::path(PLUMBLINE_SOURCE_DIR) / "corpus" / "new";
}

std::optional<std::string> Falsify(const std::string& name, const Property& property,
                                   const Recipe& recipe, const Target& target,
                                   const std::filesystem::path& folder) {
  const OwnedProblem problem = Expand(recipe);
  const std::optional<Finding> found = property(problem, target);
  if (!found) return std::nullopt;

  const StillFails same = [&](const OwnedProblem& candidate) {
    const std::optional<Finding> now = property(candidate, target);
    return now && now->Signature() == found->Signature();
  };
  const ShrinkResult shrunk = Shrink(problem, {found->output, found->row, found->column}, same);

  Case c;
  c.problem = shrunk.problem;
  c.target = target.name();
  c.drawn_by = "property: " + name;
  c.recipe = Format(recipe);
  c.finding = property(shrunk.problem, target).value_or(*found);
  c.extra = Json(Json::Object{});
  std::filesystem::create_directories(folder);
  const std::filesystem::path path = folder / CaseFileName(c);
  std::string error;
  std::string report = name + " does not hold for " + target.name() + ": " + c.finding.what + "\n";
  report += WriteCase(path, c, &error) ? "  minimised to " + std::to_string(ValueCount(c.problem)) +
                                             " values: " + path.string() + "\n"
                                       : "  could not be stored: " + error + "\n";
  return report + "  plumb replay " + path.string() + "\n  plumb fuzz --target " + target.name() +
         " --recipe '" + c.recipe + "'\n";
}

}  // namespace plumbline::fuzz::testing
