// SPDX-License-Identifier: Apache-2.0
//
// A dump: a safetensors file with the inputs of one call of the operator and, optionally, what some
// kernel made of them. Mapped, never read whole. fuzz/check/CHECK.md says how to write one.
//
// Tensors: hidden, weight, labels; optional temperature, grad_logprob, grad_entropy; optional outputs
// logprob, entropy, lse, loss, grad_hidden, grad_weight. Metadata: ignore_index and reduction, both
// optional; a stored case (fuzz/cases/file.h) is a valid dump, and its own JSON says those.

#ifndef PLUMBLINE_FUZZ_CHECK_DUMP_H_
#define PLUMBLINE_FUZZ_CHECK_DUMP_H_

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
  // By oracle::Output. logprob, entropy and lse may have any float dtype here, though fp32 is what the
  // operator writes: a kernel that stores them narrower is to be judged, not refused.
  std::array<std::optional<kernel::ConstTensor>, oracle::kOutputs.size()> outputs;
  Wanted wanted;                     // what a target is asked for where it is run
  int64_t counted = 0;               // rows whose label is not ignore_index
  std::vector<std::string> unknown;  // names of tensors that mean nothing here

  const std::optional<kernel::ConstTensor>& output(oracle::Output o) const {
    return outputs[static_cast<size_t>(o)];
  }
  bool HasOutputs() const;
};

// Null, with a reason that names the tensor or the metadata and its value: whatever ViewSafeTensors
// refuses, a tensor that is missing, of a wrong dtype, misaligned, or whose shape disagrees.
std::unique_ptr<Dump> OpenDump(const std::filesystem::path& path, std::string* error);

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_CHECK_DUMP_H_
