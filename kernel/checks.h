// SPDX-License-Identifier: Apache-2.0
//
// Checks that need no tensor's data: ranks, shapes, dtypes, strides, null or misaligned data, and a
// scalar temperature in host memory. They run before anything is written, and the message of a refusal
// names the argument and its value. kernel/OPERATION.md, "Faults", lists what is refused and what is
// left to the caller.

#pragma once

#include <cstddef>

#include "kernel/problem.h"
#include "kernel/status.h"

namespace plumbline::kernel {

// The parts of the arguments that a call uses, and that Check looks at. Ranks, shapes, dtypes and
// strides of the inputs are always checked.
struct Checks {
  bool forward_results = false;   // logprob, loss, entropy, lse, first_invalid_row
  bool backward_results = false;  // grad_hidden, grad_weight
  bool input_data = false;     // pointers of hidden, weight, labels, temperature; a scalar temperature
  bool gradient_data = false;  // pointers of grad_logprob and grad_entropy
  bool result_data = false;    // pointers of the results named above
  bool host_memory = true;     // false: a scalar temperature lies on a device and is not looked at
};

// What the calls of kernel/linear_cross_entropy.h use, on the host.
inline constexpr Checks kSizesUse = {.forward_results = true, .backward_results = true};
inline constexpr Checks kForwardUses = {
    .forward_results = true, .input_data = true, .result_data = true};
inline constexpr Checks kBackwardUses = {
    .backward_results = true, .input_data = true, .gradient_data = true, .result_data = true};
inline constexpr Checks kForwardBackwardUses = {.forward_results = true,
                                                .backward_results = true,
                                                .input_data = true,
                                                .gradient_data = true,
                                                .result_data = true};

// Returns kInvalidArgument for the first fault found, else ok.
Status Check(const Problem& problem, const Results& results, const Checks& checks);

// Alignment of workspace and saved in bytes (kernel/linear_cross_entropy.h).
inline constexpr size_t kMemoryAlignment = 64;

// Returns kInvalidArgument, naming the argument `name`, where `bytes` is positive and memory is null or
// misaligned; else ok.
Status CheckMemory(const char* name, const void* memory, size_t bytes);

// Returns the refusal of a problem whose workspace would pass 2^62 bytes: kInvalidArgument.
Status WorkspaceTooLarge(const Problem& problem);

}  // namespace plumbline::kernel
