// SPDX-License-Identifier: Apache-2.0
#include "fuzz/infer/members.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "fuzz/baseline/candidates.h"

namespace plumbline::fuzz {
namespace {

using kernel::DType, oracle::Output;

// The other gradient is one chunk where only one is known to be accumulated in 16 bits.
constexpr std::string_view kOneChunk = "1099511627776";
constexpr std::string_view kHiddenChunk = "vocab_chunk", kWeightChunk = "row_chunk";

// A step that may be stored in 16 bits.
struct Step {
  std::string_view what, key;
  DType Shortcuts::* step;
  std::optional<Output> stored = {};
};
constexpr std::array kSteps = {
    Step{"logits rounded to", "logits", &Shortcuts::logits},
    Step{"logits / T rounded to", "scaled_logits", &Shortcuts::scaled_logits},
    Step{"d_logits rounded to", "d_logits", &Shortcuts::d_logits},
    Step{"probabilities rounded, before the label's 1 is subtracted, to", "probabilities",
         &Shortcuts::probabilities},
    Step{"log-probabilities kept in", "log_probs", &Shortcuts::log_probs},
    Step{"the softmax sum rounded to", "softmax_sum", &Shortcuts::softmax_sum},
    Step{"logprob stored in", "outputs.logprob", &Shortcuts::logprob, Output::kLogprob},
    Step{"entropy stored in", "outputs.entropy", &Shortcuts::entropy, Output::kEntropy},
    Step{"lse stored in", "outputs.lse", &Shortcuts::lse, Output::kLse},
};

// A dtype that a step may have: fp32 stands for that of hidden.
struct Dtype {
  std::string_view what, word;
  DType dtype;
  DType For(DType hidden) const { return dtype == DType::kF32 ? hidden : dtype; }
};
constexpr std::array kDtypes = {Dtype{"the dtype of hidden", "input", DType::kF32},
                                Dtype{"bf16", "bf16", DType::kBf16},
                                Dtype{"fp16", "fp16", DType::kF16}};

// What widens a bound by roundings of fp32 alone, and changes no exact value: its bound explains.
struct Form {
  std::string_view what, key, value;
  int rank;
};
constexpr std::array kForms = {
    Form{"logprob formed as x_y - lse", "plain_logprob", "true", 0},
    Form{"entropy formed as -sum p ln p", "entropy_of_probabilities", "true", 1},
    Form{"entropy formed as lse - sum p x", "plain_entropy", "true", 1},
    Form{"d_logits as autograd of log_softmax forms them, G - p sum G", "log_softmax_backward", "true",
         2},
    Form{"logits scaled by 1/T, and rounded before the maximum is subtracted", "scale_exact_powers",
         "false", 3},
    Form{"subnormal results taken for 0", "flush", "results", 4},
    Form{"subnormal operands, and results, taken for 0", "flush", "operands", 5},
    Form{"sums over the vocabulary added, or rescaled, one column after another", "tile", "1", 6},
};

// Roundings that no key declares.
constexpr std::array kWithoutKey = {
    Step{"log2(e) rounded in the exponentials to", "", &Shortcuts::exponent},
    Step{"log2(e) rounded to", "", &Shortcuts::log2e},
    Step{"T rounded to", "", &Shortcuts::temperature},
    Step{"the softmax sum kept for backward in", "", &Shortcuts::sum},
    Step{"lse kept for backward in", "", &Shortcuts::saved_lse},
};

void AddAccumulators(Output output, std::vector<Member>* all) {
  const bool hidden = output == Output::kGradHidden;
  const std::string name(oracle::Name(output));
  for (const Dtype& d : kDtypes) {
    all->push_back({name + " stored in " + std::string(d.what),
                    {{"outputs." + name, std::string(d.word)}},
                    [d, hidden](DType of_hidden, Shortcuts* s) {
                      (hidden ? s->hidden_sum : s->weight_sum) = {.dtype = d.For(of_hidden),
                                                                  .parts = 1};
                    },
                    output,
                    d.dtype});
    if (d.dtype == DType::kF32) continue;  // `accumulator` names its dtype
    for (int64_t chunk = kSmallestChunk; chunk <= kLargestChunk; chunk *= 2) {
      for (const bool rounds_parts : {false, true}) {
        const Accumulator sum = {.dtype = d.dtype, .chunk = chunk, .rounds_parts = rounds_parts};
        all->push_back(
            {AccumulatorWords(output, d.what, sum),
             {{"accumulator", std::string(d.word)},
              {std::string(hidden ? kHiddenChunk : kWeightChunk), std::to_string(chunk)}},
             [sum, hidden](DType, Shortcuts* s) { (hidden ? s->hidden_sum : s->weight_sum) = sum; }});
      }
    }
  }
}

}  // namespace

std::vector<Member> Members() {
  std::vector<Member> all;
  for (const Step& step : kSteps) {
    for (const Dtype& d : kDtypes) {
      all.push_back({std::string(step.what) + " " + std::string(d.what),
                     {{std::string(step.key), std::string(d.word)}},
                     [step, d](DType hidden, Shortcuts* s) { s->*step.step = d.For(hidden); },
                     step.stored,
                     d.dtype});
    }
  }
  for (const Dtype& d : kDtypes) {
    // It is one rounding of what is exact, and in no simulation.
    all.push_back({"loss stored in " + std::string(d.what),
                   {{"outputs.loss", std::string(d.word)}},
                   [](DType, Shortcuts*) {},
                   Output::kLoss,
                   d.dtype});
  }
  all.push_back({"no gradient from probabilities below 2^-12",
                 {{"filter", "0.000244140625"}},
                 [](DType, Shortcuts* s) { s->filter = 0x1p-12; }});
  for (const auto& [what, word, bits] :
       {std::tuple("operands rounded to TF32", "tf32", 11), {"operands rounded to bf16", "bf16", 8}}) {
    Member& operands = all.emplace_back();
    operands.what = what;
    operands.words = {{"matmul", word}};
    operands.apply = [bits](DType, Shortcuts* s) { s->operand_bits = bits; };
    operands.of_fp32_operands = true;
  }
  AddAccumulators(Output::kGradHidden, &all);
  AddAccumulators(Output::kGradWeight, &all);
  for (const Step& step : kWithoutKey) {
    for (const Dtype& d : kDtypes) {
      all.push_back({std::string(step.what) + " " + std::string(d.what),
                     {},
                     [step, d](DType hidden, Shortcuts* s) { s->*step.step = d.For(hidden); }});
    }
  }
  all.push_back({"hidden rounded to TF32 in the logits alone", {}, [](DType, Shortcuts* s) {
                   s->hidden_bits = 11;
                 }});
  for (const Form& form : kForms) {
    Member& member = all.emplace_back();
    member.what = form.what;
    member.words = {{std::string(form.key), std::string(form.value)}};
    member.rank = form.rank;
  }
  return all;
}

bool MemberSet::CanTake(const Member& member) const {
  for (const auto& [key, value] : member.words) {
    for (const Member* other : members_) {
      for (const auto& [taken, of_taken] : other->words) {
        // Both gradients may be accumulated in one dtype.
        if (taken == key && (key != "accumulator" || of_taken != value)) return false;
      }
    }
  }
  return true;
}

MemberSet MemberSet::With(const Member& member) const {
  MemberSet with = *this;
  with.members_.push_back(&member);
  return with;
}

MemberSet MemberSet::Without(const Member& member) const {
  MemberSet without;
  for (const Member* each : members_) {
    if (each != &member) without.members_.push_back(each);
  }
  return without;
}

std::string MemberSet::Words() const {
  std::string words;
  std::set<std::string> keys;
  const auto add = [&](const std::string& key, std::string_view value) {
    if (!keys.insert(key).second) return;
    words += (words.empty() ? "" : ",") + key + "=" + std::string(value);
  };
  for (const Member* member : members_) {
    for (const auto& [key, value] : member->words) add(key, value);
  }
  if (keys.contains("accumulator")) {
    add(std::string(kHiddenChunk), kOneChunk);
    add(std::string(kWeightChunk), kOneChunk);
  }
  return words;
}

std::optional<DType> MemberSet::StoredIn(Output output, DType hidden) const {
  for (const Member* member : members_) {
    if (member->stored != output) continue;
    return member->stored_in == DType::kF32 ? hidden : member->stored_in;
  }
  return std::nullopt;
}

Shortcuts MemberSet::RoundingsFor(DType hidden, Shortcuts declared) const {
  for (const Member* member : members_) {
    if (!member->IsForm()) member->apply(hidden, &declared);
  }
  return declared;
}

}  // namespace plumbline::fuzz
