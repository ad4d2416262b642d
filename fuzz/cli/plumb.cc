// SPDX-License-Identifier: Apache-2.0
//
// The program: it reads the command line and runs the command that was given.
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "fuzz/base/fp_environment.h"
#include "fuzz/base/version.h"
#include "fuzz/cli/command_line.h"
#include "fuzz/cli/usage.h"

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

// The message comes alone: a page of help would scroll it away.
ExitStatus Usage(const CommandLine& line, const CLI::ParseError& error, int argc, char** argv) {
  const auto parsed = line.app.get_subcommands();
  const std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  const std::string command = parsed.empty() ? "" : " " + parsed.front()->get_name();
  line.console.Complain(UsageMessage(line.app, error, arguments));
  line.console.Complain("`plumb" + command + " --help` lists " +
                        (parsed.empty() ? "the commands" : "its options"));
  return line.console.Finish(ExitStatus::kUsage);
}

int Main(int argc, char** argv) {
  CommandLine line;
  line.console.program = argc > 0 ? argv[0] : "plumb";
  line.console.interrupt = &interrupted;
  line.app.set_version_flag("--version", "plumb " + std::string(kVersion));
  line.app.require_subcommand(1);
  line.app.footer(
      "Words: a target is a kernel that is hunted, a contract the arithmetic that it declares and its\n"
      "bounds follow from; a regime draws inputs aimed at one way of being wrong; a finding is an "
      "input\n"
      "that shows a defect; a vacuous element is one whose bound allows any value; the arbiter "
      "computes\n"
      "again at 1280 bits; a mutant is our operator with one defect planted; a bucket holds findings\n"
      "that look like one cause; cells are coarse kinds of results, of which a search wants new ones;\n"
      "slips are cases that failed in another way while one was shrunk. fuzz/README.md has all.\n"
      "\n"
      "Exit status: 0 clean, 1 findings, 2 usage, 3 fault of the harness, 4 target unavailable,\n"
      "5 interrupted, 6 suspect or thin. `plumb COMMAND --help` explains a command.");
  for (const auto add :
       {&AddFuzz, &AddGate, &AddCompare, &AddReplay, &AddShow, &AddMerge, &AddShrink, &AddCheck, &AddReport,
        &AddTargets, &AddPluginFlags, &AddSelftest, &AddDoctor, &AddWorkers}) {
    add(&line);
  }

  try {
    line.app.parse(argc, argv);
  } catch (const CLI::Success& success) {  // --help and --version
    return line.app.exit(success);
  } catch (const CLI::ParseError& error) {
    return ProcessStatus(Usage(line, error, argc, argv));
  }
  if (line.run_hidden) return line.run_hidden();

  WatchSignals();
  if (const std::string fault = FpEnvironmentFault();
      !fault.empty() && !line.app.got_subcommand("doctor")) {
    line.console.Complain("this machine's arithmetic: " + fault);
    return ProcessStatus(line.console.Finish(ExitStatus::kFault));
  }
  try {
    return ProcessStatus(line.run());
  } catch (const CLI::ParseError& error) {
    return ProcessStatus(Usage(line, error, argc, argv));
  }
}

}  // namespace
}  // namespace plumbline::fuzz

int main(int argc, char** argv) { return plumbline::fuzz::Main(argc, argv); }
