// SPDX-License-Identifier: Apache-2.0
//
// Tests the readers of untrusted files, each as one function of any bytes. It ends the process if the
// reader has a defect (a sanitizer reports one, or an invariant is broken). It returns 0 for accepted
// bytes and -1 for refused ones: libFuzzer's convention for inputs worth keeping.
//
// fuzz/fuzzers/run builds each with libFuzzer; tests/fuzz/fuzzers/fuzzers_test.cc runs them over
// mutated seeds.

#pragma once

#include <cstddef>
#include <span>

namespace plumbline::fuzz {

int FuzzCase(std::span<const std::byte> bytes);      // a case file
int FuzzCaseJson(std::span<const std::byte> bytes);  // the JSON of one, in a sound container
int FuzzRecipe(std::span<const std::byte> bytes);    // a recipe's line, and its expansion if small
int FuzzJournal(std::span<const std::byte> bytes);   // a campaign's journal
int FuzzDump(std::span<const std::byte> bytes);      // a dump for `plumb check`

}  // namespace plumbline::fuzz
