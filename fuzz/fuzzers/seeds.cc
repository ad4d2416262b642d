// SPDX-License-Identifier: Apache-2.0
//
// usage: fuzzSeeds CORPUS OUT
//
// Writes OUT/<fuzzer>/<n>: sound inputs of each fuzzer, made of a corpus of cases.

#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <string>

#include "fuzz/base/regular_file.h"
#include "fuzz/cases/corpus.h"
#include "fuzz/cases/file.h"
#include "fuzz/fuzzers/specimens.h"
#include "fuzz/problem/safetensors.h"

namespace plumbline::fuzz {
namespace {

namespace fs = std::filesystem;

void Write(const fs::path& path, std::span<const std::byte> bytes) {
  std::string error;
  if (!WriteWhole(path, bytes, &error)) throw std::runtime_error(error);
}

void Write(const fs::path& path, std::string_view text) { Write(path, std::as_bytes(std::span(text))); }

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
    if (!c || !content) throw std::runtime_error(error);
    Write(out / "CaseJson" / name, content->metadata.at("case"));
    Write(out / "Recipe" / name, c->recipe);
  };
  for (const fs::path& file : ListCases(corpus).files) {
    std::string error;
    const std::optional<std::string> text = ReadRegular(file, kMaxCaseRead, &error);
    if (!text) throw std::runtime_error(error);
    write_case(std::as_bytes(std::span(*text)));
  }
  write_case(SpecimenWithoutTensors());
  Write(out / "Dump" / std::to_string(number), SpecimenDump());
  WriteSpecimenJournal(out / "Journal");
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
  } catch (const std::runtime_error& failure) {
    std::fprintf(stderr, "fuzzSeeds: %s\n", failure.what());
    return 3;
  }
}
