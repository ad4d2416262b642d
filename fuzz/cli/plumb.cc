// SPDX-License-Identifier: Apache-2.0
//
// The program: it reads the command line and calls a command of fuzz/cli/commands.h.
#include <signal.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "fuzz/base/fp_environment.h"
#include "fuzz/base/version.h"
#include "fuzz/check/run.h"
#include "fuzz/cli/commands.h"
#include "fuzz/cli/parsed_option.h"
#include "fuzz/gpu/production/worker.h"
#include "fuzz/worker/protocol.h"
#include "fuzz/worker/worker.h"

namespace plumbline::fuzz {
namespace {

std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "set from a signal handler");

// The first signal asks for an orderly end; SA_RESETHAND lets the second one end the process at once.
void WatchSignals() {
  struct sigaction action {};
  action.sa_handler = [](int) { interrupted.store(true); };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  // A write beyond a file's size limit must fail with an error, not end the process.
  signal(SIGXFSZ, SIG_IGN);
}

struct Line {
  CLI::App app{
      "plumb: finds, shrinks and keeps the inputs on which a fused linear cross-entropy is wrong",
      "plumb"};
  Console console;
  std::function<ExitStatus()> command;

  CampaignOptions fuzz;
  ReplayCommand replay;
  CaseFiles show;
  std::filesystem::path textconv;
  MergeCommand merge;
  ShrinkCommand shrink;
  SelftestCommand selftest;
  CheckCommand check;
  bool doctor_probe = false;
  DumpRunSpec check_run;
  bool production = false;
  int64_t production_milliseconds = 0;
  ProductionWork production_work;
  std::string target;
  std::string worker_target;
  int64_t worker_memory = 0;
  pid_t parent = 0;

  CLI::App* Add(const std::string& name, const std::string& what, const std::string& example, bool json,
                std::function<ExitStatus()> run) {
    CLI::App* sub = app.add_subcommand(name, what);
    sub->footer("Example:\n  " + example);
    if (json) sub->add_flag("--json", console.json, "one JSON object as the last line of stdout");
    sub->callback([this, run = std::move(run)] { command = run; });
    return sub;
  }

  void AddFuzz() {
    CLI::App* sub = Add("fuzz", "Hunt: case after case until the budget ends",
                        "plumb fuzz --target host --budget 60s --seed 1 --out hunt", true, [this] {
                          if (fuzz.targets.empty() && !fuzz.resume) {
                            throw CLI::RequiredError("--target, or --resume");
                          }
                          if (production || (fuzz.resume && IsProductionCampaign(fuzz.out))) {
                            return CommandProduction(fuzz, console);
                          }
                          return CommandFuzz(fuzz, console);
                        });
    auto* targets = sub->add_option(
        "--target", fuzz.targets,
        "host, host-hopper, cuda, cuda-portable, cuda-simt, cuda-forward-backward, mutant:NAME or "
        "plugin:PATH.so; may be repeated; see `plumb targets`");
    targets->allow_extra_args(false);
    AddOptional<Budget>(sub, "--budget", &fuzz.budget, ParseBudget,
                        "90s, 10m, 2h or 5000cases (for each target) [60s]");
    auto* seed =
        AddParsed(sub, "--seed", &fuzz.seed, ParseSeed, "decimal or 0x hexadecimal [random, printed]");
    auto* regime = sub->add_option("--regime", fuzz.regime, "this family of recipes only");
    auto* recipe =
        sub->add_option("--recipe", fuzz.recipe, "this one case only, as a finding prints it");
    auto* of_production = sub->add_flag(
        "--production", production,
        "cases of production size, made and judged on the GPU; goes on with what is in --out");
    auto* corpus = sub->add_option("--corpus", fuzz.corpus, "cases to replay first, a folder [none]");
    auto* blind = sub->add_flag("--blind", fuzz.blind,
                                "draws alone: no level one, and nothing that was seen has a say");
    auto* shard = AddParsed(sub, "--shard", &fuzz.shard, ParseShard,
                            "I/N: part I of N that share a seed and no case [0/1]");
    AddParsed(sub, "--worker-memory", &fuzz.worker_memory, ParseBytes,
              "what a worker may allocate once its target is loaded, on the CPU; 0: no limit [4GiB]");
    auto* out = sub->add_option("--out", fuzz.out, "folder for all that is found [plumb-out-TIME]");
    sub->add_option("--jobs", fuzz.jobs, "cases at the same time [one a hardware thread]")
        ->check(CLI::Range(1, 1024));
    sub->add_option_function<int64_t>(
           "--stop-after", [this](int64_t count) { fuzz.stop_after = count; },
           "distinct findings; 0: no limit")
        ->check(CLI::NonNegativeNumber);
    AddOptional<std::chrono::milliseconds>(sub, "--case-timeout", &fuzz.case_timeout, ParseTime,
                                           "a case that takes longer is a hang [20s]");
    auto* resume = sub->add_option_function<std::string>(
        "--resume",
        [this](const std::string& dir) {
          fuzz.resume = true;
          fuzz.out = dir;
        },
        "go on with the campaign in this folder");
    for (CLI::Option* other : {targets, seed, regime, recipe, corpus, blind, shard, out})
      resume->excludes(other);
    for (CLI::Option* other : {regime, corpus, blind, shard}) {
      recipe->excludes(other);
      of_production->excludes(other);
    }
    blind->excludes(corpus);
    for (const char* name : {"--worker-memory", "--jobs", "--stop-after"}) {
      of_production->excludes(sub->get_option(name));
    }
    seed_option = seed;
  }

