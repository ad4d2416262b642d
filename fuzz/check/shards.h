// SPDX-License-Identifier: Apache-2.0
//
// A dump joined from what several ranks wrote (python -m plumbline.dump FOLDER): which rows of weight,
// or which tokens, were whose. Metadata shard_boundaries is JSON:
//
//   {"split": "vocabulary" or "rows", "bounds": [0, ..., V or N], "ranks": [R numbers],
//    "unequal": [{"output": NAME, "ranks": [...], "elements": K, "row": I, "largest": D}, ...],
//    "left_out": ["loss: each rank's own", ...]}
//
// The i-th shard is [bounds[i], bounds[i + 1]), of rank ranks[i]; V counts rows of padding as well.
// `unequal` and `left_out` may be absent. An entry of `unequal` is an output of which every rank should
// have the same: the ranks that have another than most, the elements that differ, the first one's row,
// and the largest difference.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "oracle/output.h"

namespace plumbline::fuzz {

struct Dump;

struct Shards {
  enum class Split : uint8_t { kVocabulary, kRows };
  struct Unequal {
    oracle::Output output;
    std::vector<int64_t> ranks;
    int64_t elements = 0, row = 0;
    double largest = 0;  // NaN or infinite where a value is
  };

  Split split = Split::kVocabulary;
  std::vector<int64_t> bounds;  // ascending, one more than ranks
  std::vector<int64_t> ranks;   // each once
  std::vector<Unequal> unequal;
  std::vector<std::string> left_out;

  // The shard that holds row `row` of the tensors that are split, which must be in one.
  size_t ShardOf(int64_t row) const;
  // True if the output's rows are divided among the ranks.
  bool Divides(oracle::Output output) const;
};

// Sets dump->shards if the metadata have boundaries. The dump's shapes must have been checked. Returns
// a refusal that names the key and its value; empty if there is none.
std::string ReadShards(const std::map<std::string, std::string>& metadata, Dump* dump);

}  // namespace plumbline::fuzz
