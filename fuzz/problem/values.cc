// SPDX-License-Identifier: Apache-2.0

#include "fuzz/problem/values.h"

#include <bit>

namespace plumbline::fuzz {

int SignificantBits(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t exponent = (bits >> 23) & 0xff;
  const uint32_t significand = (bits & 0x007f'ffff) | (exponent != 0 ? 0x0080'0000 : 0);
  if (significand == 0) return 0;
  return static_cast<int>(std::bit_width(significand)) - std::countr_zero(significand);
}

std::vector<double> Logits(const OwnedProblem& problem, int64_t row) {
  std::vector<double> logits(static_cast<size_t>(problem.vocab()));
  const int64_t width = problem.hidden_size();
  for (int64_t v = 0; v < problem.vocab() && row < problem.rows(); ++v) {
    double sum = 0;
    for (int64_t d = 0; d < width; ++d) {
      sum += static_cast<double>(problem.hidden.GetFloat(row * width + d)) *
             static_cast<double>(problem.weight.GetFloat(v * width + d));
    }
    logits[static_cast<size_t>(v)] = sum;
  }
  return logits;
}

}  // namespace plumbline::fuzz
