// SPDX-License-Identifier: Apache-2.0
#include "fuzz/cli/command_line.h"
#include "fuzz/cli/report_text.h"
#include "fuzz/target/catalogue.h"
#include "fuzz/target/contracts.h"
#include "fuzz/target/target.h"
#include "fuzz/worker/case_runner.h"

namespace plumbline::fuzz {
namespace {

// Lists all built-in targets, or prints the description of one target of any kind.
ExitStatus CommandTargets(const std::string& target, const Console& console) {
  Json report;
  if (target.empty()) {
    std::vector<std::vector<std::string>> rows;
    for (const BuiltIn& built_in : BuiltInTargets()) {
      rows.push_back({built_in.name, built_in.what});
      report["targets"].Append(Json::Object{{"name", built_in.name}, {"what", built_in.what}});
    }
    rows.push_back({"plugin:PATH.so", "a shared library of yours, see fuzz/target_abi.h"});
    rows.push_back({"python:MODULE:FUNCTION", "a Python function of yours, see fuzz/PYTHON.md"});
    rows.push_back({"TARGET@CONTRACT", "a target that is held to another contract than its own:"});
    for (const NamedContract& contract : NamedContracts()) {
      rows.push_back({"  @" + std::string(contract.name), std::string(contract.what)});
      report["contracts"].Append(
          Json::Object{{"name", contract.name}, {"what", contract.what}, {"contract", contract.json}});
    }
    rows.push_back({"  @PATH.json", "the contract of a description in this file"});
    console.Say(Table(rows));
    return console.Finish(ExitStatus::kClean, {}, std::move(report));
  }

  // A worker is asked, because loading a foreign target runs its code.
  CaseRunner runner({.target = target, .program = console.worker_program}, std::chrono::seconds(20),
                    console.interrupt);
  std::string error;
  if (!runner.Ready(&error)) {
    const bool interrupted = console.interrupt->load();
    console.Complain(interrupted ? "interrupted" : error);
    return console.Finish(interrupted ? ExitStatus::kInterrupted : ExitStatus::kUnavailable);
  }
  const std::optional<Json> description = Json::Parse(runner.hello().description, &error);
  if (!description) {  // the worker has parsed it, so this is not the target's fault
    console.Complain("description: " + error);
    return console.Finish(ExitStatus::kFault);
  }
  for (const BuiltIn& built_in : BuiltInTargets()) {
    if (built_in.name == target) console.Say(target + ": " + built_in.what + "\n");
  }
  const std::optional<Description> parsed = ParseDescription(runner.hello().description, &error);
  Json::Object shown = *description->as_object();  // a description that loaded is one
  if (parsed && !parsed->declaration.empty()) {
    console.Say("found by trying; to declare it, paste this above the function:\n\n" +
                parsed->declaration + "\n\n");
    shown.erase("declaration");
  }
  console.Say(Json(std::move(shown)).Dump(2) +
              "\nwhat is absent has the default of fuzz/target/DESCRIPTION.md\n");
  for (const std::string& line : parsed ? NotShown(*parsed) : std::vector<std::string>()) {
    console.Say("cannot show: " + line + "\n");
    report["cannot_show"].Append(line);
  }
  report["target"] = target;
  report["description"] = *description;
  return console.Finish(ExitStatus::kClean, {}, std::move(report));
}

}  // namespace

void AddTargets(CommandLine* line) {
  auto target = std::make_shared<std::string>();
  CLI::App* const sub = line->Add(
      "targets", "List the built-in targets, or print what one target says of itself",
      "plumb targets plugin:./mine.so", [=] { return CommandTargets(*target, line->console); });
  AddPython(sub);
  sub->add_option("target", *target,
                  "host, host-hopper, cuda, cuda-portable, cuda-simt, cuda-forward-backward, "
                  "mutant:NAME, plugin:PATH.so or python:MODULE:FUNCTION; with @CONTRACT behind it, "
                  "held to that contract");
}

}  // namespace plumbline::fuzz
