// SPDX-License-Identifier: Apache-2.0
//
// A problem, or a family of them, for each key of a contract. The comments say what the kernel loses.

#include <cmath>
#include <random>

#include "tests/fuzz/honest/reach.h"

namespace plumbline::fuzz {
namespace {

using kernel::DType;
using oracle::Contract;

constexpr int64_t kLarge = int64_t{1} << 20;
constexpr float kUlps = 0x1p-23f * 255 / 256;      // just below an ulp of 1, a bf16 number
constexpr float kHalfUlps = 0x1p-24f * 255 / 256;  // ... half an ulp

std::vector<float> Filled(size_t n, float first, float others) {
  std::vector<float> x(n, others);
  x[0] = first;
  return x;
}
Rows Logits(std::vector<float> logits) {
  Rows rows;
  rows.weight = std::move(logits);
  return rows;
}
// One logit, the sum of these.
Rows OneSum(DType dtype, std::vector<float> terms) {
  Rows rows;
  rows.dtype = dtype;
  rows.h = static_cast<int64_t>(terms.size());
  rows.hidden.assign(terms.size(), 1);
  rows.weight = std::move(terms);
  return rows;
}
// Two logits of 0 and -gap, over a range of gaps.
std::vector<Rows> Gaps(float from, float to, int steps, float temperature = 1) {
  std::vector<Rows> all;
  for (int i = 0; i <= steps; ++i) {
    Rows rows = Logits({0, -(from + (to - from) * static_cast<float>(i) / static_cast<float>(steps))});
    rows.labels = {1};
    rows.temperature = temperature;
    all.push_back(rows);
  }
  return all;
}
// V columns, the first of which has the logit 0 and the others one that makes V - 1 weights as large as
// 2^-24 together with the columns beside them: adding them to 1 loses them.
std::vector<Rows> Swallowed(size_t v, int together) {
  return {Logits(Filled(v, 0, -std::log(0x1p24f * static_cast<float>(together)) - 0.01f))};
}

// A tensor core loses just under u of each product, and with an extra bit 2u of one in each block.
std::vector<Rows> Truncated() {
  std::vector<float> terms = Filled(512, 1, kHalfUlps);
  for (size_t i = 7; i < terms.size(); i += 8) terms[i] = kUlps;
  return {OneSum(DType::kBf16, terms)};
}
// Large logits whose quotients by T are rounded apart.
std::vector<Rows> Offset(float offset, float temperature, int count) {
  std::vector<Rows> all;
  std::mt19937 rng(1);
  for (int i = 0; i < count; ++i) {
    Rows rows;
    for (int v = 0; v < 8; ++v) {
      rows.weight.push_back(offset + static_cast<float>(rng() % 4096) * offset * 0x1p-21f);
    }
    rows.temperature = temperature;
    rows.labels = {static_cast<int64_t>(rng() % 8)};
    all.push_back(rows);
  }
  return all;
}
// The label's logit is 0.5 above the other. Both are sums that one order truncates and another has
// exactly.
std::vector<Rows> TwoOrders() {
  std::vector<Rows> all;
  for (const float other : {0.25f, 0.5f, 1.0f}) {
    Rows rows = OneSum(DType::kF32, Filled(257, 1, 0x1.fep-24f));
    const std::vector<float> label = rows.weight;
    rows.weight.insert(rows.weight.end(), label.begin(), label.end());
    rows.weight[257] -= other;
    all.push_back(rows);
  }
  return all;
}
// d_logits and weights, found by a search, whose six products of planes all lose much where they are
// aligned with a sum just above 1. That sum is the first chunk's.
std::vector<Rows> Planes() {
  std::vector<Rows> all;
  for (const size_t v : {64, 128, 256}) {
    for (const float size : {1.0f, 0.5f}) {
      Rows rows;
      rows.hidden = {0};
      rows.g = 0x1.54b96ap0f;
      rows.weight = Filled(v, -1.02f / rows.g, 0x1.268f5cp-8f * static_cast<float>(v) * size);
      std::fill_n(rows.weight.begin() + 1, 31, 0.0f);
      all.push_back(rows);
    }
  }
  return all;
}
// 32 chunks of 32 columns: the first adds up to 1, each other to just below half an ulp of bf16.
std::vector<Rows> VocabularyChunks() {
  Rows rows;
  rows.dtype = DType::kBf16;
  rows.hidden = {0};
  rows.weight.assign(1024, 0);
  rows.weight[1] = 1;
  for (size_t v = 32; v < 1024; v += 32) rows.weight[v] = 0x1p-8f * 255 / 256;
  return {rows};
}
// Two stretches of 96 columns. The first begins with a sum just above 1, and a truncating addition
// loses all of each product after it: just below an ulp.
std::vector<Rows> Stretches() {
  Rows rows;
  rows.hidden = {0};
  rows.g = 1.02f;
  rows.weight = Filled(192, 1, -192 / 1.02f * kUlps);
  return {rows};
}
// Eight stretches of 192 columns, likewise.
std::vector<Rows> WiderStretches() {
  Rows rows;
  rows.hidden = {0};
  rows.g = 1.02f;
  rows.weight = Filled(1536, 1, -1536 / 1.02f * kUlps);
  return {rows};
}
std::vector<Rows> RowChunks() {
  Rows rows;
  rows.dtype = DType::kBf16;
  rows.hidden.assign(128, 0);
  rows.hidden[0] = 1;
  for (size_t i = 4; i < 128; i += 4) rows.hidden[i] = 0x1p-8f * 255 / 256;
  rows.weight = {0, 0};
  return {rows};
}
// The maximum rises three times, each time by a gap that the exponential has with a large error; most
// of the sum is in the first tile.
std::vector<Rows> Rising() {
  std::vector<Rows> all;
  for (int i = 1; i <= 40; ++i) {
    const float step = 0.02f * static_cast<float>(i);
    std::vector<float> logits(4 * 128, -1000);
    std::fill_n(logits.begin(), 128, 0.0f);
    for (size_t tile = 1; tile < 4; ++tile) logits[tile * 128] = step * static_cast<float>(tile);
    all.push_back(Logits(logits));
  }
  return all;
}
std::vector<Rows> OneColumn(float from, float to) {
  std::vector<Rows> all;
  for (int i = 0; i < 400; ++i) {
    all.push_back(Logits({from + (to - from) * static_cast<float>(i) / 400}));
  }
  return all;
}
Rows With(Rows rows, void (*change)(Rows*)) {
  change(&rows);
  return rows;
}

std::vector<Key> KeysOfProducts() {
  return {
      {"accumulate", "truncated", [](Contract* c) { c->accumulate = oracle::Accumulate::kFp32; },
       [] { return std::vector{OneSum(DType::kF32, Filled(257, 1, 0x1.fep-24f))}; }},
      {"block", "ampere", [](Contract* c) { c->block = kLarge; }, Truncated},
      {"extra_bits", "ampere", [](Contract* c) { c->extra_bits = 64; }, Truncated},
      {"split", "ampere-split", [](Contract* c) { c->split = 1; },
       [] { return std::vector{OneSum(DType::kBf16, Filled(16, 1, kUlps))}; }},
      {"input_planes", "planes", [](Contract* c) { c->input_planes = 1; }, Planes},
      {"input_rounding", "tf32", [](Contract* c) { c->input_rounding = 0; },
       [] {
         return std::vector{
             With(Logits({1 + 0x1.fep-12f}), [](Rows* r) { r->hidden = {1 + 0x1.fep-12f}; })};
       }},
      {"flush", "ftz", [](Contract* c) { c->flush = oracle::Flush::kNone; },
       [] {
         Rows rows = OneSum(DType::kF32, std::vector<float>(100, 0x1.fffp-64f));
         rows.hidden.assign(100, 0x1p-63f);
         return std::vector{rows};
       }},
      {"flush", "daz", [](Contract* c) { c->flush = oracle::Flush::kResults; },
       [] {
         return std::vector{With(OneSum(DType::kF32, {1, 0x1p126f}), [](Rows* r) {
           r->hidden = {1, 0x1p-127f};
         })};
       }},
      {"label_logit_separate", "truncated", [](Contract* c) { c->label_logit_separate = false; },
       TwoOrders},
      {"recompute_same_bits", "truncated", [](Contract* c) { c->recompute_same_bits = true; },
       TwoOrders},
  };
}

// A sum of 1 and what each of four partial sums loses, just below half an ulp of bf16 at 1.
std::vector<Rows> FourPartials() {
  constexpr float kLost = 0x1p-8f * 255 / 256;
  return {OneSum(DType::kF32, {1 + kLost, kLost, kLost, kLost})};
}

// Steps in 16 bits. A logit, and an upstream gradient, moves what is exact (keys_test.cc).
std::vector<Key> KeysOfSteps() {
  return {
      {"partials", "bf16-partials", [](Contract* c) { c->partials = {}; }, FourPartials},
      {"softmax_sum", "bf16-sum", [](Contract* c) { c->softmax_sum = {}; },
       [] { return Gaps(5.546f, 5.6f, 20); }},
      {"log_probs", "bf16-log-probs", [](Contract* c) { c->log_probs = {}; },
       [] { return Gaps(4.01f, 4.02f, 40); }},
      {"probabilities", "bf16-probabilities", [](Contract* c) { c->probabilities = {}; },
       [] { return Gaps(0, 1, 400); }},
      {"filter", "filtered", [](Contract* c) { c->filter = 0; },
       [] {
         return std::vector{Logits({0, -8.5f})};
       }},
      {"outputs", "bf16-outputs", [](Contract* c) { c->outputs = {}; },
       [] { return Gaps(4.01f, 4.02f, 40); }},
  };
}

std::vector<Key> KeysOfSoftmax() {
  return {
      {"scale", "two-pass", [](Contract* c) { c->scale = oracle::Scale::kAfter; },
       [] { return Offset(717, 0.7f, 300); }},
      {"scale_roundings", "rough-scale", [](Contract* c) { c->scale_roundings = 0; },
       [] { return Gaps(20, 60, 20); }},
      {"scale_exact_powers", "rough-scale", [](Contract* c) { c->scale_exact_powers = true; },
       [] { return Gaps(20, 60, 20); }},
      {"shift", "lazy", [](Contract* c) { c->shift = oracle::Shift::kExactMax; },
       [] { return OneColumn(1, 3); }},
      {"exp_error", "rough-exponential", [](Contract* c) { c->exp_error = 0; },
       [] { return Gaps(0, 2, 100); }},
      {"exp_gradual", "bf16-accumulator", [](Contract* c) { c->exp_gradual = true; },
       [] {
         return std::vector{
             With(Logits({0, -87.35f * 0x1p-60f}), [](Rows* r) { r->hidden = {0x1p60f}; })};
       }},
      {"argument_roundings", "rough-exponential", [](Contract* c) { c->argument_roundings = 0; },
       [] { return Gaps(40, 80, 100); }},
      {"log_error_absolute", "rough-scale", [](Contract* c) { c->log_error_absolute = 0; },
       [] { return Gaps(20, 40, 4); }},
      {"log_error_relative", "rough-scale", [](Contract* c) { c->log_error_relative = 0; },
       [] {
         return std::vector{Logits({0, 0, 0, 0})};
       }},
      {"division_error", "plain", [](Contract* c) { c->division_error = 0; },
       [] {
         return std::vector{Logits({0, 0, 0, 0})};
       }},
      {"tile", "two-pass", [](Contract* c) { c->tile = kLarge; },
       [] { return Swallowed(128 * 64, 128); }},
      {"tile_depth", "split-k", [](Contract* c) { c->tile_depth = 0; },
       [] { return Swallowed(64, 1); }},
      {"splits", "two-pass", [](Contract* c) { c->splits = 8; },
       [] { return Swallowed(128 * 64, 128); }},
      {"rescales", "rough-exponential", [](Contract* c) { c->rescales = 0; }, Rising},
      {"plain_logprob", "simulated", [](Contract* c) { c->plain_logprob = false; },
       [] { return Offset(717, 0.7f, 20); }},
      {"plain_entropy", "plain", [](Contract* c) { c->plain_entropy = false; },
       [] {
         return std::vector{Logits({1000, 1000, 1000, 1000})};
       }},
      {"entropy_of_probabilities", "ratio-p-log-p",
       [](Contract* c) { c->entropy_of_probabilities = false; },
       [] { return std::vector{Logits(std::vector<float>(64, 0))}; }},
  };
}

std::vector<Key> KeysOfGradients() {
  return {
      {"probability", "p-x", [](Contract* c) { c->probability = oracle::Probability::kRatio; },
       [] { return Offset(717, 0.7f, 1000); }},
      // Each tile of p(-1 - ln p) adds up to just below 2^-24, half an ulp of the maximum's -k.
      {"log_softmax_backward", "log-softmax-autograd",
       [](Contract* c) { c->log_softmax_backward = false; },
       [] {
         return std::vector{With(Logits(Filled(1 << 14, 0, -24.67f)), [](Rows* r) {
           r->g = 0;
           r->k = 1 + 0x1p-22f;
         })};
       }},
      // Just above a power of two, a little from halfway, fp16 rounds by as much as it ever does.
      {"kept_argument", "kept-exponents", [](Contract* c) { c->kept_argument = 0; },
       [] {
         Rows rows = Logits({0, 0, -8, -0x1.fcp-9f});
         rows.dtype = DType::kBf16;
         rows.h = 2;
         rows.hidden = {1, 1};
         return std::vector{rows};
       }},
      {"d_logits", "flash", [](Contract* c) { c->d_logits = DType::kF32; },
       [] {
         return std::vector{With(Logits({0, 0}), [](Rows* r) {
           r->dtype = DType::kBf16;
           r->g = 1 + 0x1.fep-9f;
         })};
       }},
      {"accumulator", "bf16-accumulator", [](Contract* c) { c->accumulator = DType::kF32; },
       VocabularyChunks},
      {"vocab_chunk", "bf16-accumulator", [](Contract* c) { c->vocab_chunk = kLarge; },
       VocabularyChunks},
      {"row_chunk", "bf16-accumulator", [](Contract* c) { c->row_chunk = kLarge; }, RowChunks},
      {"grad_hidden_stretch", "stretched", [](Contract* c) { c->grad_hidden_stretch = 16; }, Stretches},
      {"grad_hidden_stretches", "stretched", [](Contract* c) { c->grad_hidden_stretches = 0; },
       WiderStretches},
  };
}

}  // namespace

const std::vector<Key>& MovingKeys() {
  static const auto* keys = new std::vector<Key>{
      {"logits", "bf16-logits", [](Contract* c) { c->logits = {}; },
       [] { return Gaps(4.01f, 4.02f, 20); }},
      {"scaled_logits", "fp16-scaled-logits", [](Contract* c) { c->scaled_logits = {}; },
       [] { return Gaps(4.01f, 4.02f, 20, 0.7f); }},
      {"upstream_logprob", "bf16-logits", [](Contract* c) { c->upstream_logprob = {}; },
       [] {
         return std::vector{With(Logits({0, 0}), [](Rows* r) { r->g = 1 + 0x1p-9f; })};
       }},
      {"upstream_entropy", "bf16-logits", [](Contract* c) { c->upstream_entropy = {}; },
       [] {
         return std::vector{With(Logits({0, -1}), [](Rows* r) {
           r->g = 0;
           r->k = 1 + 0x1p-9f;
         })};
       }},
  };
  return *keys;
}

const std::vector<Key>& Keys() {
  static const auto* keys = [] {
    auto* all = new std::vector<Key>(KeysOfProducts());
    for (const auto& more : {KeysOfSteps(), KeysOfSoftmax(), KeysOfGradients()}) {
      all->insert(all->end(), more.begin(), more.end());
    }
    return all;
  }();
  return *keys;
}

}  // namespace plumbline::fuzz
