// SPDX-License-Identifier: Apache-2.0
//
// The streams of random bits that a recipe is expanded from. Internal to Expand and its form on a
// device.

#pragma once

#include <cstdint>

namespace plumbline::fuzz {

// The use of a stream of random bits. The numbers are part of the expansion: never reuse or renumber
// one.
enum class Purpose : uint32_t {
  kHidden = 1,
  kWeight = 2,
  kHiddenPlan = 3,  // per row
  kWeightPlan = 4,  // per vocabulary column
  kPlan = 5,        // per problem
  kLabels = 6,
  kIgnored = 7,
  kIgnoredValues = 8,
  kTemperature = 9,
  kGrads = 10,
  kEntropyGrads = 11,
  kSpecial = 12,
  kInvalid = 13,
  kLayout = 14,
  kSequences = 15,
  kAdvantages = 16,  // per group of sequences
};

}  // namespace plumbline::fuzz
