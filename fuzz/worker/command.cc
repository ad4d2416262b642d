// SPDX-License-Identifier: Apache-2.0

#include "fuzz/worker/command.h"

#include <unistd.h>

#include <cstdlib>
#include <system_error>

#include "fuzz/target/catalogue.h"

namespace plumbline::fuzz {
namespace {

namespace fs = std::filesystem;

std::string Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

// Returns the first executable of this name in the folders of $PATH; empty if there is none.
fs::path OnPath(const std::string& name) {
  const std::string path = Variable("PATH");
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find(':', begin), path.size());
    const fs::path candidate = fs::path(path.substr(begin, end - begin)) / name;
    if (end > begin && access(candidate.c_str(), X_OK) == 0) return candidate;
    begin = end + 1;
  }
  return {};
}

// Returns the interpreter; empty, with the reason, if it is not there.
fs::path Interpreter(std::string* error) {
  if (const std::string named = Variable(kPythonVariable); !named.empty()) {
    const fs::path found = named.find('/') == named.npos ? OnPath(named) : fs::path(named);
    if (!found.empty() && access(found.c_str(), X_OK) == 0) return found;
    *error = "--python " + named + " (or " + kPythonVariable + ") is no program that can be run";
    return {};
  }
  for (const char* const prefix : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    const fs::path python = fs::path(Variable(prefix)) / "bin" / "python";
    if (!Variable(prefix).empty() && access(python.c_str(), X_OK) == 0) return python;
  }
  fs::path found = OnPath("python3");
  if (found.empty()) {
    *error =
        "no python3 is on $PATH; --python PATH names the interpreter that has your kernel's packages";
  }
  return found;
}

// Returns the package's folder: beside the program in a wheel, in the build, in an installation.
fs::path Package(const fs::path& plumb, std::string* error) {
  std::error_code code;
  const fs::path folder = fs::canonical(plumb, code).parent_path();
  for (const char* const from :
       {"../../plumbline", "../python/plumbline", "../share/plumbline/python/plumbline"}) {
    const fs::path package = (folder / from).lexically_normal();
    if (fs::exists(package / "worker" / "__main__.py", code)) return package;
  }
  *error = "the Python package is not beside " + (folder / "plumb").string() +
           ": install plumbline with pip, or build it whole";
  return {};
}

}  // namespace

std::optional<WorkerCommand> CommandFor(std::string_view target, const fs::path& plumb,
                                        std::string* error) {
  if (!IsPython(target)) return WorkerCommand{plumb, {"plumb"}};
  const std::optional<ModuleCommand> modules = PythonModules(plumb, error);
  if (!modules) return std::nullopt;
  // The package is run by its path and not with -m: the interpreter need not have it, and must not take
  // another version of it or, from this one's site-packages, another version of the target's framework.
  const fs::path worker = modules->folder / "plumbline" / "worker" / "__main__.py";
  return WorkerCommand{modules->python, {modules->python.string(), worker.string()}};
}

std::optional<ModuleCommand> PythonModules(const fs::path& plumb, std::string* error) {
  ModuleCommand command{Interpreter(error), {}};
  if (command.python.empty()) return std::nullopt;
  const fs::path package = Package(plumb, error);
  if (package.empty()) return std::nullopt;
  command.folder = package.parent_path();
  return command;
}

}  // namespace plumbline::fuzz
