// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "fuzz/cli/command_line.h"
#include "fuzz/worker/command.h"

namespace plumbline::fuzz {
namespace {

struct ReportOptions {
  std::vector<std::string> inputs;
  std::string out;
  bool markdown = false;
};

// Becomes the Python package's report. Returns only where that cannot be started.
ExitStatus CommandReport(const Console& console, const ReportOptions& options) {
  std::error_code code;
  std::string error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", code);
  const std::optional<ModuleCommand> command = PythonModules(self, &error);
  if (!command) {
    console.Complain("report is made by Python: " + error);
    return console.Finish(ExitStatus::kUnavailable);
  }
  std::vector<std::string> words = {command->python.string(), "-m", "plumbline.report"};
  if (options.markdown) words.push_back("--markdown");
  if (!options.out.empty()) words.push_back("--out=" + options.out);
  words.push_back("--");
  words.insert(words.end(), options.inputs.begin(), options.inputs.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const char* const others = std::getenv("PYTHONPATH");
  const std::string path = command->folder.string() + (others ? ":" + std::string(others) : "");
  setenv("PYTHONPATH", path.c_str(), 1);
  execv(argv[0], argv.data());
  console.Complain(words[0] + ": " + std::strerror(errno));
  return console.Finish(ExitStatus::kUnavailable);
}

}  // namespace

void AddReport(CommandLine* line) {
  auto options = std::make_shared<ReportOptions>();
  CLI::App* sub =
      line->Add("report", "Make a report for people of campaigns and checks", "plumb report hunt",
                [=] { return CommandReport(line->console, *options); });
  sub->remove_option(sub->get_option("--json"));
  sub->add_option("inputs", options->inputs,
                  "Folders of campaigns, and files with what `plumb check --json` prints")
      ->required();
  sub->add_flag("--markdown", options->markdown,
                "Print at most 60 lines of Markdown in place of a page");
  sub->add_option("--out", options->out,
                  "The file to write [report.html; with --markdown the terminal]");
  AddPython(sub);
}

}  // namespace plumbline::fuzz
