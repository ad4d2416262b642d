// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <system_error>

#include "fuzz/commands.h"
#include "fuzz/mapped_file.h"
#include "fuzz/report_text.h"
#include "fuzz/safetensors.h"

namespace plumbline::fuzz {

void Console::Say(std::string_view text) const {
  std::fwrite(text.data(), 1, text.size(), human());
  std::fflush(human());
}

void Console::Complain(std::string_view text) const {
  const std::string line = "plumb: " + std::string(text) + "\n";
  std::fflush(stdout);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

ExitStatus Console::Finish(ExitStatus status, int64_t cases, int64_t findings, Json result) const {
  std::string line = VerdictLine(status, cases, findings);
  if (json) {
    result["verdict"] = Name(status);
    result["status"] = static_cast<int>(status);
    if (result.Find("cases") == nullptr) result["cases"] = cases;
    if (result.Find("findings") == nullptr) result["findings"] = findings;
    line = result.Dump();
  }
  line += "\n";
  std::fflush(stderr);
  std::fwrite(line.data(), 1, line.size(), stdout);
  // Whoever reads the verdict from a file or a pipe must not miss it without a word.
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    Complain(std::string("cannot write to standard output: ") + strerrordesc_np(errno));
    return ExitStatus::kFault;
  }
  return status;
}

namespace {

// A sound safetensors file that is no case, such as a dump among cases. What cannot be read is not
// passed over: ReadCase will say what is wrong with it.
bool IsNoCase(const std::filesystem::path& path) {
  std::string error;
  const std::unique_ptr<MappedFile> file = MappedFile::Open(path, &error);
  if (!file) return false;
  const std::optional<SafeTensorsView> view = ViewSafeTensors(file->bytes(), &error);
  return view && !view->metadata.contains("case");
}

}  // namespace

std::vector<std::filesystem::path> ExpandPath(const std::filesystem::path& path, std::string* error) {
  namespace fs = std::filesystem;
  std::error_code code;
  if (fs::is_regular_file(path, code)) return {path};
  std::vector<fs::path> files;
  for (fs::recursive_directory_iterator entry(path, code), end; !code && entry != end;
       entry.increment(code)) {
    if (entry->path().extension() == ".safetensors" && entry->is_regular_file(code) &&
        !IsNoCase(entry->path()))
      files.push_back(entry->path());
  }
  if (code) {
    *error = path.string() + ": " + code.message();
    return {};
  }
  if (files.empty()) *error = path.string() + ": no case (*.safetensors) in this folder";
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace plumbline::fuzz
