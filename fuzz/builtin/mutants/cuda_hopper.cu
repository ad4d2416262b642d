// SPDX-License-Identifier: Apache-2.0
//
// The Hopper path with every defect that its main loop can have. Those of epilogues are on the portable
// path. d_logits have none: their main loop is forward's, and they are the kernel that takes longest to
// compile. Two parts of them are thus without mutants: fetching the rows' numbers while the products
// run, and d_logits made beside the gradients' products.

#include "fuzz/builtin/mutants/cuda_hooks.cuh"
#include "fuzz/builtin/mutants/cuda_paths.h"
#include "kernel/cuda/hopper/launch.h"
#include "kernel/cuda/hopper/launch_product.cuh"
#include "kernel/cuda/hopper/launch_sweep.cuh"

namespace plumbline::fuzz {
namespace {

using namespace kernel::cuda;  // NOLINT: a path of kernel/cuda, defined outside of it
using kernel::Status;

template <class Tile, class Epilogue>
Status Launch(const Product& product, const Epilogue& epilogue, cudaStream_t stream) {
  return hopper::LaunchProduct<__nv_bfloat16, Tile>(product, epilogue, stream,
                                                    CudaMutantHooks{CurrentCall().active});
}

// Sums of stretches that are computed together lie in the reverse order, in which they are then added,
// where a call is the second of two: what a race of whoever is ready is stood in for by.
AccumulateEpilogue OutOfOrder(const Product& product, const AccumulateEpilogue& sums) {
  const CudaMutantCall& call = CurrentCall();
  AccumulateEpilogue told = sums;
  if (!call.Is("hopper-stretch-out-of-order") || call.number % 2 == 0 || product.stretch == 0)
    return told;
  told.totals += (CeilDiv(product.k, product.stretch) - 1) * told.apart;
  told.apart = -told.apart;
  return told;
}

template <class Element>
Status GradHidden(const Product& product, const AccumulateEpilogue& epilogue, cudaStream_t stream) {
  const AccumulateEpilogue told = OutOfOrder(product, epilogue);
  if constexpr (std::is_same_v<Element, __half>) {
    return hopper::GradHidden<__half>(product, told, stream);
  } else {
    return Launch<hopper::GradHiddenTile>(product, told, stream);
  }
}

Status Sweep(const Product& hidden, const AccumulateEpilogue& sums, const Product& weight,
             const GradWeightLines<__nv_bfloat16>& lines, cudaStream_t stream) {
  Product told = weight;
  if (CurrentCall().Is("hopper-sweep-rows-left-behind")) told.use_alternative = nullptr;
  return hopper::LaunchSweep(hidden, OutOfOrder(hidden, sums), told, lines, stream,
                             CudaMutantHooks{CurrentCall().active});
}

Status SweepOfHalf(const Product& hidden, const AccumulateEpilogue& sums, const Product& weight,
                   const GradWeightLines<__half>& lines, cudaStream_t stream) {
  return hopper::BothGradients<__half>(hidden, OutOfOrder(hidden, sums), weight, lines, stream);
}

constexpr Path kInTurn = {
    .partial_columns = hopper::kSoftmaxColumns,
    .bf16 = {&Launch<hopper::ForwardTile, ForwardEpilogue>, &hopper::DLogits<__nv_bfloat16>,
             &GradHidden<__nv_bfloat16>, &Launch<hopper::GradWeightTile, GradWeightEpilogue>, &Sweep},
    .f16 = {&hopper::Forward<__half>, &hopper::DLogits<__half>, &GradHidden<__half>,
            &hopper::GradWeight<__half>, &SweepOfHalf},
    .grad_weight_of_block = &hopper::GradWeightOfBlock};

constexpr Path Together(Path path) {
  path.stretches_at_once = true;
  return path;
}

}  // namespace

const Path kMutantHopperPath = kInTurn;
const Path kMutantHopperTogetherPath = Together(kInTurn);

}  // namespace plumbline::fuzz
