// SPDX-License-Identifier: Apache-2.0
//
// The portable path with every defect that its main loop, its epilogues and FinishRows can have. For
// every dtype it also has the defects of the passes, by changing the arguments of products and of the
// last steps.

#include <optional>
#include <type_traits>

#include "fuzz/builtin/mutants/cuda_hooks.cuh"
#include "fuzz/builtin/mutants/cuda_paths.h"
#include "kernel/cuda/layout/workspace.h"
#include "kernel/cuda/portable/launch.cuh"
#include "kernel/cuda/stages/finish_rows.cuh"
#include "kernel/cuda/stages/operands.h"
#include "kernel/cuda/support/launch.h"
#include "kernel/cuda/support/paths.h"

namespace plumbline::fuzz {
namespace {

using namespace kernel::cuda;  // NOLINT: a path of kernel/cuda, defined outside of it
using kernel::Status;

CudaMutantHooks Hooks() { return {CurrentCall().active}; }

// Forward's epilogue, told of changed columns and logits.
struct MutantSoftmax : ForwardEpilogue {
  CudaMutantHooks hooks;

  template <int BN, class Scratch>
  __device__ void Store(float (&d)[BN / 2], int64_t row, int64_t column, int64_t live_rows,
                        Scratch scratch) const {
    const bool ragged = column + BN > columns;
    if (ragged && hooks.Is("partial-unwritten")) return;
    ForwardEpilogue told = *this;
    if (ragged && (hooks.Is("tail-columns-counted") || hooks.Is("tail-sentinel"))) {
      const int last = static_cast<int>(columns - column) - static_cast<int>(threadIdx.x % 4 * 2);
#pragma unroll
      for (int i = 0; i < BN / 2; ++i) {
        if (hooks.Is("tail-sentinel") && i / 4 * 8 + i % 2 >= last) d[i] = -1e4f;
      }
      told.columns = column + BN;
    }
    told.Store<BN>(d, row, column, live_rows, scratch);
  }
};

// Rows past the last live one keep what the workspace held.
struct MutantDLogits : DLogitsEpilogue<__nv_bfloat16> {
  CudaMutantHooks hooks;

