// SPDX-License-Identifier: Apache-2.0
//
// Conventions: what kernel/OPERATION.md settles although no arithmetic follows from it. A target that
// does not promise to settle them likewise may follow either side; which one it follows is recorded and
// is no failure (NON-FINITE.md, "Conventions").

#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace plumbline::oracle {

enum class Convention : uint8_t {
  kEmptyLse,         // lse of a row whose logits are all -infinity
  kEmptyMean,        // mean of the losses of no row
  kZeroSign,         // the sign of a gradient that is exactly zero
  kInvalidRow,       // a label outside [0, V), or a temperature that is not finite and positive
  kIgnoredRow,       // logprob, entropy and lse of an ignored row
  kLabelAtInfinity,  // the label's part of both gradients where its own logit is -infinity
};

inline constexpr std::array kConventions = {Convention::kEmptyLse,   Convention::kEmptyMean,
                                            Convention::kZeroSign,   Convention::kInvalidRow,
                                            Convention::kIgnoredRow, Convention::kLabelAtInfinity};

struct ConventionText {
  std::string_view name;         // in JSON
  std::string_view subject;      // for a person
  std::string_view definition;   // what kernel/OPERATION.md says
  std::string_view alternative;  // what a target without promises may do instead
  bool exclusive = false;        // a target that does both is inconsistent
};

constexpr ConventionText TextOf(Convention convention) {
  constexpr ConventionText kTexts[] = {
      {"empty-lse", "lse of nothing but -infinity", "NaN", "-infinity", true},
      {"empty-mean", "the mean of no row", "0", "NaN", true},
      {"zero-sign", "a gradient that is exactly zero", "+0", "-0", false},
      {"invalid-row", "a row with an invalid label or temperature", "NaN", "refused", true},
      {"ignored-row", "logprob, entropy and lse of an ignored row", "0", "other values", false},
      {"label-at-infinity", "the label's part of both gradients where its logit is -infinity",
       "that of the formula", "0", true},
  };
  return kTexts[static_cast<int>(convention)];
}

// What a target promises beside its arithmetic. Neither is assumed of a target that says nothing.
struct Promises {
  bool definition = false;  // each convention as kernel/OPERATION.md has it
  bool signs = false;       // logprob <= 0 and entropy >= 0 without any tolerance
};
// What kernel/OPERATION.md says, to the letter.
inline constexpr Promises kToTheLetter = {true, true};

// The sides of the conventions that were seen: sets of Convention, as bits.
struct ConventionsSeen {
  uint8_t definition = 0, alternative = 0;

  static constexpr uint8_t Bit(Convention convention) {
    return static_cast<uint8_t>(1u << static_cast<unsigned>(convention));
  }
  constexpr void Note(Convention convention, bool is_alternative) {
    uint8_t& side = is_alternative ? alternative : definition;
    side = static_cast<uint8_t>(side | Bit(convention));
  }
  constexpr void Add(const ConventionsSeen& more) {
    definition = static_cast<uint8_t>(definition | more.definition);
    alternative = static_cast<uint8_t>(alternative | more.alternative);
  }
  constexpr bool empty() const { return definition == 0 && alternative == 0; }
  bool operator==(const ConventionsSeen&) const = default;
};

}  // namespace plumbline::oracle
