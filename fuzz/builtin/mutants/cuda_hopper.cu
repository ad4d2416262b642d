// SPDX-License-Identifier: Apache-2.0
//
// The Hopper path with every defect that its main loop can have. Those of epilogues are on the portable
// path. d_logits have none: their main loop is forward's, and they are the kernel that takes longest to
// compile. Two parts of them are thus without mutants: fetching the rows' numbers while the products
// run, and d_logits made beside the gradients' products, which only problems larger than the harness's
// small ones have.

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

Status Sweep(const Product& hidden, const AccumulateEpilogue& sums, const Product& weight,
             const GradWeightLines<__nv_bfloat16>& lines, cudaStream_t stream) {
  Product told = weight;
  if (CurrentCall().Is("hopper-sweep-rows-left-behind")) told.use_alternative = nullptr;
  return hopper::LaunchSweep(hidden, sums, told, lines, stream, CudaMutantHooks{CurrentCall().active});
}

}  // namespace

const Path kMutantHopperPath = {
    hopper::kSoftmaxColumns,
    {&Launch<hopper::ForwardTile, ForwardEpilogue>, &hopper::DLogits<__nv_bfloat16>,
     &Launch<hopper::GradHiddenTile, AccumulateEpilogue>,
     &Launch<hopper::GradWeightTile, GradWeightEpilogue>, &Sweep},
    {&hopper::Forward<__half>, &hopper::DLogits<__half>, &hopper::GradHidden<__half>,
     &hopper::GradWeight<__half>, &hopper::BothGradients<__half>},
    &hopper::GradWeightOfBlock};

}  // namespace plumbline::fuzz
