// SPDX-License-Identifier: Apache-2.0
//
// Runs the gradients' products of the Hopper path on matrices of ones, while d_logits of another chunk
// are made beside them (Product::kept).

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace plumbline::kernel::cuda {

// Numbers of a row: dz = weight 2^z, z with the offset of its tile, and label_gradient at the label.
struct KeptTestRow {
  float weight, label_gradient;
  int32_t label;  // column of the vocabulary, -1: none
};

struct KeptCase {
  bool half = false;                  // fp16, else bf16
  bool hidden = true, weight = true;  // which gradients; with both, each product makes every second row
  int64_t rows = 1, hidden_size = 1, depth = 64;  // sizes of the products; `depth` columns
  int64_t live = 1;                               // rows on the list
  int64_t columns = 1, first_column = 0;          // the other chunk
  int64_t kept_ld = 4, ld = 8;                    // multiples of 4, of 8 for exponents; and of 8
  std::vector<float> kept;                        // [forward's place][kept_ld], logits or exponents
  bool exponents = false;                         // bf16: given to the kernel in fp16
  static constexpr int kTileColumns = 192;        // of exponents
  int64_t first_tile = 0, offsets_ld = 1;
  std::vector<float> offsets;         // [forward's place][offsets_ld], from first_tile on
  std::vector<int32_t> slot, source;  // as KeptChunk has them
  std::vector<KeptTestRow> list;      // [live]
};

struct KeptOutcome {
  std::string error;  // CUDA's or the launch's; empty if it ran
  std::vector<uint16_t>
      d_logits;            // [rows up to a multiple of 64][ld]; `mark` where nothing was written
  int64_t wrong_sums = 0;  // elements of the gradients that are not the sum of ones
  static constexpr uint16_t kMark = 0x7ead;
};

KeptOutcome RunKept(const KeptCase& c);

}  // namespace plumbline::kernel::cuda
