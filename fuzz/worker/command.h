// SPDX-License-Identifier: Apache-2.0
//
// The program that a target's cases are judged in: this program, or, for "python:MODULE:FUNCTION", a
// Python interpreter that loads this program's library (fuzz/PYTHON.md).

#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plumbline::fuzz {

// The environment variable that names the interpreter; `--python PATH` sets it. Without it, and in this
// order: $VIRTUAL_ENV/bin/python, $CONDA_PREFIX/bin/python, the first python3 on $PATH.
inline constexpr const char* kPythonVariable = "PLUMBLINE_PYTHON";

struct WorkerCommand {
  std::filesystem::path program;
  std::vector<std::string> words;  // its argv, up to the first word of the worker
};

// Returns how to run `plumb WORKER-WORDS` for this target. `plumb` is the path of the program, whose
// Python package lies beside it. Returns nullopt, with the reason, if there is no interpreter or no
// package.
std::optional<WorkerCommand> CommandFor(std::string_view target, const std::filesystem::path& plumb,
                                        std::string* error);

// Returns how to run a module of the Python package, such as "plumbline.report", with the folder that
// the package lies in; nullopt, with the reason, as above.
struct ModuleCommand {
  std::filesystem::path python, folder;
};
std::optional<ModuleCommand> PythonModules(const std::filesystem::path& plumb, std::string* error);

}  // namespace plumbline::fuzz
