// SPDX-License-Identifier: Apache-2.0

#include "kernel/cuda/portable/launch.cuh"
#include "kernel/cuda/support/paths.h"

namespace plumbline::kernel::cuda {

const Path kSimtPath = {portable::kTile, portable::Kernels<portable::Simt, __nv_bfloat16>::Table(),
                        portable::Kernels<portable::Simt, __half>::Table(),
                        &portable::Kernels<portable::Simt, __nv_bfloat16>::GradWeightOfBlock};

}  // namespace plumbline::kernel::cuda
