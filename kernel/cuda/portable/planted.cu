// SPDX-License-Identifier: Apache-2.0
//
// The portable path once more, with every defect that it can have, for bf16 and so for fp32 in planes.

#include "kernel/cuda/defects.h"
#include "kernel/cuda/driver.h"
#include "kernel/cuda/portable/launch.cuh"

namespace plumbline::kernel::cuda {
namespace {

using portable::kTile;

// Epilogues whose defects are in what they are told rather than in what they do.
struct PlantedSoftmax : ForwardEpilogue {
  int active = 0;

  template <int BN>
  __device__ void Store(float (&d)[BN / 2], int64_t row, int64_t column, int64_t live_rows) const {
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
    told.Store<BN>(d, row, column, live_rows);
  }
};

// Rows past the last live one keep what the workspace held.
struct PlantedDLogits : DLogitsEpilogue<__nv_bfloat16> {
  int active = 0;

  template <int BN>
  __device__ void Store(float (&d)[BN / 2], int64_t row, int64_t column, int64_t live_rows) const {
    DLogitsEpilogue<__nv_bfloat16> told = *this;
    if (PlantedDefect{active}.Has(Defect::kDeadRowsKept)) told.allocated_rows = live_rows;
    told.Store<BN>(d, row, column, live_rows);
  }
};

template <class Planted, class Epilogue>
Planted Plant(const Epilogue& epilogue, int active) {
  Planted planted;
  static_cast<Epilogue&>(planted) = epilogue;
  planted.active = active;
  return planted;
}

Status Forward(const Product& product, const ForwardEpilogue& epilogue, cudaStream_t stream) {
  return portable::Launch<portable::TensorCore<__nv_bfloat16>, false, false>(
      "forward", product, Plant<PlantedSoftmax>(epilogue, product.planted), stream,
      PlantedDefect{product.planted});
}

Status DLogits(const Product& product, const DLogitsEpilogue<__nv_bfloat16>& epilogue,
               cudaStream_t stream) {
  return portable::Launch<portable::TensorCore<__nv_bfloat16>, false, false>(
      "d_logits", product, Plant<PlantedDLogits>(epilogue, product.planted), stream,
      PlantedDefect{product.planted});
}

Status GradHidden(const Product& product, const AccumulateEpilogue& epilogue, cudaStream_t stream) {
  AccumulateEpilogue told = epilogue;
  if (PlantedDefect{product.planted}.Has(Defect::kAccumulatorNotCleared)) told.first = false;
  return portable::Launch<portable::TensorCore<__nv_bfloat16>, false, true>(
      "grad_hidden", product, told, stream, PlantedDefect{product.planted});
}

Status GradWeight(const Product& product, const GradWeightEpilogue& epilogue, cudaStream_t stream) {
  return portable::Launch<portable::TensorCore<__nv_bfloat16>, true, true>(
      "grad_weight", product, epilogue, stream, PlantedDefect{product.planted});
}

}  // namespace

const Path kPlantedPortablePath = {
    kTile, {&Forward, &DLogits, &GradHidden, &GradWeight}, kPortablePath.f16};

}  // namespace plumbline::kernel::cuda
