// SPDX-License-Identifier: Apache-2.0
//
// corpus/real/minilm-64.safetensors, and memory for a target's answers to it.

#pragma once

#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "fuzz/check/dump.h"
#include "fuzz/check/sample.h"
#include "fuzz/problem/owned_problem.h"
#include "kernel/problem.h"
#include "tests/fuzz/support/located.h"

namespace plumbline::fuzz::testing {

inline std::unique_ptr<Dump> OpenRealInput() {
  std::string error;
  auto dump = OpenDump(LocatedSource("corpus/real/minilm-64.safetensors"), &error);
  if (!dump) throw std::runtime_error(error);
  return dump;
}

class Answers {
 public:
  explicit Answers(const DumpSample& sample) : results_(sample.Wanted()) {
    for (auto* tensor : {&results_.logprob, &results_.entropy, &results_.lse, &results_.grad_hidden,
                         &results_.grad_weight}) {
      if (!*tensor) continue;
      memory_.push_back(HostTensor::Zeros(
          (*tensor)->dtype, std::vector((*tensor)->shape, (*tensor)->shape + (*tensor)->rank)));
      (*tensor)->data = memory_.back().bytes.data();
    }
  }
  const kernel::Results& results() const { return results_; }
  HostTensor& logprob() { return memory_[0]; }
  HostTensor& entropy() { return memory_[1]; }

 private:
  std::vector<HostTensor> memory_;
  kernel::Results results_;
};

}  // namespace plumbline::fuzz::testing