  template <class Value>
  static void AddOptional(CLI::App* sub, const std::string& name, std::optional<Value>* value,
                          std::optional<Value> (*parse)(std::string_view, std::string*),
                          const std::string& what) {
    sub->add_option_function<std::string>(
        name,
        [value, parse, name](const std::string& text) {
          std::string error;
          *value = parse(text, &error);
          if (!*value) throw CLI::ValidationError(name, error);
        },
        what);
  }

  void AddCases() {
    CLI::App* sub = Add("replay", "Run stored cases and say whether they still fail",
                        "plumb replay corpus --target host", true,
                        [this] { return CommandReplay(replay, console); });
    sub->add_option("path", replay.paths, "case files, or folders of them")->required();
    sub->add_option("--target", replay.target, "instead of the target that each case names");
    AddParsed(sub, "--case-timeout", &replay.case_timeout, ParseTime,
              "a case that takes longer is a hang [20s]");
    sub->add_flag("--update", replay.update,
                  "write states that changed: new, confirmed, fixed, regression (corpus/README.md)");
    sub->add_option("--junit", replay.junit, "write the results to this file as JUnit XML");

    sub = Add("show", "Print stored cases: shapes, options, values, what was expected and what came",
              "plumb show hunt/findings", false, {});
    auto* path = sub->add_option("path", show.paths, "case files, or folders of them");
    auto* convert = sub->add_option(
        "--textconv", textconv, "one file as text and nothing else, for git diff (corpus/README.md)");
    path->excludes(convert);
    sub->callback([this, sub] {
      if (show.paths.empty() && textconv.empty()) throw CLI::RequiredError("path");
      command = [this] {
        return textconv.empty() ? CommandShow(show, console) : CommandTextconv(textconv, console);
      };
    });

    sub = Add("merge", "Merge the cases of campaigns and corpora into one corpus",
              "plumb merge hunt other-hunt --out corpus", true,
              [this] { return CommandMerge(merge, console); });
    sub->add_option("path", merge.paths, "folders of campaigns or cases, or case files")->required();
    sub->add_option("--out", merge.out, "the corpus; what lies in it stays")->required();
    sub->add_option("--target", merge.target, "instead of the target that each case names");
    sub->add_option("--per-bucket", merge.per_bucket, "cases kept of one cause on one target [3]")
        ->check(CLI::PositiveNumber);
    AddParsed(sub, "--case-timeout", &merge.case_timeout, ParseTime,
              "a case that takes longer is a hang [20s]");

    sub = Add("shrink", "Shrink stored cases further, and say what of them may vary",
              "plumb shrink case.safetensors --target mutant:tail-unmasked --out small.safetensors",
              true, [this] { return CommandShrink(shrink, console); });
    sub->add_option("path", shrink.paths, "case files, or folders of them")->required();
    sub->add_option("--target", shrink.target, "instead of the target that the case names");
    sub->add_option(
        "--out", shrink.out,
        "the file to write, of several cases the folder [beside each, named after its content]");
    AddParsed(sub, "--time", &shrink.time, ParseTime, "at most this long a case [30s]");
    AddParsed(sub, "--case-timeout", &shrink.case_timeout, ParseTime,
              "a case that takes longer is a hang [20s]");
  }

