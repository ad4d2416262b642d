// SPDX-License-Identifier: Apache-2.0
//
// Numbers, indices and tensors computed from a problem that several rooms use.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "fuzz/problem/owned_problem.h"

namespace plumbline::fuzz {

// Significant bits of a finite float: 1 for a power of two, 0 for zero.
int SignificantBits(float value);

// The logits hidden[row] . weight^T, in fp64.
std::vector<double> Logits(const OwnedProblem& problem, int64_t row);

// The indices 0, 1, ..., count - 1.
std::vector<int64_t> Iota(int64_t count);

// The same labels in another integer type, which must hold them.
HostTensor LabelsAs(kernel::DType dtype, const HostTensor& labels);

// A dense, row-major view of a tensor of this shape, rank 0 to 2.
kernel::ConstTensor DenseTensor(kernel::DType dtype, std::span<const int64_t> shape, const void* data);

// Gives the tensors that a layout broadcasts stride 0.
void Broadcast(const Layout& layout, kernel::Problem* view);

// "[3, 64]"; "[]" of a scalar.
std::string ShapeText(std::span<const int64_t> shape);

}  // namespace plumbline::fuzz
