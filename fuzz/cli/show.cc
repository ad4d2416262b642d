// SPDX-License-Identifier: Apache-2.0
#include <cinttypes>
#include <memory>

#include "fuzz/base/hash.h"
#include "fuzz/base/mapped_file.h"
#include "fuzz/base/text.h"
#include "fuzz/cases/corpus.h"
#include "fuzz/cases/file.h"
#include "fuzz/cli/command_line.h"
#include "fuzz/problem/safetensors.h"
#include "fuzz/problem/values.h"

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
    const std::span bytes(static_cast<const std::byte*>(tensor.data),
                          static_cast<size_t>(tensor.size()) * kernel::SizeOf(tensor.dtype));
    text += name + " " + std::string(kernel::Name(tensor.dtype)) + " " +
            ShapeText({tensor.shape, static_cast<size_t>(tensor.rank)}) +
            Text(" fnv1a %016" PRIx64 "\n", Fnv1a(bytes).value());
  }
  for (const auto& [key, value] : view->metadata) text += key + ": " + value + "\n";
  return text;
}

// Prints one file as stable text, and nothing else on stdout, for `git diff`.
ExitStatus CommandTextconv(const std::filesystem::path& file, const Console& console) {
  console.Say(DiffText(file));
  return ExitStatus::kClean;
}

ExitStatus CommandShow(const std::vector<std::filesystem::path>& paths, const Console& console) {
  int64_t cases = 0;
  bool complete = true;
  for (const std::filesystem::path& path : paths) {
    const CaseListing listing = ListCases(path);
    for (const std::string& line : listing.unreadable) console.Complain(line);
    if (!listing.nothing_found.empty()) console.Say(listing.nothing_found + ": nothing to show\n");
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
  return console.Finish(complete ? ExitStatus::kClean : ExitStatus::kUsage, {.cases = cases});
}

}  // namespace

void AddShow(CommandLine* line) {
  struct Options {
    std::vector<std::filesystem::path>
        paths;  // files, or folders, which stand for every case below them
    std::filesystem::path textconv;
  };
  auto options = std::make_shared<Options>();
  CLI::App* sub =
      line->Add("show", "Print stored cases: shapes, options, values, what was expected and what came",
                "plumb show hunt/findings", [=] {
                  if (options->paths.empty() && options->textconv.empty())
                    throw CLI::RequiredError("path");
                  return options->textconv.empty() ? CommandShow(options->paths, line->console)
                                                   : CommandTextconv(options->textconv, line->console);
                });
  sub->remove_option(sub->get_option("--json"));
  auto* path = sub->add_option("path", options->paths, "case files, or folders of them");
  auto* convert = sub->add_option("--textconv", options->textconv,
                                  "one file as text and nothing else, for git diff (corpus/README.md)");
  path->excludes(convert);
}

}  // namespace plumbline::fuzz
