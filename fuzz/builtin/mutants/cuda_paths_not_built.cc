// SPDX-License-Identifier: Apache-2.0
//
// Replaces cuda_paths.cc in a build without a CUDA compiler.

#include "fuzz/builtin/mutants/cuda_paths.h"

namespace plumbline::fuzz {

kernel::Status FindPath(const MutantRow&, const kernel::cuda::Path**) {
  return kernel::Status::Error(kernel::Code::kUnsupported, "this build has no CUDA implementation");
}

}  // namespace plumbline::fuzz
