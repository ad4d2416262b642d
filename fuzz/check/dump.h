// SPDX-License-Identifier: Apache-2.0
//
// A dump is a safetensors file with the inputs of one call of the operator and, optionally, the outputs
// of some kernel. It is mapped, never read whole. fuzz/check/CHECK.md says how to write one.
//
// Its tensors are hidden, weight, labels; optionally temperature, grad_logprob, grad_entropy;
// optionally the outputs logprob, entropy, lse, loss, grad_hidden, grad_weight; optionally
// rollout_logprob and old_logprob. Its metadata are ignore_index, reduction, vocabulary_size and
// shard_boundaries, all optional. A stored case (fuzz/cases/file.h) is a valid dump; its own JSON has
// those two.

#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/base/mapped_file.h"
#include "fuzz/check/shards.h"
#include "fuzz/problem/owned_problem.h"
#include "kernel/problem.h"
#include "oracle/output.h"

namespace plumbline::fuzz {

struct Dump {
  std::filesystem::path path;
  std::unique_ptr<MappedFile> file;
  kernel::Problem problem;  // dense views of the mapping; passes the operator's argument checks
  // Indexed by oracle::Output. logprob, entropy and lse may have any float dtype here, though the
  // operator writes fp32: a kernel that stores them narrower must be judged, not refused.
  std::array<std::optional<kernel::ConstTensor>, oracle::kOutputs.size()> outputs;
  Wanted wanted;        // the outputs that a target is asked for, if it is run
  int64_t counted = 0;  // rows whose label is not ignore_index
  // rollout_logprob and old_logprob, where they are there: [N], by name (fuzz/check/rollout.h).
  std::vector<std::pair<std::string, kernel::ConstTensor>> rollouts;
  std::vector<std::string> unknown;  // names of tensors without a meaning here
  std::vector<std::string> rounded;  // names of tensors rounded from fp64 to fp32
  // Rows of weight in the file; those from problem.vocab() on are padding (fuzz/check/vocabulary.h).
  int64_t weight_rows = 0;
  std::optional<kernel::ConstTensor> grad_padding;  // their rows of grad_weight, if the dump has them
  std::optional<Shards> shards;                     // the ranks whose shards were joined
  std::deque<HostTensor> storage;                   // what is no view of the mapping

  const std::optional<kernel::ConstTensor>& output(oracle::Output o) const {
    return outputs[static_cast<size_t>(o)];
  }
  bool HasOutputs() const;
};

// Returns the same view as a result, for judging: nothing is written through it.
inline kernel::Tensor AsResult(const kernel::ConstTensor& t) {
  return {
      const_cast<void*>(t.data), t.dtype, t.rank, {t.shape[0], t.shape[1]}, {t.stride[0], t.stride[1]}};
}

// Returns null, with a reason that names the tensor or the metadata and its value, for anything that
// ViewSafeTensors refuses and for a tensor that is missing, of a wrong dtype, misaligned, or of a
// contradictory shape.
// `vocabulary`, if given, goes before the metadata's vocabulary_size.
std::unique_ptr<Dump> OpenDump(const std::filesystem::path& path, std::string* error,
                               std::optional<int64_t> vocabulary = {});

}  // namespace plumbline::fuzz
