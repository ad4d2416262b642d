// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "fuzz/cli/command_line.h"

namespace plumbline::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHeader = "fuzz/target_abi.h";
constexpr const char* kDlpack = "dlpack/dlpack.h";

bool Holds(const fs::path& folder, const char* header) {
  std::error_code code;
  return fs::is_regular_file(folder / header, code);
}

// The folder that the plug-in's header is included from: of a checkout that this program lies in, or of
// an installation. Empty if there is neither.
fs::path HeaderFolder(const fs::path& program) {
  for (fs::path at = program.parent_path(); at.has_relative_path(); at = at.parent_path()) {
    if (Holds(at, kHeader)) return at;
    if (Holds(at / "include/plumbline", kHeader)) return at / "include/plumbline";
  }
  return {};
}

// Prints the flags alone, for $(plumb plugin-flags).
ExitStatus CommandPluginFlags(const Console& console) {
  std::error_code code;
  const fs::path program = fs::read_symlink("/proc/self/exe", code);
  const fs::path folder = HeaderFolder(program);
  if (folder.empty()) {
    console.Complain(std::string(kHeader) + " is neither in a checkout around " + program.string() +
                     " nor installed beside it");
    return ExitStatus::kUnavailable;
  }
  std::string flags = "-I" + folder.string();
  const char* const conda = std::getenv("CONDA_PREFIX");
  if (!Holds(folder, kDlpack) && !Holds("/usr/include", kDlpack) &&
      !Holds("/usr/local/include", kDlpack)) {
    if (conda != nullptr && Holds(fs::path(conda) / "include", kDlpack)) {
      flags += " -I" + std::string(conda) + "/include";
    } else {
      console.Complain(std::string(kDlpack) +
                       " is not in /usr/include: install libdlpack-dev (conda: "
                       "dlpack), or add the -I of its folder");
    }
  }
  console.Say(flags + "\n");
  return ExitStatus::kClean;
}

}  // namespace

void AddPluginFlags(CommandLine* line) {
  CLI::App* sub = line->Add("plugin-flags", "Print the flags that a plug-in is compiled with",
                            "cc -O2 -shared -fPIC $(plumb plugin-flags) mine.c -o mine.so -lm",
                            [=] { return CommandPluginFlags(line->console); });
  sub->remove_option(sub->get_option("--json"));
}

}  // namespace plumbline::fuzz
