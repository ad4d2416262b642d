// SPDX-License-Identifier: Apache-2.0
#include "fuzz/target/assumptions.h"

#include <array>
#include <utility>

namespace plumbline::fuzz {
namespace {

using oracle::Contract, oracle::Output;

bool IsOfLogprob(Output output) { return output == Output::kLogprob || output == Output::kLoss; }
bool IsEntropy(Output output) { return output == Output::kEntropy; }
bool IsGradient(Output output) {
  return output == Output::kGradHidden || output == Output::kGradWeight;
}
bool IsAny(Output) { return true; }

constexpr std::array kReadings = {
    Reading{
        "logprob is formed as x_y - lse", "\"plain_logprob\": true",
        [](Contract* declared, Assumptions*) { return !std::exchange(declared->plain_logprob, true); },
        IsOfLogprob},
    Reading{
        "entropy is formed as lse - sum p x", "\"plain_entropy\": true",
        [](Contract* declared, Assumptions*) { return !std::exchange(declared->plain_entropy, true); },
        IsEntropy},
    Reading{"entropy is formed as -sum p ln p", "\"entropy_of_probabilities\": true",
            [](Contract* declared, Assumptions*) {
              return !std::exchange(declared->entropy_of_probabilities, true);
            },
            IsEntropy},
    Reading{"d_logits are those of autograd: G - p sum G, G the gradients of log-probabilities",
            "\"log_softmax_backward\": true",
            [](Contract* declared, Assumptions*) {
              return !std::exchange(declared->log_softmax_backward, true);
            },
            IsGradient},
    Reading{"logits are scaled, by 1/T or by log2(e)/T, and rounded before the maximum is subtracted",
            "\"scale_exact_powers\": false",
            [](Contract*, Assumptions* assumed) { return std::exchange(assumed->exact_scale, false); },
            IsAny},
    Reading{"the sums over the vocabulary add, or rescale, one column after another", "\"tile\": 1",
            [](Contract*, Assumptions* assumed) { return std::exchange(assumed->tiles, false); },
            IsAny},
};

}  // namespace

Contract Assume(Contract declared, const Assumptions& assumed) {
  if (assumed.exact_scale) declared.scale_exact_powers = true;
  if (assumed.tiles) {
    declared.tile = kAssumedTile;
    declared.tile_depth = kAssumedDepth;
    declared.column_rescales = kAssumedColumnRescales;
  }
  return declared;
}

std::span<const Reading> Readings() { return kReadings; }

}  // namespace plumbline::fuzz
