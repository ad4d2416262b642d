// SPDX-License-Identifier: Apache-2.0
//
// The program: it reads the command line and runs the command that was given.
#include <signal.h>

#include <atomic>
#include <string>

#include "fuzz/base/fp_environment.h"
#include "fuzz/base/version.h"
#include "fuzz/cli/command_line.h"

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

ExitStatus Usage(const CommandLine& line, const CLI::App* nearest, const std::string& message) {
  line.console.Complain(message);
  std::fputs(("\n" + nearest->help()).c_str(), stderr);
  return line.console.Finish(ExitStatus::kUsage, 0, 0);
}

int Main(int argc, char** argv) {
  CommandLine line;
  line.console.program = argc > 0 ? argv[0] : "plumb";
  line.console.interrupt = &interrupted;
  line.app.set_version_flag("--version", "plumb " + std::string(kVersion));
  line.app.require_subcommand(1);
  line.app.footer(
      "Exit status: 0 clean, 1 findings, 2 usage, 3 fault of the harness, 4 target unavailable,\n"
      "5 interrupted. `plumb COMMAND --help` explains a command.");
  for (const auto add : {&AddFuzz, &AddReplay, &AddShow, &AddMerge, &AddShrink, &AddCheck, &AddTargets,
                         &AddSelftest, &AddDoctor, &AddWorkers}) {
    add(&line);
  }

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
  if (line.run_hidden) return line.run_hidden();

  WatchSignals();
  if (const std::string fault = FpEnvironmentFault();
      !fault.empty() && !line.app.got_subcommand("doctor")) {
    line.console.Complain("this machine's arithmetic: " + fault);
    return static_cast<int>(line.console.Finish(ExitStatus::kFault, 0, 0));
  }
  try {
    return static_cast<int>(line.run());
  } catch (const CLI::ParseError& error) {
    return static_cast<int>(Usage(line, nearest(), error.what()));
  }
}

}  // namespace
}  // namespace plumbline::fuzz

int main(int argc, char** argv) { return plumbline::fuzz::Main(argc, argv); }
