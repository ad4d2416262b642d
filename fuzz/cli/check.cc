// SPDX-License-Identifier: Apache-2.0
#include "fuzz/cli/check.h"

#include <cinttypes>
#include <optional>
#include <utility>

#include "fuzz/base/text.h"
#include "fuzz/cli/command_line.h"

namespace plumbline::fuzz {
namespace {

// Stores a small case of a target that is wrong on the dump. Returns its file; empty if there is none.
std::filesystem::path Keep(const CheckSession& session, const Console& console) {
  const std::optional<DumpCase> kept = session.Keep();
  if (!kept) return {};
  if (kept->file.empty()) {
    console.Say("no case was stored: " + kept->what + "\n");
    return {};
  }
  console.Say(
      Text("shrunk %" PRId64 " -> %" PRId64 " values: ", kept->values_before, kept->values_after) +
      kept->file.string() + "\n       " + kept->what + "\n");
  return kept->file;
}

}  // namespace

ExitStatus CommandCheck(const CheckCommand& command, const Console& console) {
  CheckOptions options = command;
  options.program = console.worker_program;
  Json report = Json(Json::Object{});
  report["dumps"] = Json(Json::Array{});
  ExitStatus status = ExitStatus::kClean;
  Counts counts;
  const std::vector<std::string> nobody = {""};
  for (const std::filesystem::path& path : command.paths) {
    for (const std::string& target : command.targets.empty() ? nobody : command.targets) {
      if (status == ExitStatus::kInterrupted) break;
      CheckSession session(options, target, *console.interrupt);
      Checked checked = session.Check(path);
      if (!checked.text.empty()) console.Say(checked.text);
      if (const std::filesystem::path file = Keep(session, console); !file.empty()) {
        checked.json["case"] = file.string();
      }
      if (!checked.complaint.empty()) console.Complain(checked.complaint);
      counts.cases += checked.json.is_null() ? 0 : 1;
      const bool judged = checked.status == ExitStatus::kClean || checked.findings > 0;
      counts.judged += judged && !checked.json.is_null() ? 1 : 0;
      counts.findings += checked.findings;
      if (!checked.json.is_null()) report["dumps"].Append(std::move(checked.json));
      status = Gravest({status, checked.status});
    }
  }
  return console.Finish(status, counts, std::move(report));
}

void AddCheck(CommandLine* line) {
  auto options = std::make_shared<CheckCommand>();
  CLI::App* sub = line->Add(
      "check", "Judge a dump from a real run: what a kernel computed, or a target on it",
      "plumb check dump.safetensors --rows all", [=] { return CommandCheck(*options, line->console); });
  sub->description(
      "Judge a dump from a real run. DUMP holds hidden [N, H], weight [V, H] and labels [N], "
      "optionally\n"
      "temperature, grad_logprob and grad_entropy. Outputs in it (logprob, entropy, lse, loss, "
      "grad_hidden,\n"
      "grad_weight) are judged as they are, by the bounds of a black box or of --target's contract; "
      "where\n"
      "there are none, --target is run on the inputs and judged. loss and grad_weight depend on "
      "every row\n"
      "and are judged where every row is looked at. fuzz/check/CHECK.md: how to write a dump and "
      "read the "
      "table.");
  sub->add_option("dump", options->paths, "safetensors files; mapped, never read whole")->required();
  sub->add_option(
      "--target", options->targets,
      "whose contract holds [a black box's], and what is run where there is no output [host]; may be "
      "given several times");
  sub->add_flag("--run", options->run, "run the target even where the dump holds outputs");
  AddPython(sub);
  sub->add_option("--contract", options->contract,
                  "whose bounds hold: a named contract (`plumb targets`), or a target's description as "
                  "JSON");
  sub->add_option_function<std::string>(
      "--rows",
      [=](const std::string& text) {
        options->rows = 0;
        if (text != "all")
          options->rows = CLI::detail::lexical_cast(text, options->rows) ? options->rows : -1;
        if (text != "all" && options->rows < 1) {
          throw CLI::ValidationError("--rows", "'" + text + "' is neither a number above 0 nor all");
        }
      },
      "rows looked at, or all [64]");
  AddParsed(sub, "--seed", &options->seed, ParseSeed, "picks the rows [1]");
  sub->add_option("--vocabulary", options->vocabulary,
                  "rows of weight from this number on are padding that a kernel masks [the dump's "
                  "vocabulary_size]");
  sub->add_flag("--deep", options->deep,
                "compare with honest kernels however long that takes, up to 2^26 logits");
  sub->add_option("--threads", options->threads, "of the oracle [2]")->check(CLI::Range(1, 1024));
  AddParsed(sub, "--arbiter", &options->arbiter_time, ParseTime,
            "about how long the arbiter may take over the worst elements [10s]");
  AddParsed(sub, "--timeout", &options->timeout, ParseTime,
            "a target that takes longer is a hang [10m]");
  sub->add_option(
      "--out", options->out,
      "where a target was run and fails: folder for a case shrunk from it [none is stored]");
}

}  // namespace plumbline::fuzz
