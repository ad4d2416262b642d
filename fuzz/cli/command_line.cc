// SPDX-License-Identifier: Apache-2.0
#include "fuzz/cli/command_line.h"

#include <cstdlib>
#include <utility>

#include "fuzz/target/contract_words.h"
#include "fuzz/target/contracts.h"
#include "fuzz/worker/command.h"

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

void AddCaseTimeout(CLI::App* app, std::chrono::milliseconds* timeout) {
  AddParsed(app, "--case-timeout", timeout, ParseTime, "a case that takes longer is a hang [20s]");
}

void AddPython(CLI::App* app) {
  app->add_option_function<std::string>(
      "--python", [](const std::string& path) { setenv(kPythonVariable, path.c_str(), 1); },
      "the interpreter that runs a target python:MODULE:FUNCTION [the active environment's]");
}

CLI::Option* AddContract(CLI::App* app, const std::string& option, const std::string& what,
                         std::string* contract) {
  return app->add_option_function<std::string>(
      option,
      [option, contract](const std::string& name) {
        if (SplitTarget("T@" + name).second != name) {
          throw CLI::ValidationError(
              option, "'" + name + "' is unknown; there are " + ContractNames() + " and holds no @");
        }
        std::string error;
        if (IsContractWords(name) && !DescriptionOf(name, &error)) {
          throw CLI::ValidationError(option, error);
        }
        *contract = name;
      },
      what);
}

CLI::Option* AddContract(CLI::App* app, std::string* contract) {
  return AddContract(
      app, "--contract",
      "hold the target to this contract, not to its own: a name (`plumb targets`), words as in "
      "logits=bf16,matmul=tf32, after a name and a comma if there is one, or a description's path, "
      "which "
      "ends in .json",
      contract);
}

}  // namespace plumbline::fuzz
