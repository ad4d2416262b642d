// SPDX-License-Identifier: Apache-2.0
//
// Many floats to a tensor's dtype at once, and back: the values that kernel::ToBFloat16 and
// kernel::ToFloat16 give one by one, to nearest, ties to even, in loops without branches that compilers
// vectorise. Recipes are expanded through here.

#ifndef PLUMBLINE_FUZZ_PROBLEM_NARROW_H_
#define PLUMBLINE_FUZZ_PROBLEM_NARROW_H_

#include <cstddef>
#include <span>

#include "kernel/dtype.h"

namespace plumbline::fuzz {

// `to` has room for as many elements of `dtype` (a float type) as there are values.
void Narrow(std::span<const float> values, kernel::DType dtype, std::byte* to);

// The other way, exactly: values.size() elements of `dtype`, as kernel::ToFloat widens each.
void Widen(const std::byte* from, kernel::DType dtype, std::span<float> values);

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_PROBLEM_NARROW_H_
