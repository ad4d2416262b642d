// SPDX-License-Identifier: Apache-2.0
//
// Makes the values of a recipe's hidden and weight on the device that uses them: at production sizes,
// expanding on the host and copying would take a hundred times as long as judging. For the kinds that
// WhyNotOnDevice accepts, the bits are those of FillValues (fuzz/recipe/expand/values.h), which uses
// only integer and exactly rounded operations.

#ifndef PLUMBLINE_FUZZ_RECIPE_EXPAND_DEVICE_VALUES_H_
#define PLUMBLINE_FUZZ_RECIPE_EXPAND_DEVICE_VALUES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "fuzz/recipe/recipe.h"

namespace plumbline::fuzz {

// The parameters of a recipe that the kernels need, computed once on the host. Plain data.
struct FillPlan {
  Values values = Values::kGaussian;
  kernel::DType dtype = kernel::DType::kBf16;
  uint64_t seed = 0;
  int64_t n = 0, v = 0, h = 0;
  double largest = 0;           // the dtype's largest finite value
  double scale = 0;             // kGaussian: weight's; kOffset: the sign; kConfident: the lead
  double parts[3] = {0, 0, 0};  // kOffset
  int64_t count = 0;            // kOffset: parts; kConfident: leaders; kTies: dimensions of digits
  int64_t limit = 0;            // kLattice: A
  int hidden_exp = 0, weight_exp = 0;              // kLattice; kMassive: weight's
  int64_t channels[3] = {-1, -1, -1};              // kMassive, and the columns near 0 of kSmallLse
  int64_t edge = 0, tile = 1, style = 0, top = 0;  // kTies
  int64_t places = 0;                              // kTies: digits in all
  bool fp16 = false;
  const int64_t* leading = nullptr;  // kConfident, device memory: the column that leads each dimension
};

// Returns an empty text, or which part of the recipe cannot be expanded on a device: "values=swallow:
// ...".
std::string WhyNotOnDevice(const Recipe& recipe);

// The labels of a recipe of kConfident and kArgmax that WhyNotOnDevice accepts.
std::vector<int64_t> LeadingLabels(const Recipe& recipe);

// Makes the plan of a recipe that WhyNotOnDevice accepts. `leading` is not set in the plan but returned
// in *leading, in host memory.
FillPlan PlanFill(const Recipe& recipe, std::vector<int64_t>* leading);

// Enqueue on the legacy stream. Element (i, j) goes to data + (i * stride0 + j * stride1) elements of
// the plan's dtype.
void FillHidden(const FillPlan& plan, void* data, int64_t stride0, int64_t stride1);
void FillWeight(const FillPlan& plan, void* data, int64_t stride0, int64_t stride1);

// Counts the bytes of [0, bytes) that differ from `pattern` and belong to none of `lines` runs of
// `length` bytes, which begin at `first` and lie `pitch` bytes apart; and finds the least offset of
// such a byte. `count` and `least` are device memory, which the caller sets to 0 and to the largest
// value.
void CountDamage(const unsigned char* memory, int64_t bytes, unsigned char pattern, int64_t first,
                 int64_t lines, int64_t length, int64_t pitch, unsigned long long* count,
                 unsigned long long* least);

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_RECIPE_EXPAND_DEVICE_VALUES_H_
