// SPDX-License-Identifier: Apache-2.0
//
// Runs the functions that fuzz/fuzzers/run drives by libFuzzer over mutants of sound files, without a
// compiler of its own and without feedback, with the same inputs every time. Fails if a reader reads
// past its bytes, allocates gigabytes, throws, or accepts what it then cannot write (each ends this
// process).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/base/regular_file.h"
#include "fuzz/campaign/journal.h"
#include "fuzz/cases/corpus.h"
#include "fuzz/cases/file.h"
#include "fuzz/fuzzers/fuzzers.h"
#include "fuzz/fuzzers/specimens.h"
#include "fuzz/problem/safetensors.h"
#include "tests/fuzz/support/workplace.h"

namespace plumbline::fuzz {
namespace {

using Bytes = std::vector<std::byte>;
using Fuzzer = int (*)(std::span<const std::byte>);

Bytes BytesOf(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::string_view TextOf(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Makes the changes that a hand or a bad disk makes to a file, several at once.
class Mutator {
 public:
  explicit Mutator(std::vector<Bytes> seeds) : seeds_(std::move(seeds)) {}

  Bytes Next() {
    Bytes bytes = seeds_[Below(seeds_.size())];
    for (size_t steps = 1 + Below(4); steps > 0; --steps) Step(&bytes);
    // A container whose header grew is refused at its first eight bytes, so half the time they are
    // corrected.
    if (Below(2) == 0 && bytes.size() > 8) Rewrap(&bytes);
    return bytes;
  }

 private:
  size_t Below(size_t n) { return n == 0 ? 0 : random_() % n; }
  std::byte AnyByte() { return static_cast<std::byte>(random_()); }

  void Step(Bytes* b) {
    static constexpr std::string_view kWords[] = {"9223372036854775807",
                                                  "-1",
                                                  "0",
                                                  "1e999",
                                                  "\"nan\"",
                                                  "null",
                                                  "[]",
                                                  "{}",
                                                  "[[[[[[[[",
                                                  "\"",
                                                  "\\u0000",
                                                  "}",
                                                  ",",
                                                  "F32",
                                                  "BF16",
                                                  "I64",
                                                  "18446744073709551616",
                                                  "268435456",
                                                  "v1 ",
                                                  "\n"};
    const size_t at = Below(b->size() + 1), length = Below(std::min<size_t>(b->size() - at + 1, 64));
    const auto place = b->begin() + static_cast<std::ptrdiff_t>(at);
    switch (Below(7)) {
      case 0:
        if (at < b->size()) (*b)[at] ^= std::byte{1} << Below(8);
        return;
      case 1:
        if (at < b->size()) (*b)[at] = AnyByte();
        return;
      case 2:
        b->erase(place, place + static_cast<std::ptrdiff_t>(length));
        return;
      case 3: {
        const Bytes part(place, place + static_cast<std::ptrdiff_t>(length));
        b->insert(b->begin() + static_cast<std::ptrdiff_t>(Below(b->size() + 1)), part.begin(),
                  part.end());
        return;
      }
      case 4: {
        const Bytes word = BytesOf(kWords[Below(std::size(kWords))]);
        b->insert(place, word.begin(), word.end());
        return;
      }
      case 5: {  // a digit becomes another: extents, offsets, indices
        for (size_t i = at; i < b->size(); ++i) {
          const auto c = static_cast<char>((*b)[i]);
          if (c < '0' || c > '9') continue;
          (*b)[i] = static_cast<std::byte>('0' + Below(10));
          return;
        }
        return;
      }
      default: {
        const Bytes& other = seeds_[Below(seeds_.size())];
        const auto from = static_cast<std::ptrdiff_t>(Below(other.size() + 1));
        b->resize(at);
        b->insert(b->end(), other.begin() + from, other.end());
      }
    }
  }

  // Makes the first eight bytes, the length of a container's header, agree with the last brace.
  static void Rewrap(Bytes* b) {
    size_t end = TextOf(*b).rfind('}');
    if (end == std::string_view::npos || end < 8) return;
    const uint64_t size = end + 1 - 8;
    std::memcpy(b->data(), &size, 8);
  }

  std::vector<Bytes> seeds_;
  std::mt19937_64 random_{20261121};  // its stream is fixed by the standard
};

std::vector<Bytes> CorpusSeeds() {
  std::vector<Bytes> seeds;
  for (const auto& file : ListCases(std::filesystem::path(PLUMBLINE_SOURCE_DIR) / "corpus").files) {
    std::string error;
    seeds.push_back(BytesOf(*ReadRegular(file, 1 << 20, &error)));
  }
  seeds.push_back(SpecimenWithoutTensors());
  return seeds;
}

// Some inputs must be accepted, or only the first check of the reader was tested.
void Drive(Fuzzer fuzzer, std::vector<Bytes> seeds, int rounds, int least_accepted) {
  // A few seeds are beyond a fuzzer's limits, or need other tensors than the one container of
  // FuzzCaseJson.
  const size_t all = seeds.size();
  std::erase_if(seeds, [&](const Bytes& seed) { return fuzzer(seed) != 0; });
  ASSERT_GE(2 * seeds.size(), all);
  Mutator mutator(std::move(seeds));
  int accepted = 0;
  for (int i = 0; i < rounds; ++i) accepted += fuzzer(mutator.Next()) == 0 ? 1 : 0;
  EXPECT_GE(accepted, least_accepted);
  EXPECT_LT(accepted, rounds) << "nothing was refused";
}

// Each of these fails if the reader has a defect, refuses its own seeds, accepts everything, or accepts
// fewer inputs than given.
TEST(Fuzzers, Case) { Drive(FuzzCase, CorpusSeeds(), 8'000, 240); }

TEST(Fuzzers, CaseJson) {
  std::vector<Bytes> seeds;
  for (const Bytes& file : CorpusSeeds()) {
    std::string error;
    seeds.push_back(BytesOf(ReadSafeTensors(file, &error)->metadata.at("case")));
  }
  Drive(FuzzCaseJson, std::move(seeds), 3'000, 90);
}

TEST(Fuzzers, Dump) {
  std::vector<Bytes> seeds = CorpusSeeds();
  seeds.back() = SpecimenDump();  // a case without tensors is no dump
  Drive(FuzzDump, std::move(seeds), 5'000, 150);
}

// The same where everything is in the one seed, most of which no case has.
TEST(Fuzzers, DumpOfARealJob) { Drive(FuzzDump, {SpecimenDump()}, 5'000, 50); }

TEST(Fuzzers, Recipe) {
  std::vector<Bytes> seeds;
  for (const char* line :
       {"v1 regime=x seed=9f3c dtype=fp16 n=3 v=9 h=8 values=offset exp=16 labels=argmax grads=wide",
        "v1 seed=1 dtype=fp32 n=2 v=5 h=3 special=plus-inf temperature=0x1.8p+1 pad=3 grad_stride=0",
        "v1 n=0 v=0 h=0 labels=all-ignored reduction=mean layout=hidden-major fp32_grads=1"}) {
    seeds.push_back(BytesOf(line));
  }
  Drive(FuzzRecipe, std::move(seeds), 20'000, 500);
}

TEST(Fuzzers, Journal) {
  const testing::Workplace work;
  WriteSpecimenJournal(work.path());
  std::string error;
  Drive(FuzzJournal, {BytesOf(*ReadRegular(work / kJournalName, 1 << 20, &error))}, 5'000, 100);
}

}  // namespace
}  // namespace plumbline::fuzz
