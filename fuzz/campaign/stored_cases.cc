// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/stored_cases.h"

#include <memory>
#include <string_view>
#include <utility>

#include "fuzz/base/mapped_file.h"
#include "fuzz/base/mix.h"
#include "fuzz/cases/corpus.h"

namespace plumbline::fuzz {

std::optional<StoredCases> ListStoredCases(const CampaignOptions& options, std::string* error) {
  StoredCases stored;
  if (options.corpus.empty() || !options.recipe.empty()) return stored;
  std::string why;
  CaseListing listing = ListCases(options.corpus);
  if (!listing.unreadable.empty()) {
    *error = "corpus: " + listing.unreadable.front();
    return std::nullopt;
  }
  stored.files = std::move(listing.files);
  stored.stamp.cases = static_cast<int64_t>(stored.files.size());
  for (const std::filesystem::path& path : stored.files) {
    const std::unique_ptr<MappedFile> file = MappedFile::Open(path, &why);
    if (!file) {
      *error = "corpus: " + why;
      return std::nullopt;
    }
    const std::string_view bytes(reinterpret_cast<const char*>(file->bytes().data()),
                                 file->bytes().size());
    const std::string name = path.lexically_relative(options.corpus).string();
    for (const std::string_view part : {std::string_view(name), bytes}) {
      stored.stamp.hash = Mix(Mix(stored.stamp.hash, part), part.size());
    }
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
