// SPDX-License-Identifier: Apache-2.0

#include <cstdlib>
#include <memory>
#include <string>

#include "fuzz/check/dump.h"
#include "fuzz/check/vocabulary.h"
#include "fuzz/fuzzers/fuzzers.h"
#include "fuzz/fuzzers/scratch.h"

namespace plumbline::fuzz {

int FuzzDump(std::span<const std::byte> bytes) {
  std::string error;
  const std::unique_ptr<Dump> dump = OpenDump(WriteScratch("dump.safetensors", bytes), &error);
  if (!dump) {
    if (error.empty() || error.size() > 2048) std::abort();
    return -1;
  }
  // Every view must lie in the file: the first and last byte of each are read.
  volatile std::byte seen{};
  const auto touch = [&](const kernel::ConstTensor& t) {
    int64_t size = 1;
    for (int d = 0; d < t.rank; ++d) size *= t.shape[static_cast<size_t>(d)];
    if (size == 0) return;
    const auto* data = static_cast<const std::byte*>(t.data);
    seen = data[0];
    seen = data[static_cast<size_t>(size) * kernel::SizeOf(t.dtype) - 1];
  };
  touch(dump->problem.hidden);
  touch(dump->problem.weight);
  touch(dump->problem.labels);
  if (dump->problem.temperature) touch(*dump->problem.temperature);
  for (const auto& output : dump->outputs) {
    if (output) touch(*output);
  }
  for (const auto& [name, given] : dump->rollouts) touch(given);
  JudgePadding(*dump);
  if (const auto& shards = dump->shards) {
    const bool rows = shards->split == Shards::Split::kRows;
    const int64_t divided = rows ? dump->problem.rows() : dump->weight_rows;
    for (const int64_t row : {int64_t{0}, divided - 1}) {
      if (divided > 0 && shards->ShardOf(row) >= shards->ranks.size()) std::abort();
    }
  }
  return 0;
}

}  // namespace plumbline::fuzz
