// SPDX-License-Identifier: Apache-2.0
//
// Inputs and output of d_logits for one chunk of the vocabulary of which forward kept logits or
// exponents (layout/saved_state.h). A place is the index of a row on the list of a pass
// (stages/list_rows.h). Pointers are to device memory.

#pragma once

#include <cstdint>

namespace plumbline::kernel::cuda {

struct RowGradient;

// Offsets of tiles in kept exponents: [forward's place][ld], from tile `first` of the vocabulary on.
struct TileOffsets {
  float* data = nullptr;  // null: there are none
  int64_t ld = 0;
  int64_t first = 0;
};

struct KeptChunk {
  // [forward's place, column of the chunk], one of the two: fp32, or fp16; both null: there is no
  // chunk. Rows of exponents begin at multiples of 16 bytes, and a multiple of 8 columns of each are in
  // memory.
  const float* logits = nullptr;
  const uint16_t* exponents = nullptr;
  int64_t kept_ld = 0;
  TileOffsets offsets = {};           // of exponents
  int32_t tile_columns = 0;           // of a tile: 128 or 192
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
