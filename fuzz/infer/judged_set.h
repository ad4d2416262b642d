// SPDX-License-Identifier: Apache-2.0
//
// Stored cases, judged again and again.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fuzz/baseline/small_case.h"
#include "fuzz/infer/infer.h"
#include "kernel/problem.h"
#include "oracle/contract.h"
#include "oracle/output.h"
#include "oracle/verdict/verdict.h"

namespace plumbline::fuzz {

// Sets of outputs, as bits.
using Outputs = uint32_t;
inline Outputs Bit(oracle::Output output) { return Outputs{1} << static_cast<unsigned>(output); }

class JudgedSet {
 public:
  // The cases must outlive it.
  explicit JudgedSet(const std::vector<InferenceCase>& cases);

  size_t size() const { return cases_.size(); }
  kernel::DType HiddenOf(size_t at) const { return cases_[at].problem.hidden.dtype; }
  const std::string& RecipeOf(size_t at) const { return cases_[at].of->recipe; }

  std::vector<oracle::OutputVerdict> Judge(size_t at, const oracle::Contract& contract) const;
  // The outputs that fail, by case.
  std::vector<Outputs> Failing(const oracle::Contract& contract) const;

  // The case beside its simulations, under one contract until Forget; null if it cannot be simulated.
  SmallCase* SmallOf(size_t at, const oracle::Contract& contract);
  void Forget() { small_.clear(); }

  // Whether nine in ten values of an output lie on the grid of a dtype; fp32 stands for hidden's.
  bool IsOnGrid(oracle::Output output, kernel::DType dtype) const;

 private:
  struct Stored {
    const InferenceCase* of = nullptr;
    kernel::Problem problem;
    kernel::Results results;
  };
  std::vector<Stored> cases_;
  std::map<size_t, std::unique_ptr<SmallCase>> small_;
};

}  // namespace plumbline::fuzz
