// SPDX-License-Identifier: Apache-2.0
//
// usage: fuzzSeeds CORPUS OUT
//
// Writes OUT/<fuzzer>/<n>: sound inputs of each fuzzer, made of a corpus of cases.

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "fuzz/case_file.h"
#include "fuzz/corpus.h"
#include "fuzz/journal.h"
#include "fuzz/recipe.h"
#include "fuzz/regular_file.h"
#include "fuzz/safetensors.h"

namespace plumbline::fuzz {
namespace {

namespace fs = std::filesystem;

struct Failure {
  std::string why;
};

void Write(const fs::path& path, std::span<const std::byte> bytes) {
  std::string error;
  if (!WriteWhole(path, bytes, &error)) throw Failure{error};
}

void Write(const fs::path& path, std::string_view text) { Write(path, std::as_bytes(std::span(text))); }

// A line of every kind.
void WriteJournal(const fs::path& folder) {
  std::string error;
  CampaignOptions options;
  options.targets = {"host", "mutant:x"};
  const std::unique_ptr<Journal> journal = Journal::Create(folder, options, &error);
  if (!journal) throw Failure{error};
  Sighting sighting;
  sighting.target = "host";
  sighting.signature = "bound:lse";
  const SightingKey key(sighting.target, sighting.signature);
  CaseRecord record;
  record.signatures = {"bound:lse"};
  record.tightness["lse"] = 2.5;
  record.by_output["lse"] = {1, 2, 0, 0};
  journal->Entered(Phase::kSearch, 0);
  for (int64_t item = 0; item < 3; ++item) journal->Start(item);
  journal->Sighted(sighting);
  journal->Done(0, std::chrono::milliseconds(5), record);
  journal->More(key, "v1 n=2");
  journal->Done(2, std::chrono::milliseconds(7), record);
  StoredFinding kept;
  kept.file = "findings/x";
  journal->Stored(key, kept);
  journal->Fault("x");
  journal->Clock(std::chrono::milliseconds(9));
}

// A case in the form without tensors, small enough for the fuzzer's limits.
std::vector<std::byte> Expanded() {
  Case c;
  std::string error;
  Recipe recipe;
  c.recipe = "v1 seed=3 n=2 v=40 h=2 entropy_grads=random";
  if (!Parse(c.recipe, &recipe, &error)) throw Failure{error};
  c.problem = Expand(recipe);
  // The form is taken where the tensors are too large: measured with an `extra` that is taken out
  // again.
  c.why = std::string(kMaxCaseBytes, 'w');
  std::optional<SafeTensors> content = ReadSafeTensors(StoredBytes(c), &error);
  std::string& json = content->metadata.at("case");
  json.erase(json.find(c.why), c.why.size());
  return WriteSafeTensors(*content);
}

void WriteSeeds(const fs::path& corpus, const fs::path& out) {
  for (const char* name : {"Case", "CaseJson", "Dump", "Journal", "Recipe"}) {
    fs::create_directories(out / name);
  }
  int number = 0;
  const auto write_case = [&](std::span<const std::byte> bytes) {
    const std::string name = std::to_string(number++);
    std::string error;
    Write(out / "Case" / name, bytes);
    Write(out / "Dump" / name, bytes);
    const std::optional<Case> c = ParseCase(bytes, &error);
    const std::optional<SafeTensors> content = ReadSafeTensors(bytes, &error);
    if (!c || !content) throw Failure{error};
    Write(out / "CaseJson" / name, content->metadata.at("case"));
    Write(out / "Recipe" / name, c->recipe);
  };
  for (const fs::path& file : ListCases(corpus).files) {
    std::string error;
    const std::optional<std::string> text = ReadRegular(file, kMaxCaseRead, &error);
    if (!text) throw Failure{error};
    write_case(std::as_bytes(std::span(*text)));
  }
  write_case(Expanded());
  WriteJournal(out / "Journal");
}

}  // namespace
}  // namespace plumbline::fuzz

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: fuzzSeeds CORPUS OUT\n");
    return 2;
  }
  try {
    plumbline::fuzz::WriteSeeds(argv[1], argv[2]);
  } catch (const plumbline::fuzz::Failure& failure) {
    std::fprintf(stderr, "fuzzSeeds: %s\n", failure.why.c_str());
    return 3;
  }
}
