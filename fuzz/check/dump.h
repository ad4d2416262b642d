// SPDX-License-Identifier: Apache-2.0
//
// A dump is a safetensors file with the inputs of one call of the operator and, optionally, the outputs
// of some kernel. It is mapped, never read whole. fuzz/check/CHECK.md says how to write one.
//
// Its tensors are hidden, weight, labels; optionally temperature, grad_logprob, grad_entropy;
// optionally the outputs logprob, entropy, lse, loss, grad_hidden, grad_weight. Its metadata are
// ignore_index and reduction, both optional. A stored case (fuzz/cases/file.h) is a valid dump; its own
// JSON has those two.

#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fuzz/base/mapped_file.h"
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
  Wanted wanted;                     // the outputs that a target is asked for, if it is run
  int64_t counted = 0;               // rows whose label is not ignore_index
  std::vector<std::string> unknown;  // names of tensors without a meaning here

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
std::unique_ptr<Dump> OpenDump(const std::filesystem::path& path, std::string* error);

}  // namespace plumbline::fuzz