  void AddCheck() {
    CLI::App* sub =
        Add("check", "Judge a dump from a real run: what a kernel computed, or a target on it",
            "plumb check dump.safetensors --rows all", true,
            [this] { return CommandCheck(check, console); });
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
    sub->add_option("dump", check.paths, "safetensors files; mapped, never read whole")->required();
    sub->add_option(
        "--target", check.targets,
        "whose contract holds [a black box's], and what is run where there is no output [host]; may be "
        "given several times");
    sub->add_flag("--run", check.run, "run the target even where the dump holds outputs");
    sub->add_option("--contract", check.contract,
                    "a target's description as JSON: its contract is used instead")
        ->check(CLI::ExistingFile);
    sub->add_option_function<std::string>(
        "--rows",
        [this](const std::string& text) {
          check.rows = 0;
          if (text != "all") check.rows = CLI::detail::lexical_cast(text, check.rows) ? check.rows : -1;
          if (text != "all" && check.rows < 1) {
            throw CLI::ValidationError("--rows", "'" + text + "' is neither a number above 0 nor all");
          }
        },
        "rows looked at, or all [64]");
    AddParsed(sub, "--seed", &check.seed, ParseSeed, "picks the rows [1]");
    sub->add_option("--threads", check.threads, "of the oracle [2]")->check(CLI::Range(1, 1024));
    AddParsed(sub, "--arbiter", &check.arbiter_time, ParseTime,
              "about how long the arbiter may take over the worst elements [10s]");
    AddParsed(sub, "--timeout", &check.timeout, ParseTime,
              "a target that takes longer is a hang [10m]");
    sub->add_option(
        "--out", check.out,
        "where a target was run and fails: folder for a case shrunk from it [none is stored]");

    // CommandCheck starts this command to run a target in. It is hidden from the help.
    sub = app.add_subcommand("check-worker", "")->group("");
    sub->add_option("--target", check_run.target)->required();
    sub->add_option("--dump", check_run.dump)->required();
    sub->add_option("--rows", check_run.rows)->required();
    sub->add_option("--seed", check_run.seed)->required();
    sub->add_option("--parent", parent)->required();
  }

