// SPDX-License-Identifier: Apache-2.0

#include "fuzz/fuzzers/specimens.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "fuzz/campaign/journal.h"
#include "fuzz/cases/corpus.h"
#include "fuzz/cases/file.h"
#include "fuzz/problem/safetensors.h"
#include "fuzz/recipe/expand/expand.h"
#include "fuzz/recipe/recipe.h"

namespace plumbline::fuzz {

void WriteSpecimenJournal(const std::filesystem::path& folder) {
  std::string error;
  CampaignOptions options;
  options.targets = {"host", "mutant:x"};
  const std::unique_ptr<Journal> journal = Journal::Create(folder, options, &error);
  if (!journal) throw std::runtime_error(error);
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
  sighting.signature = "sign:entropy";
  sighting.part_of = "bound:lse";
  journal->Sighted(sighting);
  journal->Done(0, std::chrono::milliseconds(5), record);
  journal->More(key, "v1 n=2");
  journal->Done(2, std::chrono::milliseconds(7), record);
  StoredFinding kept;
  kept.file = "findings/x";
  journal->Stored(key, kept, {{sighting.signature, ""}});
  journal->Fault("x");
  journal->Clock(std::chrono::milliseconds(9));
}

std::vector<std::byte> SpecimenWithoutTensors() {
  Case c;
  std::string error;
  Recipe recipe;
  c.recipe = "v1 seed=3 n=2 v=40 h=2 entropy_grads=random";
  if (!Parse(c.recipe, &recipe, &error)) throw std::runtime_error(error);
  c.problem = Expand(recipe);
  // The form without tensors is used if the case is too large. It is made so by a long `why`, which is
  // removed again.
  c.drawn_by = std::string(kMaxCaseBytes, 'w');
  std::optional<SafeTensors> content = ReadSafeTensors(StoredBytes(c), &error);
  std::string& json = content->metadata.at("case");
  json.erase(json.find(c.drawn_by), c.drawn_by.size());
  return WriteSafeTensors(*content);
}

std::vector<std::byte> SpecimenDump() {
  using kernel::DType;
  SafeTensors dump;
  dump.tensors["hidden"] = HostTensor::Zeros(DType::kBf16, {3, 2});
  dump.tensors["weight"] = HostTensor::Zeros(DType::kBf16, {6, 2});
  dump.tensors["labels"] = HostTensor::Zeros(DType::kI64, {3});
  dump.tensors["logprob"] = HostTensor::Zeros(DType::kI64, {3});  // becomes fp64, of as many bytes
  for (const char* name : {"entropy", "grad_logprob", "rollout_logprob", "old_logprob"}) {
    dump.tensors[name] = HostTensor::Zeros(DType::kF32, {3});
  }
  dump.tensors["grad_weight"] = HostTensor::Zeros(DType::kF32, {6, 2});
  dump.metadata["vocabulary_size"] = "5";
  dump.metadata["shard_boundaries"] =
      R"({"split":"vocabulary","bounds":[0,4,6],"ranks":[0,1],"left_out":["x"],"unequal":[)"
      R"({"output":"logprob","ranks":[1],"elements":1,"row":0,"largest":0.5}]})";
  std::vector<std::byte> bytes = WriteSafeTensors(dump);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  bytes[text.find("I64", text.find("\"logprob\":"))] = std::byte{'F'};
  return bytes;
}

}  // namespace plumbline::fuzz
