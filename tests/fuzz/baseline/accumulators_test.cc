// SPDX-License-Identifier: Apache-2.0
//
// Gradients that are accumulated in 16 bits by code that the harness does not have.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "fuzz/target/contracts.h"
#include "tests/fuzz/baseline/drawn_problem.h"

namespace plumbline::fuzz {
namespace {

using testing::Drawn, testing::Text;

float ToBf16(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  return std::bit_cast<float>((bits + 0x7fffU + ((bits >> 16) & 1U)) & 0xffff0000U);
}

// Writes grad_hidden as bf16 chunks of `chunk` columns are added to a bf16 tensor.
void Accumulate(const Drawn& drawn, int64_t chunk, bool rounds_parts) {
  const OwnedProblem& p = drawn.owned();
  const int64_t v = p.vocab(), h = p.hidden_size();
  auto* const out = static_cast<float*>(drawn.results().grad_hidden->data);
  for (int64_t i = 0; i < p.rows(); ++i) {
    std::vector<double> z(static_cast<size_t>(v)), d(z.size());
    double s = 0, mean = 0;
    for (int64_t c = 0; c < v; ++c) {
      auto& logit = z[static_cast<size_t>(c)];
      for (int64_t j = 0; j < h; ++j) {
        logit += static_cast<double>(p.hidden.GetFloat(i * h + j)) *
                 static_cast<double>(p.weight.GetFloat(c * h + j));
      }
      s += std::exp(logit);
    }
    for (const double logit : z) mean += std::exp(logit) / s * logit;
    const auto g = static_cast<double>(p.grad_logprob->GetFloat(i));
    const auto k = static_cast<double>(p.grad_entropy->GetFloat(i));
    for (int64_t c = 0; c < v; ++c) {
      const double logit = z[static_cast<size_t>(c)], probability = std::exp(logit) / s;
      d[static_cast<size_t>(c)] =
          g * ((c == p.labels.GetInt(i) ? 1 : 0) - probability) - k * probability * (logit - mean);
    }
    for (int64_t j = 0; j < h; ++j) {
      float sum = 0;
      for (int64_t first = 0; first < v; first += chunk) {
        double part = 0;
        for (int64_t c = first; c < std::min(v, first + chunk); ++c) {
          part += d[static_cast<size_t>(c)] * static_cast<double>(p.weight.GetFloat(c * h + j));
        }
        const auto added = static_cast<float>(part);
        sum = ToBf16(sum + (rounds_parts ? ToBf16(added) : added));
      }
      out[i * h + j] = sum;
    }
  }
}

// Fails if one of the two forms is not simulated, or taken for the other: a product that is rounded
// before it is added, as `total += a @ b` on bf16 tensors is, was explained by nothing.
TEST(Accumulators, AreToldByWhatTheyRound) {
  const Drawn drawn({.n = 12, .v = 1000, .h = 64}, 5);
  drawn.Compute("host");
  std::string error;
  const oracle::Contract held = DescriptionOf("pytorch-fp32-logits", &error)->description.Assumed();
  for (const bool rounds_parts : {false, true}) {
    Accumulate(drawn, 64, rounds_parts);
    const HonestErrors errors = drawn.Compare(held);
    EXPECT_TRUE(errors.Suspect(oracle::Output::kGradHidden)) << Text(errors.outputs);
    EXPECT_EQ(errors.explanation.Words(),
              std::string("grad_hidden accumulated in bf16 every 64 columns") +
                  (rounds_parts ? ", each part rounded first" : ""));
  }
}

}  // namespace
}  // namespace plumbline::fuzz
