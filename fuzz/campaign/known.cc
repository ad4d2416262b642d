// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/known.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <utility>

#include "fuzz/base/harness_defect.h"
#include "fuzz/base/record_file.h"
#include "fuzz/examine/result.h"
#include "fuzz/target/target.h"
#include "fuzz/triage/sighting.h"
#include "fuzz/worker/worker.h"

namespace plumbline::fuzz {
namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 20;

struct KnownFile {
  std::vector<KnownFinding> known;
};

void Fields(FieldVisitor& io, KnownFile& file) { io("known", file.known); }

bool IsDate(const std::string& text) {
  if (text.size() != 10 || text[4] != '-' || text[7] != '-') return false;
  for (const size_t i : {0, 1, 2, 3, 5, 6, 8, 9}) {
    if (text[i] < '0' || text[i] > '9') return false;
  }
  const auto number = [&](size_t from, size_t count) { return std::stoi(text.substr(from, count)); };
  using namespace std::chrono;
  return year_month_day(year(number(0, 4)), month(static_cast<unsigned>(number(5, 2))),
                        day(static_cast<unsigned>(number(8, 2))))
      .ok();
}

bool IsBlank(const std::string& text) { return text.find_first_not_of(" \t\r\n") == std::string::npos; }

bool IsLink(const std::string& text) {
  for (const std::string_view scheme : {"https://", "http://"}) {
    if (text.starts_with(scheme) && text.size() > scheme.size()) {
      return text.find_first_of(" \t\r\n") == std::string::npos;
    }
  }
  return false;
}

bool IsBucket(const std::string& text) {
  return text.size() == 8 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

// True of what may follow "status": nothing, or a colon and an output or a failure.
bool IsStatus(std::string_view rest) {
  if (rest.ends_with(kOnce)) rest.remove_suffix(kOnce.size());
  if (rest.empty()) return true;
  if (!rest.starts_with(':')) return false;
  rest.remove_prefix(1);
  return rest == kMemoryOutput || rest == "first_invalid_row" || IsFailureWord(rest);
}

// A misspelt signature would accept nothing, and be called fixed.
bool IsSignature(std::string_view text) {
  constexpr std::string_view kSuspect = "suspect-";
  if (text.starts_with(kSuspect)) text.remove_prefix(kSuspect.size());
  if (text.starts_with(kUnexplained)) text.remove_prefix(kUnexplained.size());
  const std::string_view kind = text.substr(0, text.find_first_of(": "));
  for (int i = 0; i <= static_cast<int>(FindingKind::kMagnitude); ++i) {
    if (Name(static_cast<FindingKind>(i)) == kind) {
      return kind != Name(FindingKind::kStatus) || IsStatus(text.substr(kind.size()));
    }
  }
  return false;
}

}  // namespace

void Fields(FieldVisitor& io, KnownFinding& known) {
  io.IfSet("target", known.target);
  io.IfSet("signature", known.signature);
  io.IfSet("bucket", known.bucket);
  io.IfSet("also", known.also);
  io("reason", known.reason);
  io("link", known.link);
  io("date", known.date);
  if (!io.reading()) return;
  if (known.signature.empty() == known.bucket.empty()) {
    if (known.bucket.empty()) {
      io.Wrong("signature", "a signature as plumb prints it; nor is there a bucket");
    } else {
      io.Wrong("bucket", "absent beside a signature");
    }
  }
  if (!known.signature.empty() && !IsSignature(known.signature)) {
    io.Wrong("signature", "a signature as plumb prints it, such as \"bound:logprob\"");
  }
  if (!known.bucket.empty() && !IsBucket(known.bucket)) {
    io.Wrong("bucket", "the eight hexadecimal digits of a bucket, as in the name of its case");
  }
  if (!known.also.empty() && known.signature.empty()) io.Wrong("also", "absent beside a bucket");
  if (!std::ranges::all_of(known.also, IsSignature)) {
    io.Wrong("also", "a list of signatures as plumb prints them");
  }
  if (IsBlank(known.reason)) io.Wrong("reason", "a reason");
  if (!IsLink(known.link)) io.Wrong("link", "a link that begins with https://");
  if (!IsDate(known.date)) io.Wrong("date", "a date such as \"2025-01-31\"");
}

std::string KnownFinding::Name() const {
  const std::string what = signature.empty() ? "bucket " + bucket : signature;
  return target.empty() ? what : what + " on " + target;
}

std::optional<std::vector<KnownFinding>> ReadKnown(const std::filesystem::path& path,
                                                   std::string* error) {
  std::optional<KnownFile> file = ReadRecord<KnownFile>(path, kMostBytes, "file", error);
  if (!file) return std::nullopt;
  std::set<std::string> names;
  for (size_t i = 0; i < file->known.size(); ++i) {
    if (names.insert(file->known[i].Name()).second) continue;
    *error = path.string() + ": file.known[" + std::to_string(i) + "] names " + file->known[i].Name() +
             " again";
    return std::nullopt;
  }
  return std::move(file->known);
}

std::optional<size_t> Accepting(const std::vector<KnownFinding>& known, std::string_view target,
                                std::string_view signature, std::string_view bucket) {
  for (size_t i = 0; i < known.size(); ++i) {
    const KnownFinding& entry = known[i];
    if (!entry.Concerns(target)) continue;
    if (Planted(HarnessDefect::kKnownAcceptsAll)) return i;
    const auto means = [&](const std::string& written) { return Means(written, signature); };
    if (entry.bucket.empty() ? means(entry.signature) : entry.bucket == bucket) return i;
    if (std::ranges::any_of(entry.also, means)) return i;
  }
  return std::nullopt;
}

}  // namespace plumbline::fuzz
