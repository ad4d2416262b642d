// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/stored_cases.h"

#include <memory>
#include <string_view>
#include <utility>

#include "fuzz/base/mapped_file.h"
#include "fuzz/base/mix.h"
#include "fuzz/cases/corpus.h"
#include "fuzz/cases/file.h"

namespace plumbline::fuzz {

std::optional<StoredCases> ListStoredCases(const CampaignOptions& options, std::string* error) {
  StoredCases stored;
  if (options.corpus.empty() || !options.recipe.empty()) return stored;
  std::string why;
  CaseListing listing = ListCases(options.corpus);
  if (!listing.nothing_found.empty()) {
    *error = "corpus: " + listing.nothing_found;
    return std::nullopt;
  }
  stored.unreadable = std::move(listing.unreadable);
  for (const std::filesystem::path& path : listing.files) {
    const std::unique_ptr<MappedFile> file =
        ReadCase(path, &why) ? MappedFile::Open(path, &why) : nullptr;
    if (!file) {
      stored.unreadable.push_back(why);
      continue;
    }
    stored.files.push_back(path);
    const std::string_view bytes(reinterpret_cast<const char*>(file->bytes().data()),
                                 file->bytes().size());
    const std::string name = path.lexically_relative(options.corpus).string();
    for (const std::string_view part : {std::string_view(name), bytes}) {
      stored.stamp.hash = Mix(Mix(stored.stamp.hash, part), part.size());
    }
  }
  stored.stamp.cases = static_cast<int64_t>(stored.files.size());
  if (stored.files.empty() && !stored.unreadable.empty()) {
    *error = "corpus: " + stored.unreadable.front();
    return std::nullopt;
  }
  if (options.corpus_stamp != CorpusStamp{} && options.corpus_stamp != stored.stamp) {
    *error =
        "the cases in " + options.corpus.string() + " are not those that the campaign began with (" +
        std::to_string(options.corpus_stamp.cases) + " then, " + std::to_string(stored.stamp.cases) +
        " now, by name and content): bring those back, or begin a new campaign";
    return std::nullopt;
  }
  return stored;
}

}  // namespace plumbline::fuzz
