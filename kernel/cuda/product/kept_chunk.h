// SPDX-License-Identifier: Apache-2.0
//
// Inputs and output of d_logits for one chunk of the vocabulary whose logits forward kept. A place is
// the index of a row on the list of a pass (stages/list_rows.h). Pointers are to device memory.

#pragma once

#include <cstdint>

namespace plumbline::kernel::cuda {

struct RowGradient;

struct KeptChunk {
  const float* logits = nullptr;  // [forward's place, column of the chunk]; null: there is no chunk
  int64_t logits_ld = 0;
  const int32_t* slot = nullptr;      // [rows of the problem] forward's place, negative: none
  const int32_t* source = nullptr;    // [backward's place] the row of the problem
  const int32_t* live = nullptr;      // number of backward's places
  const RowGradient* rows = nullptr;  // [backward's place]
  void* d_logits = nullptr;           // [backward's place, column of the chunk]
  int64_t ld = 0;                     // elements, a multiple of 8
  int64_t plane_stride = 0;           // elements; 0: one plane
  int64_t first_column = 0;           // of the vocabulary
  int32_t columns = 0;
};

}  // namespace plumbline::kernel::cuda
