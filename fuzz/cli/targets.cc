// SPDX-License-Identifier: Apache-2.0
#include "fuzz/cli/command_line.h"
#include "fuzz/cli/report_text.h"
#include "fuzz/target/catalogue.h"
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
    console.Say(Table(rows));
    return console.Finish(ExitStatus::kClean, 0, 0, std::move(report));
  }

  // A worker is asked, because loading a foreign target runs its code.
  CaseRunner runner({.target = target, .program = console.worker_program}, std::chrono::seconds(20),
                    console.interrupt);
  std::string error;
  if (!runner.Ready(&error)) {
    const bool interrupted = console.interrupt->load();
    console.Complain(interrupted ? "interrupted" : error);
    return console.Finish(interrupted ? ExitStatus::kInterrupted : ExitStatus::kUnavailable, 0, 0);
  }
  const std::optional<Json> description = Json::Parse(runner.hello().description, &error);
  if (!description) {  // the worker has parsed it, so this is not the target's fault
    console.Complain("description: " + error);
    return console.Finish(ExitStatus::kFault, 0, 0);
  }
  for (const BuiltIn& built_in : BuiltInTargets()) {
    if (built_in.name == target) console.Say(target + ": " + built_in.what + "\n");
  }
  console.Say(description->Dump(2) +
              "\nwhat is absent has the default of fuzz/target/DESCRIPTION.md\n");
  report["target"] = target;
  report["description"] = *description;
  return console.Finish(ExitStatus::kClean, 0, 0, std::move(report));
}

}  // namespace

void AddTargets(CommandLine* line) {
  auto target = std::make_shared<std::string>();
  line->Add("targets", "List the built-in targets, or print what one target says of itself",
            "plumb targets plugin:./mine.so", [=] { return CommandTargets(*target, line->console); })
      ->add_option("target", *target,
                   "host, host-hopper, cuda, cuda-portable, cuda-simt, cuda-forward-backward, "
                   "mutant:NAME or plugin:PATH.so");
}

}  // namespace plumbline::fuzz
