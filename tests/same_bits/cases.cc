// SPDX-License-Identifier: Apache-2.0

#include "tests/same_bits/cases.h"

#include <memory>
#include <stdexcept>
#include <utility>

#include "fuzz/base/mix.h"
#include "fuzz/builtin/mutants/table.h"
#include "fuzz/cases/corpus.h"
#include "fuzz/cases/file.h"
#include "fuzz/recipe/expand/expand.h"
#include "fuzz/recipe/recipe.h"
#include "fuzz/recipe/regimes.h"

namespace plumbline::same_bits {
namespace {

using fuzz::OwnedProblem;
using fuzz::Recipe;

constexpr std::string_view kPrefixes[] = {"mutant:", "hopper-mutant:"};

struct Stored {
  std::string name;
  std::string mutant;  // that it was found on, on either arithmetic; else empty
  OwnedProblem problem;
};
using Corpus = std::vector<std::shared_ptr<const Stored>>;

Corpus ReadCorpus(const std::filesystem::path& folder) {
  const fuzz::CaseListing listing = fuzz::ListCases(folder);
  if (!listing.unreadable.empty()) throw std::runtime_error(listing.unreadable.front());
  Corpus corpus;
  for (const std::filesystem::path& path : listing.files) {
    std::string error;
    auto read = fuzz::ReadCase(path, &error);
    if (!read) throw std::runtime_error(error);
    std::string mutant;
    for (const std::string_view prefix : kPrefixes) {
      if (read->target.starts_with(prefix)) mutant = read->target.substr(prefix.size());
    }
    corpus.push_back(std::make_shared<Stored>(
        Stored{path.filename().string(), std::move(mutant), std::move(read->problem)}));
  }
  return corpus;
}

Segment OfCorpus(Group group, std::string target, Corpus corpus) {
  const auto stored = std::make_shared<Corpus>(std::move(corpus));
  return {group, std::move(target), static_cast<int64_t>(stored->size()),
          [stored](int64_t i) { return (*stored)[static_cast<size_t>(i)]->name; },
          [stored](int64_t i) { return (*stored)[static_cast<size_t>(i)]->problem; }};
}

Segment OfDraws(Group group, std::string target, uint64_t seed, int64_t count) {
  const auto draw = [seed](int64_t i) { return fuzz::DrawRecipe(seed, static_cast<uint64_t>(i)); };
  return {group, std::move(target), count, [draw](int64_t i) { return fuzz::Format(draw(i)); },
          [draw](int64_t i) { return fuzz::Expand(draw(i)); }};
}

Segment OfLine(Group group, std::string target, const std::string& line) {
  Recipe recipe;
  std::string error;
  if (!fuzz::Parse(line, &recipe, &error)) throw std::runtime_error(line + ": " + error);
  return {group, std::move(target), 1, [line](int64_t) { return line; },
          [recipe](int64_t) { return fuzz::Expand(recipe); }};
}

}  // namespace

std::vector<Segment> ListSegments(const std::filesystem::path& corpus, const Sizes& sizes,
                                  const std::function<bool(std::string_view)>& mutants) {
  const Corpus stored = ReadCorpus(corpus);
  std::vector<Segment> segments;
  segments.push_back(OfCorpus(Group::kCorpus, "host", stored));
  segments.push_back(OfCorpus(Group::kHopperCorpus, "host-hopper", stored));
  segments.push_back(OfDraws(Group::kHost, "host", fuzz::Mix(sizes.seed, 0), sizes.host));
  segments.push_back(OfDraws(Group::kHopper, "host-hopper", fuzz::Mix(sizes.seed, 1), sizes.hopper));
  uint64_t seed = 2;  // each mutant has recipes of its own
  for (const fuzz::MutantRow& mutant : fuzz::kHostMutants) {
    if (!mutants(mutant.name)) continue;
    Corpus own;
    for (const auto& one : stored) {
      if (one->mutant == mutant.name) own.push_back(one);
    }
    for (const auto& [group, prefix] :
         {std::pair{Group::kMutants, kPrefixes[0]}, std::pair{Group::kHopperMutants, kPrefixes[1]}}) {
      const std::string target = std::string(prefix) + std::string(mutant.name);
      segments.push_back(OfLine(group, target, std::string(mutant.recipe)));
      segments.push_back(OfCorpus(group, target, own));
      segments.push_back(OfDraws(group, target, fuzz::Mix(sizes.seed, seed++), sizes.mutant));
    }
  }
  return segments;
}

}  // namespace plumbline::same_bits
