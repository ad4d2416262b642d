// SPDX-License-Identifier: Apache-2.0
//
// What corpus_once runs beside stored cases, and how it calls the operator.

#pragma once

#include <cstddef>
#include <cstdint>

#include "kernel/linear_cross_entropy.h"

namespace plumbline {

// A way in which the operator is called.
struct Way {
  const char* name;
  bool one_call = false;  // ForwardBackward
  size_t logits_bytes = 0;
  bool consumed = false;
  kernel::KeptForm form = kernel::KeptForm::kDefault;
  int64_t block_rows = 0, chunk_columns = 0;
};

inline constexpr size_t kAll = size_t{8} << 30;
inline constexpr kernel::KeptForm kLogits = kernel::KeptForm::kLogits;
inline constexpr int64_t kRingColumns = 2304;  // fill the ring of kernel/cuda/hopper/kept_warp.cuh
inline constexpr Way kWays[] = {
    {.name = "saved", .logits_bytes = kAll},
    {.name = "saved and consumed", .logits_bytes = kAll, .consumed = true},
    {.name = "saved, in short chunks", .logits_bytes = kAll, .chunk_columns = 384},
    {.name = "saved and consumed, in short chunks",
     .logits_bytes = kAll,
     .consumed = true,
     .chunk_columns = 384},
    {.name = "in one call", .one_call = true, .logits_bytes = kAll},
    {.name = "in one call, by 64 rows", .one_call = true, .logits_bytes = kAll, .block_rows = 64},
    {.name = "in one call, by 64 rows, in short chunks",
     .one_call = true,
     .logits_bytes = kAll,
     .block_rows = 64,
     .chunk_columns = 384},
    {.name = "saved and consumed, in chunks that fill the idle warps' ring",
     .logits_bytes = kAll,
     .consumed = true,
     .chunk_columns = kRingColumns},
    {.name = "as logits, saved", .logits_bytes = kAll, .form = kLogits},
    {.name = "as logits, in one call", .one_call = true, .logits_bytes = kAll, .form = kLogits},
    {.name = "as logits, saved, in short chunks",
     .logits_bytes = kAll,
     .form = kLogits,
     .chunk_columns = 768},
};

// Problems for what no stored case reaches: the sweep over weight, of a hidden size of 512 and 1024 and
// at most 128 rows, in two stretches; totals behind d_logits in place, two buffers of d_logits, and
// an end of two chunks, where chunks are short (16 hidden sizes are no more than the vocabulary); rows
// of more than one block, some of which take no part; chunks that fill the ring of idle warps more than
// once. All but the second fit in 1 MiB.
struct OwnProblem {
  const char* recipe;
  // Above 0: it runs in the ways with chunks of so many columns alone, and on the best path: all ways
  // on the portable path took racecheck 158 s.
  int64_t chunk_columns = 0;
};
inline constexpr OwnProblem kProblems[] = {
    {"v1 seed=11 n=40 v=400 h=512 labels=some-ignored grads=random entropy_grads=random"},
    {"v1 seed=12 n=128 v=800 h=1024 grads=random entropy_grads=random"},
    {"v1 seed=13 n=130 v=600 h=32 labels=some-ignored grads=random entropy_grads=random"},
    {"v1 seed=14 n=200 v=900 h=40 grads=random entropy_grads=random fp32_grads=1"},
    {"v1 seed=15 dtype=fp16 n=70 v=900 h=48 grads=random entropy_grads=random"},
    {"v1 seed=16 n=130 v=18500 h=8 grads=random entropy_grads=random", kRingColumns},
};

}  // namespace plumbline
