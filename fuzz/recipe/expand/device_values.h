// SPDX-License-Identifier: Apache-2.0
//
// Makes the values of a recipe's hidden and weight on the device that uses them: at production sizes,
// expanding on the host and copying would take a hundred times as long as judging. The bits are those
// of FillValues (fuzz/recipe/expand/values.h): both make elements by fuzz/recipe/expand/kinds.h.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fuzz/recipe/recipe.h"

namespace plumbline::fuzz {

// Returns an empty text, or which part of the recipe cannot be expanded on a device: "values=swallow:
// ...". What follows needs a recipe that can.
std::string WhyNotOnDevice(const Recipe& recipe);

// The labels of a recipe of kConfident and kArgmax.
std::vector<int64_t> LeadingLabels(const Recipe& recipe);

// Enqueue on the legacy stream. Element (i, j) goes to data + (i * stride0 + j * stride1) elements of
// the recipe's dtype.
void FillHidden(const Recipe& recipe, void* data, int64_t stride0, int64_t stride1);
void FillWeight(const Recipe& recipe, void* data, int64_t stride0, int64_t stride1);

// Counts the bytes of [0, bytes) that differ from `pattern` and belong to none of `lines` runs of
// `length` bytes, which begin at `first` and lie `pitch` bytes apart; and finds the least offset of
// such a byte. `count` and `least` are device memory, which the caller sets to 0 and to the largest
// value.
void CountDamage(const unsigned char* memory, int64_t bytes, unsigned char pattern, int64_t first,
                 int64_t lines, int64_t length, int64_t pitch, unsigned long long* count,
                 unsigned long long* least);

}  // namespace plumbline::fuzz
