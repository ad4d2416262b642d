// SPDX-License-Identifier: Apache-2.0
//
// The command line: one function for each command adds it with its options, beside the command itself.

#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "fuzz/base/exit_status.h"
#include "fuzz/base/units.h"
#include "fuzz/cli/console.h"

namespace plumbline::fuzz {

struct CommandLine {
  CLI::App app{
      "plumb: finds, shrinks and keeps the inputs on which a fused linear cross-entropy is wrong",
      "plumb"};
  Console console;
  // Set by the command that was given. `run` may throw CLI::ParseError: a use of the options that only
  // the command can judge.
  std::function<ExitStatus()> run;
  std::function<int()> run_hidden;  // a command that the program starts itself with

  // Adds a command with its example and --json.
  CLI::App* Add(const std::string& name, const std::string& what, const std::string& example,
                std::function<ExitStatus()> command);
  // Adds a command that help does not list.
  CLI::App* AddHidden(const std::string& name, std::function<int()> command);
};

// Adds an option parsed by `parse` (fuzz/base/units.h). A parse error is reported as a command-line
// error.
template <class Value, class Parsed>
CLI::Option* AddParsed(CLI::App* app, const std::string& name, Value* value,
                       std::optional<Parsed> (*parse)(std::string_view, std::string*),
                       const std::string& what) {
  return app->add_option_function<std::string>(
      name,
      [value, parse, name](const std::string& text) {
        std::string error;
        const std::optional<Parsed> parsed = parse(text, &error);
        if (!parsed) throw CLI::ValidationError(name, error);
        *value = *parsed;
      },
      what);
}

// Adds --case-timeout to a command that runs stored cases.
void AddCaseTimeout(CLI::App* app, std::chrono::milliseconds* timeout);

// Adds --python to a command that runs targets: the interpreter for those in Python.
void AddPython(CLI::App* app);

// Adds --contract, or another option of its values: a named contract, words, or the path of a
// description that ends in .json.
CLI::Option* AddContract(CLI::App* app, std::string* contract);
CLI::Option* AddContract(CLI::App* app, const std::string& option, const std::string& what,
                         std::string* contract);

void AddFuzz(CommandLine* line);
void AddGate(CommandLine* line);
void AddCompare(CommandLine* line);
void AddReplay(CommandLine* line);
void AddShow(CommandLine* line);
void AddMerge(CommandLine* line);
void AddShrink(CommandLine* line);
void AddCheck(CommandLine* line);
void AddReport(CommandLine* line);
void AddTargets(CommandLine* line);
void AddPluginFlags(CommandLine* line);
void AddSelftest(CommandLine* line);
void AddDoctor(CommandLine* line);
// Adds the hidden commands.
void AddWorkers(CommandLine* line);

}  // namespace plumbline::fuzz
