// SPDX-License-Identifier: Apache-2.0
//
// Converts many floats at once to a tensor's dtype and back. The values are those that
// kernel::ToBFloat16 and kernel::ToFloat16 give one by one (to nearest, ties to even), in loops without
// branches, which compilers vectorise. Recipes are expanded through here.

#pragma once

#include <cstddef>
#include <span>

#include "kernel/dtype.h"

namespace plumbline::fuzz {

// Converts to `dtype`, a float type. `to` has room for as many of its elements as there are values.
void Narrow(std::span<const float> values, kernel::DType dtype, std::byte* to);

// Converts values.size() elements of `dtype` to fp32, exactly, as kernel::ToFloat widens each.
void Widen(const std::byte* from, kernel::DType dtype, std::span<float> values);

}  // namespace plumbline::fuzz
