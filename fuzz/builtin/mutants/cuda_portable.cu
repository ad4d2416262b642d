// SPDX-License-Identifier: Apache-2.0
//
// A second instantiation of the portable path, for bf16 and so for fp32 in planes, with every defect
// that its main loop and its epilogues can have. For every dtype it also has the passes' defects, by
// changing the arguments of products and of the last steps.

#include <optional>
#include <type_traits>

#include "fuzz/builtin/mutants/cuda_paths.h"
#include "kernel/cuda/layout/workspace.h"
#include "kernel/cuda/pass/pass.h"
#include "kernel/cuda/portable/launch.cuh"
#include "kernel/cuda/stages/finish_rows.cuh"
#include "kernel/cuda/stages/operands.h"
#include "kernel/cuda/support/defects.h"

namespace plumbline::fuzz {
namespace {

using namespace kernel::cuda;  // NOLINT: a path of kernel/cuda, defined outside of it
using kernel::Status;
using portable::kTile;

// Forward epilogues whose defects come from changed arguments rather than from changed code.
struct PlantedSoftmax : ForwardEpilogue {
  int active = 0;

  template <int BN, class Scratch>
  __device__ void Store(float (&d)[BN / 2], int64_t row, int64_t column, int64_t live_rows,
                        Scratch scratch) const {
    const PlantedDefect plan{active};
    const bool ragged = column + BN > columns;
    if (ragged && plan.Has(Defect::kPartialUnwritten)) return;
    ForwardEpilogue told = *this;
    if (ragged && (plan.Has(Defect::kTailUnmasked) || plan.Has(Defect::kTailSentinel))) {
      const int last = static_cast<int>(columns - column) - static_cast<int>(threadIdx.x % 4 * 2);
#pragma unroll
      for (int i = 0; i < BN / 2; ++i) {
        if (plan.Has(Defect::kTailSentinel) && i / 4 * 8 + i % 2 >= last) d[i] = -1e4f;
      }
      told.columns = column + BN;
    }
    told.Store<BN>(d, row, column, live_rows, scratch);
  }
};

// The defect: rows past the last live one keep what the workspace held.
struct PlantedDLogits : DLogitsEpilogue<__nv_bfloat16> {
  int active = 0;