  void AddRest() {
    CLI::App* sub =
        Add("targets", "List the built-in targets, or print what one target says of itself",
            "plumb targets plugin:./mine.so", true, [this] { return CommandTargets(target, console); });
    sub->add_option("target", target,
                    "host, host-hopper, cuda, cuda-portable, cuda-simt, cuda-forward-backward, "
                    "mutant:NAME or plugin:PATH.so");

    sub = Add(
        "selftest",
        "Hunt every planted defect; all must be found, and what they are mutants of must stay clean",
        "plumb selftest --mutant tail-unmasked", true,
        [this] { return CommandSelftest(selftest, console); });
    sub->add_option("--mutant", selftest.mutant, "this one only, or any other built-in target");
    auto* hopper = sub->add_flag_callback(
        "--hopper", [this] { selftest.family = SelftestCommand::Family::kHopper; },
        "the mutants of host-hopper instead of host's");
    sub->add_flag_callback(
           "--cuda", [this] { selftest.family = SelftestCommand::Family::kCuda; },
           "those of the CUDA operator; needs a GPU")
        ->excludes(hopper);
    AddParsed(sub, "--seed", &selftest.seed, ParseSeed, "decimal or 0x hexadecimal [1]");
    sub->add_option("--seeds", selftest.seeds, "hunts for each mutant, with consecutive seeds [1]")
        ->check(CLI::Range(1, 1'000));
    sub->add_option("--matrix", selftest.matrix,
                    "also try each regime by itself, for this many cases a mutant")
        ->check(CLI::Range(int64_t{1}, int64_t{1'000'000}));
    sub->add_option("--jobs", selftest.jobs, "mutants at the same time [one a hardware thread]")
        ->check(CLI::Range(1, 1'024));
    AddParsed(sub, "--budget", &selftest.budget, ParseBudget,
              "for each mutant and for host [1000cases]");
    sub->add_option("--out", selftest.out, "keep everything in this folder");

    sub = Add("doctor", "Describe this machine and check its arithmetic", "plumb doctor --json", true,
              [this] { return CommandDoctor(console, "CLI11 " CLI11_VERSION, doctor_probe); });
    sub->add_flag("--probe", doctor_probe,
                  "also measure whether the GPU keeps what the CUDA targets declare, under a minute");

    // CommandProduction starts this command. It is hidden from the help.
    sub = app.add_subcommand("production-worker", "")->group("");
    sub->add_option("--target", production_work.targets)->required()->allow_extra_args(false);
    sub->add_option("--seed", production_work.seed)->required();
    sub->add_option("--recipe", production_work.recipe);
    sub->add_option("--first", production_work.first)->required();
    sub->add_option("--last", production_work.last)->required();
    sub->add_option("--milliseconds", production_milliseconds)->required();
    sub->add_option("--out", production_work.out)->required();
    sub->add_option("--parent", production_work.parent)->required();

    // The supervisor starts this command. It is hidden from the help.
    sub = app.add_subcommand("worker", "")->group("");
    sub->add_option("--target", worker_target)->required();
    sub->add_option("--parent", parent)->required();
    sub->add_option("--memory", worker_memory);
  }

  CLI::Option* seed_option = nullptr;
};

ExitStatus Usage(const Line& line, const CLI::App* nearest, const std::string& message) {
  line.console.Complain(message);
  std::fputs(("\n" + nearest->help()).c_str(), stderr);
  return line.console.Finish(ExitStatus::kUsage, 0, 0);
}

int Main(int argc, char** argv) {
  Line line;
  line.console.program = argc > 0 ? argv[0] : "plumb";
  line.console.interrupt = &interrupted;
  line.app.set_version_flag("--version", "plumb " + std::string(kVersion));
  line.app.require_subcommand(1);
  line.app.footer(
      "Exit status: 0 clean, 1 findings, 2 usage, 3 fault of the harness, 4 target unavailable,\n"
      "5 interrupted. `plumb COMMAND --help` explains a command.");
  line.AddFuzz();
  line.AddCases();
  line.AddCheck();
  line.AddRest();

  // Finds the command that the error is about, to print its help.
  const auto nearest = [&]() -> const CLI::App* {
    const auto parsed = line.app.get_subcommands();
    return parsed.empty() ? &line.app : parsed.front();
  };
  try {
    line.app.parse(argc, argv);
  } catch (const CLI::Success& success) {  // --help and --version
    return line.app.exit(success);
  } catch (const CLI::ParseError& error) {
    // CLI11 would say that a command is missing, not that this one does not exist.
    const std::string first = argc > 1 ? argv[1] : "";
    const bool unknown = !first.empty() && first.front() != '-' && line.app.get_subcommands().empty();
    return static_cast<int>(
        Usage(line, nearest(), unknown ? "there is no command '" + first + "'" : error.what()));
  }
  if (line.app.got_subcommand("worker"))
    return RunWorker(line.worker_target, line.parent, kWorkerSocket, line.worker_memory);
  if (line.app.got_subcommand("production-worker")) {
    line.production_work.time = std::chrono::milliseconds(line.production_milliseconds);
    return RunProduction(line.production_work);
  }
  if (line.app.got_subcommand("check-worker")) return ServeDumpRun(line.check_run, line.parent);

  WatchSignals();
  if (const std::string fault = FpEnvironmentFault();
      !fault.empty() && !line.app.got_subcommand("doctor")) {
    line.console.Complain("this machine's arithmetic: " + fault);
    return static_cast<int>(line.console.Finish(ExitStatus::kFault, 0, 0));
  }
  if (line.seed_option->count() == 0) {
    std::random_device device;
    line.fuzz.seed = device();
  }
  try {
    return static_cast<int>(line.command());
  } catch (const CLI::ParseError& error) {
    return static_cast<int>(Usage(line, nearest(), error.what()));
  }
}

}  // namespace
}  // namespace plumbline::fuzz

int main(int argc, char** argv) { return plumbline::fuzz::Main(argc, argv); }
