// SPDX-License-Identifier: Apache-2.0
//
// What a saved state is. Forward begins the state with this header; Backward compares it with what its
// own arguments make. Where they differ, Backward reads nothing else of the state and makes every
// element of every gradient NaN (kernel/OPERATION.md, "Faults").

#pragma once

#include <cstdint>
#include <type_traits>

#include "kernel/problem.h"

namespace plumbline::kernel {

// Everything on which the place and the meaning of a state's contents depend.
struct SavedHeader {
  uint64_t magic = 0x65766173626d6c70;  // "plmbsave"
  int32_t format = 1;                   // of the header and of what follows it
  int16_t dtype = 0;
  int16_t exponents = 0;  // CUDA: whether backward's exponents go through fp16 (KeptForm)
  // CUDA: the execution's CudaPath and the device's compute capability, 10 major + minor; host: -1, 0.
  int32_t path = -1, capability = 0;
  int64_t rows = 0, hidden_size = 0, vocab = 0;
  // What is kept of logits begins there, ld elements from row to row; ld 0: nothing is kept.
  int64_t first_column = 0, ld = 0;

  bool operator==(const SavedHeader&) const = default;
};
static_assert(sizeof(SavedHeader) == 64 && std::has_unique_object_representations_v<SavedHeader>);

// Returns the header of a state without kept logits.
inline SavedHeader SavedHeaderOf(const Problem& problem) {
  SavedHeader header;
  header.dtype = static_cast<int16_t>(problem.hidden.dtype);
  header.rows = problem.rows();
  header.hidden_size = problem.hidden_size();
  header.vocab = problem.vocab();
  return header;
}

}  // namespace plumbline::kernel
