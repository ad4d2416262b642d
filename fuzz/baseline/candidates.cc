// SPDX-License-Identifier: Apache-2.0
#include "fuzz/baseline/candidates.h"

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdint>
#include <iterator>
#include <set>
#include <string_view>
#include <utility>

#include "fuzz/base/text.h"

namespace plumbline::fuzz {
namespace {

using kernel::DType, oracle::Output;

void StoreIn(DType dtype, Shortcuts* s) { s->logprob = s->entropy = s->lse = dtype; }

constexpr std::array kSixteenBits = {std::pair(DType::kBf16, "bf16"), std::pair(DType::kF16, "fp16")};

// A rounding of a step to bf16 and to fp16.
void AddStep(const std::string& what, kernel::DType Shortcuts::* step, std::vector<Candidate>* all,
             bool of_temperature = false) {
  constexpr std::string_view kPlace = "16 bits";
  for (const auto& [dtype, word] : kSixteenBits) {
    Candidate& candidate = all->emplace_back();
    candidate.what = what;
    candidate.what.replace(what.find(kPlace), kPlace.size(), word);
    candidate.apply = [step, dtype](Shortcuts* s) { s->*step = dtype; };
    candidate.of_temperature = of_temperature;
  }
}

std::vector<Candidate> Roundings() {
  std::vector<Candidate> all;
  AddStep("logits rounded to 16 bits", &Shortcuts::logits, &all);
  AddStep("logits / T rounded to 16 bits", &Shortcuts::scaled_logits, &all, true);
  AddStep("log2(e) rounded to 16 bits", &Shortcuts::log2e, &all);
  AddStep("log2(e) rounded to 16 bits in the exponentials", &Shortcuts::exponent, &all);
  AddStep("T rounded to 16 bits", &Shortcuts::temperature, &all, true);
  for (const auto& [dtype, word] : kSixteenBits) {
    all.push_back(
        {std::string("outputs stored in ") + word, [dtype](Shortcuts* s) { StoreIn(dtype, s); }});
  }
  AddStep("logprob stored in 16 bits", &Shortcuts::logprob, &all);
  AddStep("entropy stored in 16 bits", &Shortcuts::entropy, &all);
  AddStep("lse stored in 16 bits", &Shortcuts::lse, &all);
  AddStep("the softmax sum rounded to 16 bits", &Shortcuts::softmax_sum, &all);
  AddStep("log-probabilities kept in 16 bits", &Shortcuts::log_probs, &all);
  AddStep("lse kept in 16 bits for backward", &Shortcuts::saved_lse, &all);
  AddStep("the softmax sum kept in 16 bits for backward", &Shortcuts::sum, &all);
  AddStep("probabilities rounded to 16 bits before the label's 1 is subtracted",
          &Shortcuts::probabilities, &all);
  AddStep("d_logits rounded to 16 bits", &Shortcuts::d_logits, &all);
  AddStep("d_logits rounded to 16 bits before they are divided by T", &Shortcuts::d_scaled_logits, &all,
          true);
  all.push_back(
      {"no gradient from probabilities below 2^-12", [](Shortcuts* s) { s->filter = 0x1p-12; }});
  return all;
}

std::vector<Candidate> Forms() {
  return {
      {"logprob formed as x_y - lse (\"plain_logprob\": true declares it)",
       [](Shortcuts* s) { s->plain_logprob = true; }, false, true},
      {"entropy formed as lse - sum p x (\"plain_entropy\": true declares it)",
       [](Shortcuts* s) { s->plain_entropy = true; }, false, true},
      {"entropy formed as -sum p ln p (\"entropy_of_probabilities\": true declares it)",
       [](Shortcuts* s) { s->entropy_of_probabilities = true; }, false, true},
  };
}

// Chunks of kernels: powers of two, and equal parts.
std::set<int64_t> ChunksOf(int64_t extent) {
  std::set<int64_t> chunks;
  for (int64_t chunk = kSmallestChunk; chunk <= kLargestChunk && chunk < extent; chunk *= 2) {
    chunks.insert(chunk);
  }
  for (const int64_t parts : {2, 3, 4, 6, 8, 16}) chunks.insert((extent + parts - 1) / parts);
  chunks.erase(extent);
  return chunks;
}

void AddAccumulators(Output output, const std::set<int64_t>& chunks, std::vector<Candidate>* all) {
  const bool hidden = output == Output::kGradHidden;
  const std::string name(oracle::Name(output));
  const auto add = [&](std::string what, const Accumulator& sum) {
    Candidate& candidate = all->emplace_back();
    candidate.what = std::move(what);
    candidate.apply = [sum, hidden](Shortcuts* s) { (hidden ? s->hidden_sum : s->weight_sum) = sum; };
    candidate.only = output;
  };
  for (const auto& [dtype, word] : kSixteenBits) {
    // Rounded at the end, whatever the dtype of the output.
    add(name + " stored in " + word, {.dtype = dtype, .parts = 1});
    for (const int64_t chunk : chunks) {
      // A chunk's part stays in fp32 (a fused multiply-add), or is a 16-bit tensor that is added.
      for (const bool rounds_parts : {false, true}) {
        const Accumulator sum = {.dtype = dtype, .chunk = chunk, .rounds_parts = rounds_parts};
        add(AccumulatorWords(output, word, sum), sum);
      }
    }
  }
}

}  // namespace

std::string AccumulatorWords(Output output, std::string_view dtype, const Accumulator& sum) {
  return std::string(oracle::Name(output)) + " accumulated in " + std::string(dtype) +
         Text(" every %" PRId64, sum.chunk) + (output == Output::kGradHidden ? " columns" : " rows") +
         (sum.rounds_parts ? ", each part rounded first" : "");
}

std::vector<Candidate> CandidatesFor(const oracle::Inputs& inputs) {
  std::vector<Candidate> all = Roundings();
  AddAccumulators(Output::kGradHidden, ChunksOf(inputs.v), &all);
  AddAccumulators(Output::kGradWeight, ChunksOf(static_cast<int64_t>(inputs.NormalRows().size())),
                  &all);
  std::ranges::move(Forms(), std::back_inserter(all));
  return all;
}

}  // namespace plumbline::fuzz
