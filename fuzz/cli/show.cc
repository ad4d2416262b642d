// SPDX-License-Identifier: Apache-2.0
#include <cinttypes>
#include <memory>

#include "fuzz/base/mapped_file.h"
#include "fuzz/base/text.h"
#include "fuzz/cases/corpus.h"
#include "fuzz/cases/file.h"
#include "fuzz/cli/commands.h"
#include "fuzz/problem/safetensors.h"

namespace plumbline::fuzz {
namespace {

// Makes text for `git diff`, which shows nothing of a commit if a textconv fails: a file that is no
// case is described, and an unreadable one gives the reason.
std::string DiffText(const std::filesystem::path& path) {
  std::string why, error;
  if (const std::optional<Case> c = ReadCase(path, &why)) return Show(*c);
  const std::unique_ptr<MappedFile> file = MappedFile::Open(path, &error);
  const std::optional<SafeTensorsView> view =
      file ? ViewSafeTensors(file->bytes(), &error) : std::nullopt;
  // git passes a temporary copy, whose name changes from call to call.
  const std::string prefix = path.string() + ": ";
  if (why.starts_with(prefix)) why.erase(0, prefix.size());
  if (!view || view->metadata.contains("case")) return "not a case: " + why + "\n";
  std::string text = "a safetensors file, and no case\n";
  for (const auto& [name, tensor] : view->tensors) {
    text += name + " " + std::string(kernel::Name(tensor.dtype)) + " [";
    for (size_t i = 0; i < tensor.shape.size(); ++i) {
      text += Text("%s%" PRId64, i > 0 ? ", " : "", tensor.shape[i]);
    }
    text += Text("] fnv1a %016" PRIx64 "\n", Fnv1a(tensor.bytes));
  }
  for (const auto& [key, value] : view->metadata) text += key + ": " + value + "\n";
  return text;
}

}  // namespace

ExitStatus CommandTextconv(const std::filesystem::path& file, const Console& console) {
  console.Say(DiffText(file));
  return ExitStatus::kClean;
}

ExitStatus CommandShow(const CaseFiles& files, const Console& console) {
  int64_t cases = 0;
  bool complete = true;
  for (const std::filesystem::path& path : files.paths) {
    const CaseListing listing = ListCases(path);
    for (const std::string& line : listing.unreadable) console.Complain(line);
    complete = complete && listing.unreadable.empty();
    for (const std::filesystem::path& file : listing.files) {
      std::string error;
      if (const std::optional<Case> c = ReadCase(file, &error)) {
        console.Say(file.string() + "\n" + Show(*c) + "\n");
        ++cases;
      } else {
        console.Complain(error);
        complete = false;
      }
    }
  }
  // Nothing was run, so a finding that is shown is no verdict on a target.
  return console.Finish(complete ? ExitStatus::kClean : ExitStatus::kUsage, cases, 0);
}

}  // namespace plumbline::fuzz
