// SPDX-License-Identifier: Apache-2.0
//
// The commands that the program starts itself with, to run a target in a process of its own.

#include "fuzz/check/run.h"
#include "fuzz/cli/command_line.h"
#include "fuzz/worker/worker.h"

namespace plumbline::fuzz {
namespace {

// Started by WorkerProcess (fuzz/worker/process.h).
void AddWorker(CommandLine* line) {
  auto options = std::make_shared<WorkerOptions>();
  CLI::App* sub = line->AddHidden("worker", [=] { return static_cast<int>(RunWorker(*options)); });
  sub->add_option("--target", options->target)->required();
  sub->add_option("--parent", options->supervisor)->required();
  sub->add_option("--memory", options->memory);
  sub->add_flag("--production", options->production);
  sub->add_flag("--same-shape", options->same_shape);
}

// Started by DumpRun (fuzz/check/run.h).
void AddCheckWorker(CommandLine* line) {
  struct Options : DumpRunSpec {
    pid_t parent = 0;
  };
  auto options = std::make_shared<Options>();
  CLI::App* sub = line->AddHidden(
      "check-worker", [=] { return static_cast<int>(ServeDumpRun(*options, options->parent)); });
  sub->add_option("--target", options->target)->required();
  sub->add_option("--dump", options->dump)->required();
  sub->add_option("--rows", options->rows)->required();
  sub->add_option("--seed", options->seed)->required();
  sub->add_option("--vocabulary", options->vocabulary);
  sub->add_option("--parent", options->parent)->required();
}

}  // namespace

void AddWorkers(CommandLine* line) {
  AddWorker(line);
  AddCheckWorker(line);
}

}  // namespace plumbline::fuzz
