// SPDX-License-Identifier: Apache-2.0
#include "kernel/cuda/hopper/launch.h"
#include "kernel/cuda/support/paths.h"

namespace plumbline::kernel::cuda {

static_assert(HasLayout(hopper::kSoftmaxColumns));

const Path kHopperPath = {
    .partial_columns = hopper::kSoftmaxColumns,
    .bf16 = {hopper::Forward<__nv_bfloat16>, hopper::DLogits<__nv_bfloat16>,
             hopper::GradHidden<__nv_bfloat16>, hopper::GradWeight<__nv_bfloat16>,
             hopper::BothGradients<__nv_bfloat16>},
    .f16 = {hopper::Forward<__half>, hopper::DLogits<__half>, hopper::GradHidden<__half>,
            hopper::GradWeight<__half>, hopper::BothGradients<__half>},
    .grad_weight_of_block = &hopper::GradWeightOfBlock,
    .stretches_at_once = true,
    .makes_kept = true,
};

}  // namespace plumbline::kernel::cuda
