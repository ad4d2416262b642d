// SPDX-License-Identifier: Apache-2.0
//
// Problems on which honest kernels are judged. A problem is a function of (set, vocabulary, seed)
// alone.

#pragma once

#include <cstdint>
#include <string_view>

#include "fuzz/baseline/simulate.h"
#include "fuzz/problem/owned_problem.h"
#include "kernel/dtype.h"

namespace plumbline::false_alarms {

// ordinary   logits of standard deviation 2.56 (at H = 4096: weight 0.02 N(0, 1), hidden 2 N(0, 1))
// massive    that, four channels of hidden 50 to 200 times larger, and T = 0.7
// confident  that of ordinary, the label's logit moved to a uniform number from -2 to 22
// wide       logits of standard deviation 0.01 to 20, T from 0.05 to 10, also row by row
enum class Data : uint8_t { kOrdinary, kMassive, kConfident, kWide };
std::string_view Name(Data data);

// small      8 to 64 rows, H 4 to 256, V 8 to 4096, at most 10^6 multiply-adds for the logits; every
//            dtype of inputs and gradients, T, g, k and ignored rows are drawn
// large      8 rows, H = 4096, V given; bf16 inputs, fp32 or bf16 gradients; g = N(0, 1), k = 0.01 N(0,
// 1)
enum class Set : uint8_t { kSmall, kLarge };

struct Drawn {
  Data data = Data::kOrdinary;
  fuzz::OwnedProblem problem;
  kernel::DType gradients = kernel::DType::kF32;
  fuzz::Places places;  // every normal row, some columns of each gradient
};

// Seeds are at least 1. Neighbouring seeds have the kinds of data in turn. `vocab`: of a large problem,
// at least 64. `most_places`: of the columns of grad_hidden and of the rows of grad_weight that are
// compared, at least 16; the tier takes 256.
Drawn Draw(Set set, int64_t vocab, int64_t most_places, uint64_t seed);

}  // namespace plumbline::false_alarms
