// SPDX-License-Identifier: Apache-2.0
//
// Replaces operator.cc in a build without a CUDA compiler: every call returns kUnsupported.

#include "kernel/cuda/operator.h"

namespace plumbline::kernel::cuda {
namespace {

Status NotBuilt() {
  return Status::Error(Code::kUnsupported,
                       "execution.device = cuda: this build has no CUDA implementation");
}

}  // namespace

bool Built() { return false; }

Status GetSizes(const Problem&, const Results&, const Execution&, Sizes*, int64_t) {
  return NotBuilt();
}
Status Forward(const Problem&, const Results&, const Execution&, void*, void*, const Path*, int64_t) {
  return NotBuilt();
}
Status Backward(const Problem&, const Results&, const Execution&, void*, const void*, const Path*,
                int64_t) {
  return NotBuilt();
}
Status GetForwardBackwardSize(const Problem&, const Results&, const Execution&, size_t*, int64_t) {
  return NotBuilt();
}
Status ForwardBackward(const Problem&, const Results&, const Execution&, const UpstreamGradients&,
                       void*, const Path*, int64_t) {
  return NotBuilt();
}

}  // namespace plumbline::kernel::cuda
