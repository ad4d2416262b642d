// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "tests/fuzz/honest/kernel.h"

namespace honest {

// A part of Kernels().
std::span<const Kernel> NarrowKernels();

}  // namespace honest
