// SPDX-License-Identifier: Apache-2.0

#include "kernel/cuda/portable/launch.cuh"
#include "kernel/cuda/support/paths.h"

namespace plumbline::kernel::cuda {

static_assert(HasLayout(portable::kTile));  // of kSimtPath too

const Path kPortablePath = {portable::kTile,
                            portable::Kernels<portable::TensorCore, __nv_bfloat16>::Table(),
                            portable::Kernels<portable::TensorCore, __half>::Table(),
                            &portable::Kernels<portable::TensorCore, __nv_bfloat16>::GradWeightOfBlock};

}  // namespace plumbline::kernel::cuda
