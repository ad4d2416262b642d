// SPDX-License-Identifier: Apache-2.0
//
// The loop of a Python worker (fuzz/python/plumbline/worker/), in the library that it loads.

#include <string>

#include "fuzz/base/text.h"
#include "fuzz/cli/command_line.h"
#include "fuzz/target/catalogue.h"
#include "fuzz/target_abi.h"

namespace plumbline::fuzz {
namespace {

int Serve(const plumbline_target_v1* table, const char* name, const char* why_not, int argc,
          const char* const* argv) {
  fuzz::AddTargets({{.name = name,
                     .what = "a Python function",
                     .table = table,
                     .why_not = why_not == nullptr ? "" : why_not}});
  CommandLine line;
  AddWorkers(&line);
  try {
    line.app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return line.app.exit(error);
  }
  return line.run_hidden ? line.run_hidden() : static_cast<int>(ExitStatus::kUsage);
}

}  // namespace
}  // namespace plumbline::fuzz

// Serves the words of a worker, "worker --target NAME ..." or "check-worker ...", behind argv[0], with
// `table` as the target `name`, and returns the exit status of the process. `table` must live until
// then; null: the target cannot be loaded, and `why_not` says why.
extern "C" __attribute__((visibility("default"))) int plumbline_serve(const plumbline_target_v1* table,
                                                                      const char* name,
                                                                      const char* why_not, int argc,
                                                                      const char* const* argv) {
  return plumbline::fuzz::Serve(table, name, why_not, argc, argv);
}
