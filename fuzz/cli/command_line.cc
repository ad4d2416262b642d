// SPDX-License-Identifier: Apache-2.0
#include "fuzz/cli/command_line.h"

#include <utility>

namespace plumbline::fuzz {

CLI::App* CommandLine::Add(const std::string& name, const std::string& what, const std::string& example,
                           std::function<ExitStatus()> command) {
  CLI::App* sub = app.add_subcommand(name, what);
  sub->footer("Example:\n  " + example);
  sub->add_flag("--json", console.json, "one JSON object as the last line of stdout");
  sub->callback([this, command = std::move(command)] { run = command; });
  return sub;
}

CLI::App* CommandLine::AddHidden(const std::string& name, std::function<int()> command) {
  CLI::App* sub = app.add_subcommand(name, "")->group("");
  sub->callback([this, command = std::move(command)] { run_hidden = command; });
  return sub;
}

std::optional<std::chrono::milliseconds> ParseTime(std::string_view text, std::string* error) {
  const std::optional<Budget> budget = ParseBudget(text, error);
  if (!budget) return std::nullopt;
  if (budget->cases == 0) return budget->time;
  *error = "'" + std::string(text) + "': the unit is one of ms, s, m, h";
  return std::nullopt;
}

void AddCaseTimeout(CLI::App* app, std::chrono::milliseconds* timeout) {
  AddParsed(app, "--case-timeout", timeout, ParseTime, "a case that takes longer is a hang [20s]");
}

}  // namespace plumbline::fuzz
