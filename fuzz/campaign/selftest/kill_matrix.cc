// SPDX-License-Identifier: Apache-2.0

#include "fuzz/campaign/selftest/kill_matrix.h"

#include <algorithm>
#include <cinttypes>
#include <utility>

#include "fuzz/base/table.h"
#include "fuzz/base/text.h"
#include "fuzz/campaign/options.h"
#include "fuzz/recipe/recipe.h"
#include "fuzz/recipe/regimes.h"
#include "fuzz/worker/case_runner.h"

namespace plumbline::fuzz {

MatrixRow TryRegimes(const std::string& target, uint64_t seed, int64_t cases,
                     const std::filesystem::path& program, const std::atomic<bool>& interrupt) {
  MatrixRow row;
  row.target = target;
  CaseRunner runner({.target = target, .program = program}, CampaignOptions().GetCaseTimeout(),
                    &interrupt);
  for (const Regime& regime : Regimes()) {
    int64_t after = 0;
    for (int64_t i = 0; i < cases && after == 0 && !interrupt.load(); ++i) {
      const Recipe recipe = DrawRecipe(seed, static_cast<uint64_t>(i), regime.name);
      const Judged judged = runner.Run(RequestFor(Format(recipe), recipe.seed));
      if (judged.kind == Judged::Kind::kUnavailable) row.trouble = judged.error;
      if (!judged.result.harness_fault.empty()) row.trouble = judged.result.harness_fault;
      if (!row.trouble.empty()) return row;
      if (!judged.result.findings.empty()) after = i + 1;
    }
    row.killed_after.push_back(after);
  }
  return row;
}

std::string MatrixText(const std::vector<MatrixRow>& rows, int64_t cases) {
  std::string text =
      Text("which regime kills which mutant, and after how many of %" PRId64 " cases:\n", cases);
  std::vector<std::vector<std::string>> table = {{"mutant"}};
  const std::span<const Regime> regimes = Regimes();
  for (size_t r = 0; r < regimes.size(); ++r) table[0].push_back(std::to_string(r + 1));
  std::vector<int64_t> kills(regimes.size(), 0);
  for (const MatrixRow& row : rows) {
    table.push_back({row.target});
    for (size_t r = 0; r < row.killed_after.size(); ++r) {
      const int64_t after = row.killed_after[r];
      table.back().push_back(after == 0 ? "." : std::to_string(after));
      kills[r] += after > 0;
    }
    if (!row.trouble.empty()) table.back().push_back(row.trouble);
  }
  text += Table(table) + "\n";
  for (size_t r = 0; r < regimes.size(); ++r) {
    text += Text("%3zu %s: kills %" PRId64 " of %zu\n", r + 1, std::string(regimes[r].name).c_str(),
                 kills[r], rows.size());
  }
  for (const MatrixRow& row : rows) {
    const auto able = std::count_if(row.killed_after.begin(), row.killed_after.end(),
                                    [](int64_t after) { return after > 0; });
    if (able == 0) text += row.target + ": no regime kills it\n";
    if (able != 1) continue;
    const auto only = std::find_if(row.killed_after.begin(), row.killed_after.end(),
                                   [](int64_t after) { return after > 0; });
    text += row.target + ": killed by " +
            std::string(regimes[static_cast<size_t>(only - row.killed_after.begin())].name) +
            " alone\n";
  }
  return text;
}

Json MatrixJson(const std::vector<MatrixRow>& rows, int64_t cases) {
  Json json = Json::Object{{"cases", cases}, {"mutants", Json::Array{}}};
  for (const Regime& regime : Regimes()) json["regimes"].Append(regime.name);
  for (const MatrixRow& row : rows) {
    Json entry = Json::Object{{"target", row.target}, {"killed_after", Json::Object{}}};
    for (size_t r = 0; r < row.killed_after.size(); ++r) {
      if (row.killed_after[r] > 0) entry["killed_after"][Regimes()[r].name] = row.killed_after[r];
    }
    if (!row.trouble.empty()) entry["trouble"] = row.trouble;
    json["mutants"].Append(std::move(entry));
  }
  return json;
}

}  // namespace plumbline::fuzz
