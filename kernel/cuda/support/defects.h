// SPDX-License-Identifier: Apache-2.0
//
// Defects that can be planted in the CUDA operator: those that only a GPU kernel can have. A harness
// that does not find them finds nothing. The operator's own kernels are compiled with NoDefects, in
// which every question is answered at compile time; one more set of kernels, for bf16, which is the
// harness's and not in the operator's archive, asks at run time (fuzz/builtin/mutants/cuda_paths.h).

#ifndef PLUMBLINE_KERNEL_CUDA_SUPPORT_DEFECTS_H_
#define PLUMBLINE_KERNEL_CUDA_SUPPORT_DEFECTS_H_

#include <string_view>

namespace plumbline::kernel::cuda {

enum class Defect : int {
  kNone = 0,
  // The portable main loop.
  kCopyNotWaited,
  kBarrierMissing,
  kStageReleasedEarly,
  kDepthTailDropped,
  kGridLimit,
  kDeadRowsKept,
  // Epilogues.
  kTailUnmasked,
  kTailSentinel,
  kPartialUnwritten,
  kAtomicSums,
  kAccumulatorNotCleared,
  // The passes, which launch the kernels.
  kStrides32,
  kStaleChunk,
  kForwardListInBackward,
  kStreamNotWaited,
  // Gradients in forward (kept_d_logits.cu).
  kKeptByBackwardPlace,
  kKeptColumnsOff,
  // The Hopper main loop (hopper/product_kernel.cuh).
  kHopperStageReleasedEarly,
  kHopperFullBarrierNotAwaited,
  kHopperPeerNotAwaited,
  kHopperDepthTailDropped,
  kHopperMulticastRankIgnored,
  kHopperAccumulatorCarried,
  kHopperRowCoordinate16,
};

struct NoDefects {
  static constexpr bool Has(Defect) { return false; }
};

struct PlantedDefect {
  int active = 0;
#ifdef __CUDACC__
  __host__ __device__
#endif
      constexpr bool
      Has(Defect defect) const {
    return active == static_cast<int>(defect);
  }
};

struct DefectEntry {
  Defect defect;
  std::string_view name;
  std::string_view what;
  bool portable;            // which path has it
  bool deterministic;       // the same wrong bits every time
  bool in_forward = false;  // it is one of gradients in forward
};

inline constexpr DefectEntry kDefects[] = {
    {Defect::kCopyNotWaited, "copy-not-waited",
     "a stage of shared memory is read before its copies have arrived", true, true},
    {Defect::kBarrierMissing, "barrier-missing",
     "the barrier between a stage's last reader and its next writer is missing", true, false},
    {Defect::kStageReleasedEarly, "stage-released-early",
     "the stage that is being read is filled with the next block of the depth", true, false},
    {Defect::kDepthTailDropped, "depth-tail-dropped",
     "the last block of the depth is left out where it is not whole", true, true},
    {Defect::kGridLimit, "grid-limit", "tiles past a limit on the grid are never computed", true, true},
    {Defect::kTailUnmasked, "tail-columns-counted",
     "columns past the vocabulary, zeros in shared memory, enter the softmax (verl #2656, #2899)", true,
     true},
    {Defect::kTailSentinel, "tail-sentinel",
     "columns past the vocabulary are -1e4 instead of absent, which a real logit can reach", true,
     true},
    {Defect::kPartialUnwritten, "partial-unwritten",
     "a ragged last tile leaves its partial sums as they were in the workspace", true, true},
    {Defect::kAtomicSums, "atomic-sums",
     "partial sums are added by atomics, in whatever order they arrive", true, false},
    {Defect::kAccumulatorNotCleared, "accumulator-not-cleared",
     "the first chunk adds to what the workspace held", true, true},
    {Defect::kStrides32, "strides-32-bit",
     "strides of hidden and weight are passed on in 32 bits (the class of Liger-Kernel #1430)", true,
     true},
    {Defect::kStaleChunk, "stale-chunk",
     "grad_hidden multiplies by the first chunk of weight every time: a stale tensor map", true, true},
    {Defect::kForwardListInBackward, "rows-left-behind",
     "backward's products read hidden as it lies though rows have been moved together", true, true},
    {Defect::kDeadRowsKept, "dead-rows-kept",
     "d_logits past the last live row keep what the workspace held, and the whole block is added", true,
     true},
    {Defect::kStreamNotWaited, "stream-not-waited",
     "grad_hidden is stored from another stream that waits for nothing", true, false},
    {Defect::kKeptByBackwardPlace, "kept-by-backward-place",
     "kept logits are looked up by backward's place of a row, not by forward's", true, true, true},
    {Defect::kKeptColumnsOff, "kept-columns-off",
     "kept logits are read as if the first one kept were 64 columns before", true, true, true},
    {Defect::kHopperStageReleasedEarly, "hopper-stage-released-early",
     "a stage is given back to the copies before the tensor cores have read it", false, false},
    {Defect::kHopperFullBarrierNotAwaited, "hopper-full-barrier-not-awaited",
     "the first stage of the ring is read without waiting for its copies", false, false},
    {Defect::kHopperPeerNotAwaited, "hopper-peer-not-awaited",
     "a multicast overwrites a stage that the other block of the cluster still reads", false, false},
    {Defect::kHopperDepthTailDropped, "hopper-depth-tail-dropped",
     "the last block of the depth is left out where it is not whole", false, true},
    {Defect::kHopperMulticastRankIgnored, "hopper-multicast-rank-ignored",
     "both blocks of a cluster fetch the first half of the tile that they share", false, true},
    {Defect::kHopperAccumulatorCarried, "hopper-accumulator-carried",
     "a block's second tile goes on from the sums of its first", false, true},
    {Defect::kHopperRowCoordinate16, "hopper-row-coordinate-16",
     "the row at which a copy begins is kept in 16 bits", false, true},
};

}  // namespace plumbline::kernel::cuda

#endif  // PLUMBLINE_KERNEL_CUDA_SUPPORT_DEFECTS_H_
