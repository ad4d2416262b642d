// SPDX-License-Identifier: Apache-2.0

#include "fuzz/builtin/upstream.h"

namespace plumbline::fuzz {

kernel::Status Enqueue(const CopyUpstream&, void*) {
  return kernel::Status::Error(kernel::Code::kUnsupported, "this build has no CUDA implementation");
}

}  // namespace plumbline::fuzz