  template <int BN, class Scratch>
  __device__ void Store(float (&d)[BN / 2], int64_t row, int64_t column, int64_t live_rows,
                        Scratch scratch) const {
    DLogitsStore<__nv_bfloat16> told = *this;
    if (hooks.Is("dead-rows-kept")) told.allocated_rows = live_rows;
    if (told.plane_stride != 0) {
      DLogitsEpilogue<__nv_bfloat16, true>{told}.Store<BN>(d, row, column, live_rows, scratch);
    } else if (told.exponents) {
      DLogitsEpilogue<__nv_bfloat16, false, true>{told}.Store<BN>(d, row, column, live_rows, scratch);
    } else {
      DLogitsEpilogue<__nv_bfloat16>{told}.Store<BN>(d, row, column, live_rows, scratch);
    }
  }
};

template <bool kTransposedA, bool kTransposedB, class Epilogue>
Status Launch(const char* name, const Product& product, const Epilogue& epilogue, cudaStream_t stream) {
  return portable::Launch<portable::TensorCore<__nv_bfloat16>, kTransposedA, kTransposedB>(
      name, product, epilogue, stream, Hooks());
}

Status Forward(const Product& product, const ForwardEpilogue& epilogue, cudaStream_t stream) {
  return Launch<false, false>("forward", product, MutantSoftmax{epilogue, Hooks()}, stream);
}

Status DLogits(const Product& product, const DLogitsEpilogue<__nv_bfloat16>& epilogue,
               cudaStream_t stream) {
  return Launch<false, false>("d_logits", product, MutantDLogits{epilogue, Hooks()}, stream);
}

// The chunk's columns of d_logits are multiplied by the first columns of the vocabulary.
Status StaleWeight(const CudaMutantCall& call, const Product& product, cudaStream_t stream,
                   Operand* b) {
  const std::optional<Layout> layout = MakeLayout(*call.problem, *call.results);
  const BackwardLayout& backward = layout->backward;
  return MakeWeight(call.problem->weight, 0, product.k, backward.packed_chunk, layout->packed_ld,
                    call.workspace + backward.packed_weight, stream, b);
}

template <class Element>
Status GradHidden(const Product& product, const AccumulateEpilogue& epilogue, cudaStream_t stream) {
  const CudaMutantCall& call = CurrentCall();
  Product told = product;
  if (call.Is("stale-chunk")) {
    const Status status = StaleWeight(call, product, stream, &told.b);
    if (!status.ok()) return status;
  }
  if constexpr (std::is_same_v<Element, __half>) {
    return kPortablePath.f16.grad_hidden(told, epilogue, stream);
  } else {
    AccumulateEpilogue onto = epilogue;
    if (call.Is("accumulator-not-cleared")) onto.first = false;
    if (call.Is("stretch-dropped")) onto.first = true;
    return Launch<false, true>("grad_hidden", told, onto, stream);
  }
}

template <class Element>
Status GradWeight(const Product& product, const GradWeightEpilogue& epilogue, cudaStream_t stream) {
  Product told = product;
  if (CurrentCall().Is("rows-left-behind")) told.use_alternative = nullptr;
  if constexpr (std::is_same_v<Element, __half>) {
    return kPortablePath.f16.grad_weight(told, epilogue, stream);
  } else {
    return Launch<true, true>("grad_weight", told, epilogue, stream);
  }
}

Status GradWeightOfBlock(const Product& product, const GradWeightBlockEpilogue& epilogue,
                         cudaStream_t stream) {
  GradWeightBlockEpilogue told = epilogue;
  if (CurrentCall().Is("row-blocks-before-dropped")) told.first = true;
  return kPortablePath.grad_weight_of_block(product, told, stream);
}

// Turns exponents of -200 in `rows` rows of a chunk into 0. The grid is a block for each row.
__global__ void LeastAsZero(uint16_t* exponents, int64_t ld, int64_t columns) {
  constexpr uint16_t kLeast = 0xda40;  // -200 in fp16
  uint16_t* const row = exponents + blockIdx.x * ld;
  for (int64_t i = threadIdx.x; i < columns; i += blockDim.x) {
    if (row[i] == kLeast) row[i] = 0;
  }
}

template <class Element>
Status Kept(const kernel::cuda::Kept& kept, const BackwardList& list, int64_t rows,
            const DLogitsEpilogue<Element>& epilogue, cudaStream_t stream) {
  const CudaMutantCall& call = CurrentCall();
  kernel::cuda::Kept told = kept;
  if (call.Is("kept-by-backward-place")) told.slot = list.slot;
  // An offset of 64 columns stays inside the workspace, which continues after the kept logits.
  if (call.Is("kept-columns-off")) {
    if (told.exponents != nullptr) {
      told.exponents += 64;
    } else {
      told.logits += 64;
    }
  }
  // A row has memory for one more offset than the portable path has tiles, or the next row follows.
  if (call.Is("kept-offset-of-neighbour")) ++told.offsets.data;
  if (call.Is("kept-least-as-zero") && told.exponents != nullptr) {
    Status status = LaunchKernel("LeastAsZero", &LeastAsZero, rows, 256, 0, stream,
                                 told.exponents + (epilogue.first_column - told.first_column), told.ld,
                                 epilogue.columns);
    if (!status.ok()) return status;
  }
  Status status = KeptDLogits(told, list, rows, epilogue, stream);
  thread_local std::optional<DLogitsEpilogue<Element>> before;
  if (call.Is("kept-chunk-late") && kept.d_logits != nullptr) {
    if (epilogue.first_column == kept.first_column) before.reset();
    if (status.ok() && before) status = KeptDLogits(told, list, rows, *before, stream);
    before = epilogue;
  }
  return status;
}

Status ForwardOfHalf(const Product& product, const ForwardEpilogue& epilogue, cudaStream_t stream) {
  return kPortablePath.f16.forward(product, epilogue, stream);
}

Status DLogitsOfHalf(const Product& product, const DLogitsEpilogue<__half>& epilogue,
                     cudaStream_t stream) {
  return kPortablePath.f16.d_logits(product, epilogue, stream);
}

Status Rows(const PartialSums& partial, const ForwardList& list, const ForwardOutputs& outputs,
            SavedRow* saved, cudaStream_t stream) {
  return LaunchFinishRows(partial, list, outputs, saved, stream, Hooks());
}

Status FinishedGradHidden(const float* sums, int64_t ld, const int32_t* slot,
                          const GradientOutput& output, cudaStream_t stream) {
  // The per-thread stream is used, or the legacy stream (nullptr) if the call is on the former. Nothing
  // orders it after the call's stream.
  if (CurrentCall().Is("stream-not-waited"))
    stream = stream == cudaStreamPerThread ? nullptr : cudaStreamPerThread;
  return FinishGradient(sums, ld, slot, output, stream);
}

}  // namespace

const Path kMutantPortablePath = {
    portable::kTile,
    {&Forward, &DLogits, &GradHidden<__nv_bfloat16>, &GradWeight<__nv_bfloat16>, nullptr,
     &Kept<__nv_bfloat16>},
    {&ForwardOfHalf, &DLogitsOfHalf, &GradHidden<__half>, &GradWeight<__half>, nullptr, &Kept<__half>},
    &GradWeightOfBlock,
    &Rows,
    &FinishedGradHidden};

}  // namespace plumbline::fuzz
