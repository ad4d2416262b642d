// SPDX-License-Identifier: Apache-2.0
//
// Translates between kernel::Problem and Results on one side and the C structs of fuzz/target_abi.h,
// whose tensors are DLPack's, on the other. Only descriptions are copied; the data stay where they are.

#pragma once

#include <array>
#include <optional>
#include <string>

#include "fuzz/target_abi.h"
#include "kernel/problem.h"

namespace plumbline::fuzz {

inline constexpr DLDevice kHostMemory = {kDLCPU, 0};

// A call as a target receives it. Every tensor lies on `device`, with explicit strides and byte_offset
// 0. The memory that problem and results name must outlive it. It is not copyable, since the C structs
// point into it.
class AbiCall {
 public:
  AbiCall(const kernel::Problem& problem, const kernel::Results& results,
          DLDevice device = kHostMemory);
  AbiCall(const AbiCall&) = delete;
  AbiCall& operator=(const AbiCall&) = delete;

  const plumbline_problem* problem() const { return &problem_; }
  plumbline_results* results() { return &results_; }

 private:
  // DLPack requires non-const pointers to shapes and strides.
  struct Slot {
    DLTensor tensor;
    int64_t shape[2];
    int64_t stride[2];
  };
  template <class View>
  DLTensor* Place(const View& view);
  template <class View>
  DLTensor* Place(const std::optional<View>& view);

  const DLDevice device_;
  std::array<Slot, 13> slots_;
  size_t used_ = 0;
  plumbline_problem problem_{};
  plumbline_results results_{};
};

// Translates back. Returns a reason, naming the tensor and what was refused, for calls that the
// kernel's views cannot express: null for a required tensor, a rank above 2, an element type that the
// operator does not have, a device of another type than `device` or another one than hidden's, structs
// smaller than version 1's, an unknown reduction. Everything else is left to the operator's own checks.
// results may be null: then no result is present.
std::optional<std::string> FromAbi(const plumbline_problem* problem, const plumbline_results* results,
                                   DLDeviceType device, kernel::Problem* kernel_problem,
                                   kernel::Results* kernel_results);

}  // namespace plumbline::fuzz
