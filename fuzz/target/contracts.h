// SPDX-License-Identifier: Apache-2.0
//
// Named contracts, for targets that do not declare one, and for claims to be tried. TARGET@CONTRACT is
// the name of a target that is held to another contract than its own; CONTRACT is one of these names,
// words (contract_words.h), or the path of a description in JSON, ending in ".json", whose contract is
// taken.

#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fuzz/base/json.h"
#include "fuzz/target/description.h"

namespace plumbline::fuzz {

struct NamedContract {
  std::string_view name;
  std::string_view what;  // one line
  std::string_view json;  // the value of "contract" in a description
};

inline constexpr std::string_view kBlackBox = "black-box";

// From what is known of nothing to what is known of one library, in the order of CONTRACTS.md.
std::span<const NamedContract> NamedContracts();

// Splits "TARGET@CONTRACT". The second part is empty where what follows the last @ is neither a named
// contract nor words (contract_words.h) nor ends in ".json".
std::pair<std::string_view, std::string_view> SplitTarget(std::string_view name);

// "TARGET@CONTRACT", or the target's name where the contract's is empty or the name has one already.
std::string HeldTo(std::string target, std::string_view contract);

// Puts the named contract, or that of words, or the one of the description in that file, in the place
// of the contract in `description`, which is a JSON object. Returns nullopt, with the reason, if there
// is no such contract or file.
std::optional<std::string> WithContract(std::string_view description, std::string_view contract,
                                        std::string* error);

struct NamedDescription {
  std::string name;  // the contract's, or that in the file's description
  Description description;
};
// The description that has this named contract, or that of words, or that of the file of this path,
// whatever it ends in.
std::optional<NamedDescription> DescriptionOf(const std::string& contract, std::string* error);

// The value of "contract" that this name stands for in a description; nullopt, with the reason, if there
// is none.
std::optional<Json> ContractNamed(std::string_view name, std::string* error);

// Lists the names, for messages.
std::string ContractNames();

// What a target that is judged by this description may do without any verdict, one line each: the forms
// and roundings that its bounds allow.
std::vector<std::string> NotShown(const Description& description);

}  // namespace plumbline::fuzz
