// SPDX-License-Identifier: Apache-2.0
//
// Replaces cuda_paths.cc in a build without a CUDA compiler.

#include "fuzz/builtin/mutants/cuda_paths.h"

namespace plumbline::fuzz {
namespace {

kernel::Status NotBuilt() {
  return kernel::Status::Error(kernel::Code::kUnsupported, "this build has no CUDA implementation");
}

}  // namespace

kernel::Status FindPath(const MutantRow&, const kernel::cuda::Path**) { return NotBuilt(); }

kernel::Status WithItsHeaderAgain(const void*, void*, const std::function<kernel::Status()>&) {
  return NotBuilt();
}

}  // namespace plumbline::fuzz
