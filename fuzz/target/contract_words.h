// SPDX-License-Identifier: Apache-2.0
//
// A contract in the field's words: "matmul=tf32,logits=bf16,outputs.lse=bf16", with a named contract in
// front where one is the base: "pytorch-eager,logits=fp32". CONTRACTS.md lists the words. Every key of
// "contract" in DESCRIPTION.md is a word as well.

#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "fuzz/base/json.h"

namespace plumbline::fuzz {

// Whether this is meant as words, and is no name and no description's path: it holds a "=", and does
// not end in ".json".
bool IsContractWords(std::string_view text);

// Adds what the words say to `contract`, the value of "contract" in a description. Returns false with
// the reason for a word or a value that there is not. Whether the values go together is told by
// ParseDescription.
bool ApplyContractWords(std::string_view words, Json* contract, std::string* error);

}  // namespace plumbline::fuzz
