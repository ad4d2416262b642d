// SPDX-License-Identifier: Apache-2.0
//
// Replaces cuda_call.cc in a build without a CUDA compiler.

#include "fuzz/builtin/mutants/cuda_call.h"

namespace plumbline::fuzz {
namespace {

kernel::Status NotBuilt() {
  return kernel::Status::Error(kernel::Code::kUnsupported, "this build has no CUDA implementation");
}

}  // namespace

kernel::Status ForwardPlanted(const kernel::Problem&, const kernel::Results&, void*, void*, void*,
                              const kernel::cuda::DefectEntry&) {
  return NotBuilt();
}
kernel::Status BackwardPlanted(const kernel::Problem&, const kernel::Results&, void*, const void*,
                               void*, const kernel::cuda::DefectEntry&) {
  return NotBuilt();
}
kernel::Status ForwardBackwardPlanted(const kernel::Problem&, const kernel::Results&,
                                      const kernel::Execution&, const kernel::UpstreamGradients&, void*,
                                      const kernel::cuda::DefectEntry&) {
  return NotBuilt();
}

}  // namespace plumbline::fuzz
