// SPDX-License-Identifier: Apache-2.0

#include "fuzz/cases/corpus.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <system_error>

#include "fuzz/base/mapped_file.h"
#include "fuzz/problem/safetensors.h"

namespace plumbline::fuzz {
namespace {

namespace fs = std::filesystem;

bool IsNoCase(const fs::path& path) {
  std::string error;
  const std::unique_ptr<MappedFile> file = MappedFile::Open(path, &error);
  if (!file) return false;
  const std::optional<SafeTensorsView> view = ViewSafeTensors(file->bytes(), &error);
  return view && !view->metadata.contains("case");
}

void Walk(const fs::path& folder, CaseListing* listing) {
  std::error_code code;
  if (fs::exists(folder / kJournalName, code)) {
    Walk(folder / "findings", listing);
    if (fs::exists(folder / "slips", code)) Walk(folder / "slips", listing);
    return;
  }
  fs::directory_iterator entry(folder, code);
  // The listing proceeds one entry at a time: a folder that cannot be read must not hide its
  // neighbours.
  for (const fs::directory_iterator end; !code && entry != end; entry.increment(code)) {
    std::error_code unknown;
    const fs::path& path = entry->path();
    if (entry->is_directory(unknown) && !entry->is_symlink(unknown)) {
      Walk(path, listing);
    } else if (path.extension() != ".safetensors") {
      continue;
    } else if (entry->is_regular_file(unknown)) {
      if (!IsNoCase(path)) listing->files.push_back(path);
    } else {
      listing->unreadable.push_back(path.string() + ": " +
                                    (unknown ? unknown.message() : "not a regular file"));
    }
  }
  if (code) listing->unreadable.push_back(folder.string() + ": " + code.message());
}

// Returns true for the folder of a campaign and for findings/ in it.
bool IsCampaigns(const fs::path& folder) {
  std::error_code code;
  if (fs::exists(folder / kJournalName, code)) return true;
  const fs::path whole = fs::weakly_canonical(folder, code);
  return whole.filename() == "findings" && fs::exists(whole.parent_path() / kJournalName, code);
}

}  // namespace

CaseListing ListCases(const fs::path& path) {
  CaseListing listing;
  std::error_code code;
  const fs::file_status status = fs::status(path, code);
  if (fs::is_regular_file(status)) {
    listing.files.push_back(path);
    return listing;
  }
  if (!fs::is_directory(status)) {
    listing.unreadable.push_back(path.string() + ": " + (code ? code.message() : "not a regular file"));
    return listing;
  }
  Walk(path, &listing);
  if (listing.files.empty() && listing.unreadable.empty()) {
    if (IsCampaigns(path)) {
      listing.nothing_found = path.string() + ": this campaign has stored no finding";
    } else {
      listing.empty = true;
      listing.unreadable.push_back(path.string() + ": no case (*.safetensors) in this folder");
    }
  }
  std::sort(listing.files.begin(), listing.files.end());
  std::sort(listing.unreadable.begin(), listing.unreadable.end());
  return listing;
}

}  // namespace plumbline::fuzz
