// SPDX-License-Identifier: Apache-2.0
//
// The Hopper path once more, for bf16 and so for fp32 in planes, with every defect that its main loop
// can have; defects of epilogues are the portable path's. d_logits are sound: their main loop is
// forward's, and they are the dearest kernel to compile. Nothing is planted in what they do beyond it,
// rows' numbers fetched while the products run, nor in d_logits made beside the gradients' products,
// which only problems larger than the harness's small ones have.

#include "fuzz/builtin/mutants/cuda_paths.h"
#include "kernel/cuda/hopper/launch.h"
#include "kernel/cuda/hopper/launch_product.cuh"
#include "kernel/cuda/pass/pass.h"

namespace plumbline::fuzz {
namespace {

using namespace kernel::cuda;  // NOLINT: this is a path of that room, planted from without
using kernel::Status;

template <class Tile, class Epilogue>
Status Launch(const Product& product, const Epilogue& epilogue, cudaStream_t stream) {
  return hopper::LaunchProduct<__nv_bfloat16, Tile>(product, epilogue, stream,
                                                    CurrentPlantedCall().plan());
}

}  // namespace

const Path kPlantedHopperPath = {
    hopper::kSoftmaxColumns,
    {&Launch<hopper::ForwardTile, ForwardEpilogue>, &hopper::DLogits<__nv_bfloat16>,
     &Launch<hopper::GradHiddenTile, AccumulateEpilogue>,
     &Launch<hopper::GradWeightTile, GradWeightEpilogue>},
    {&hopper::Forward<__half>, &hopper::DLogits<__half>, &hopper::GradHidden<__half>,
     &hopper::GradWeight<__half>}};

}  // namespace plumbline::fuzz