  template <int BN, class Scratch>
  __device__ void Store(float (&d)[BN / 2], int64_t row, int64_t column, int64_t live_rows,
                        Scratch scratch) const {
    DLogitsStore<__nv_bfloat16> told = *this;
    if (PlantedDefect{active}.Has(Defect::kDeadRowsKept)) told.allocated_rows = live_rows;
    if (told.plane_stride == 0) {
      DLogitsEpilogue<__nv_bfloat16>{told}.Store<BN>(d, row, column, live_rows, scratch);
    } else {
      DLogitsEpilogue<__nv_bfloat16, true>{told}.Store<BN>(d, row, column, live_rows, scratch);
    }
  }
};

template <class Planted, class Epilogue>
Planted Plant(const Epilogue& epilogue, int active) {
  Planted planted;
  static_cast<Epilogue&>(planted) = epilogue;
  planted.active = active;
  return planted;
}

template <bool kTransposedA, bool kTransposedB, class Epilogue>
Status Launch(const char* name, const Product& product, const Epilogue& epilogue, cudaStream_t stream) {
  return portable::Launch<portable::TensorCore<__nv_bfloat16>, kTransposedA, kTransposedB>(
      name, product, epilogue, stream, CurrentPlantedCall().plan());
}

Status Forward(const Product& product, const ForwardEpilogue& epilogue, cudaStream_t stream) {
  const int active = CurrentPlantedCall().plan().active;
  return Launch<false, false>("forward", product, Plant<PlantedSoftmax>(epilogue, active), stream);
}

Status DLogits(const Product& product, const DLogitsEpilogue<__nv_bfloat16>& epilogue,
               cudaStream_t stream) {
  const int active = CurrentPlantedCall().plan().active;
  return Launch<false, false>("d_logits", product, Plant<PlantedDLogits>(epilogue, active), stream);
}

// The defect: the chunk's columns of d_logits are multiplied by the first columns of the vocabulary.
Status StaleWeight(const PlantedCall& call, const Product& product, cudaStream_t stream, Operand* b) {
  const std::optional<Layout> layout = MakeLayout(*call.problem, *call.results);
  const BackwardLayout& backward = layout->backward;
  return MakeWeight(call.problem->weight, 0, product.k, backward.packed_chunk, layout->packed_ld,
                    call.workspace + backward.packed_weight, stream, b);
}

template <class Element>
Status GradHidden(const Product& product, const AccumulateEpilogue& epilogue, cudaStream_t stream) {
  const PlantedCall& call = CurrentPlantedCall();
  Product told = product;
  if (call.defect == Defect::kStaleChunk) {
    const Status status = StaleWeight(call, product, stream, &told.b);
    if (!status.ok()) return status;
  }
  if constexpr (std::is_same_v<Element, __half>) {
    return kPortablePath.f16.grad_hidden(told, epilogue, stream);
  } else {
    AccumulateEpilogue onto = epilogue;
    if (call.defect == Defect::kAccumulatorNotCleared) onto.first = false;
    return Launch<false, true>("grad_hidden", told, onto, stream);
  }
}

template <class Element>
Status GradWeight(const Product& product, const GradWeightEpilogue& epilogue, cudaStream_t stream) {
  Product told = product;
  if (CurrentPlantedCall().defect == Defect::kForwardListInBackward) told.use_alternative = nullptr;
  if constexpr (std::is_same_v<Element, __half>) {
    return kPortablePath.f16.grad_weight(told, epilogue, stream);
  } else {
    return Launch<true, true>("grad_weight", told, epilogue, stream);
  }
}

template <class Element>
Status PlantedKept(const Kept& kept, const BackwardList& list, int64_t rows,
                   const DLogitsEpilogue<Element>& epilogue, cudaStream_t stream) {
  Kept told = kept;
  if (CurrentPlantedCall().defect == Defect::kKeptByBackwardPlace) told.slot = list.slot;
  // An offset of 64 columns stays inside the workspace, which continues after the kept logits.
  if (CurrentPlantedCall().defect == Defect::kKeptColumnsOff) told.logits += 64;
  return KeptDLogits(told, list, rows, epilogue, stream);
}

Status ForwardOfHalf(const Product& product, const ForwardEpilogue& epilogue, cudaStream_t stream) {
  return kPortablePath.f16.forward(product, epilogue, stream);
}

Status DLogitsOfHalf(const Product& product, const DLogitsEpilogue<__half>& epilogue,
                     cudaStream_t stream) {
  return kPortablePath.f16.d_logits(product, epilogue, stream);
}

Status PlantedRows(const PartialSums& partial, const ForwardList& list, const ForwardOutputs& outputs,
                   SavedRow* saved, cudaStream_t stream) {
  return LaunchFinishRows(partial, list, outputs, saved, stream, CurrentPlantedCall().plan());
}

Status PlantedGradHidden(const float* sums, int64_t ld, const int32_t* slot,
                         const GradHiddenOutput& output, cudaStream_t stream) {
  // The per-thread stream is used, or the legacy stream (nullptr) if the call is on the former. Nothing
  // orders it after the call's stream.
  if (CurrentPlantedCall().defect == Defect::kStreamNotWaited)
    stream = stream == cudaStreamPerThread ? nullptr : cudaStreamPerThread;
  return FinishGradHidden(sums, ld, slot, output, stream);
}

}  // namespace

const Path kPlantedPortablePath = {
    kTile,
    {&Forward, &DLogits, &GradHidden<__nv_bfloat16>, &GradWeight<__nv_bfloat16>,
     &PlantedKept<__nv_bfloat16>},
    {&ForwardOfHalf, &DLogitsOfHalf, &GradHidden<__half>, &GradWeight<__half>, &PlantedKept<__half>},
    &PlantedRows,
    &PlantedGradHidden};

}  // namespace plumbline::fuzz
