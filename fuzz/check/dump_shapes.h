// SPDX-License-Identifier: Apache-2.0
//
// What the names and shapes of a dump's tensors are where they are not those of CHECK.md: refused with
// what to save instead, or taken where only one thing can be meant.

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "fuzz/check/dump.h"
#include "kernel/problem.h"

namespace plumbline::fuzz {

// "lm_head [500, 64], x [16, 64]": the tensors of a file.
std::string Listed(const std::map<std::string, kernel::ConstTensor>& tensors);

// The refusal of a dump without one of the three tensors that every dump has.
std::string Missing(std::string_view name, const std::string& found);

// Takes [1] for a scalar: loss, the gradient of a reduction, and one temperature of several rows.
void TakeScalars(Dump* dump);

// "; flatten batch and sequence: [16]" if that makes n rows of the tensor, else empty.
std::string Flattened(const kernel::ConstTensor& tensor, int64_t n);

// Returns a refusal of labels, temperatures and upstream gradients that are not flattened and of a
// transposed weight; empty if there is none.
std::string CheckShapes(const Dump& dump);

}  // namespace plumbline::fuzz
