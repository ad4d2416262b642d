// SPDX-License-Identifier: Apache-2.0
//
// The paths of the operator, one constant each. Host code may include this: the type
// (kernel/cuda/stages/path.h) holds pointers to functions whose arguments only nvcc knows.

#pragma once

namespace plumbline::kernel::cuda {

struct Path;

extern const Path kPortablePath;
extern const Path kSimtPath;
extern const Path kHopperPath;

}  // namespace plumbline::kernel::cuda
