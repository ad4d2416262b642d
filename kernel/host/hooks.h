// SPDX-License-Identifier: Apache-2.0
//
// The hook points of the host implementation, as a compile-time policy. Every stage takes a `Hooks` and
// calls one of its functions when it has done its work. A hook bears the name of its stage or place and
// may change what it is given without const. The operator is instantiated with NoHooks, which changes
// nothing, so that no hook reaches its object code.
//
// The policy also names the arithmetic of the matrix products, `Dots` (kernel/host/dot_policy.h).

#pragma once

#include <cstdint>

#include "kernel/dtype.h"
#include "kernel/host/dot_policy.h"
#include "kernel/problem.h"

namespace plumbline::kernel::host {

struct BackwardMemory;
struct BackwardState;
struct ForwardMemory;
struct ForwardOutputs;
struct GradWeightBlock;
struct Matrix;
struct Plan;
struct Row;
struct RowCensus;
struct RowGradient;
struct RowResult;
struct Scratch;
struct SoftmaxState;
struct Upstream;
enum class RowKind : uint8_t;
template <class Float>
struct SavedRows;

struct NoHooks {
  using Dots = FusedChains;

  // Row i as it was read: label, temperature and kind.
  static void ReadRow(const Problem&, int64_t /*i*/, Row&) {}
  // The upstream gradients of row i; `counted` rows are not ignored.
  static void ReadUpstream(const Problem&, int64_t /*i*/, int64_t /*counted*/, Upstream&) {}

  // The rows of hidden that forward multiplies, in fp32: out[count][columns].
  static void WidenRows(const Matrix& /*hidden*/, const int64_t* /*rows*/, int64_t /*count*/,
                        int64_t /*columns*/, float* /*out*/) {}
  // A tile of logits of the rows in scratch, in both passes. Columns past the vocabulary are -inf.
  static void TileLogits(const Plan&, const Matrix& /*weight*/, const Scratch&, int64_t /*rows*/,
                         int64_t /*tile*/, float* /*z*/, int64_t /*z_stride*/) {}

  // A state whose maximum has moved, and whose sums were multiplied by a factor for it.
  static void MoveMaximum(const SoftmaxState& /*before*/, float /*factor*/, SoftmaxState&) {}
  // The sums of a tile, before they are added to the state; m is its maximum.
  static void SumTile(const float* /*z*/, int64_t /*width*/, float /*m*/, float /*temperature*/,
                      TileSums&) {}
  // The state over all splits of the row at a position of the list, and what it results in.
  static void FinishRow(const Plan&, const ForwardMemory&, int64_t /*at*/, const Row&, SoftmaxState&,
                        RowResult&) {}

  // The list of rows that forward computes.
  static void ListForward(const Problem&, const ForwardMemory&, int64_t& /*count*/) {}
  // What is about to be stored as a row's outputs. Returns whether it is.
  static bool StoreForward(int64_t /*row*/, RowKind, ForwardOutputs&) { return true; }
  // All that forward has written: the outputs, the loss and the saved state.
  static void ForwardEnd(const Problem&, const Results&, const RowCensus&, const ForwardMemory&,
                         const SavedRows<float>&) {}

  // The list of rows that take part in backward, and what is about to be written.
  static void ListBackward(BackwardState&) {}
  // t and p of a tile of logits z, and the numbers of its row from which d_logits are formed.
  static void Probabilities(const float* /*z*/, RowGradient&, float* /*t*/, float* /*p*/) {}
  // d_logits of a tile; `label` is the position of the row's label in it.
  static void TileGradient(const RowGradient&, int64_t /*label*/, const float* /*p*/, DType,
                           float* /*d_logits*/) {}
  // Sums of grad_hidden of positions [begin, end), a tile from `column` on, to which the first `summed`
  // columns of the chunk were added in this pass of Dots.
  static void GradHidden(const BackwardState&, int64_t /*begin*/, int64_t /*end*/, int64_t /*column*/,
                         int /*pass*/, int64_t /*summed*/) {}
  // A block of grad_weight in scratch.product. Returns how many of its rows are stored.
  static int64_t GradWeight(const BackwardState&, const Scratch&, const GradWeightBlock&,
                            int64_t rows) {
    return rows;
  }
  // Returns whether grad_hidden of a row that is not listed is stored: +0, or NaN.
  static bool StoreGradHidden(RowKind) { return true; }
};

}  // namespace plumbline::kernel::host
