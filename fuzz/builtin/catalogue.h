// SPDX-License-Identifier: Apache-2.0
//
// The targets by the names that a command line takes: "host", "host-hopper", "cuda", "cuda-portable",
// "cuda-simt", "cuda-forward-backward", "mutant:NAME", "hopper-mutant:NAME", "cuda-mutant:NAME",
// "plugin:PATH.so".

#ifndef PLUMBLINE_FUZZ_BUILTIN_CATALOGUE_H_
#define PLUMBLINE_FUZZ_BUILTIN_CATALOGUE_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/target/target.h"

namespace plumbline::fuzz {

// Loads the target of that name. Returns null, with the reason, for an unknown name (the reason lists
// the names there are) or if Target::Open or Target::Adopt fails.
std::unique_ptr<Target> LoadTarget(std::string_view name, std::string* error,
                                   OpenDevice open = nullptr);

// Loads one target of any kind, or several built-in ones, "cuda+cuda-portable", that are examined
// together (fuzz/examine/examine.h). No pointer is null. Returns an empty vector, with the reason, if
// one does not load or if their descriptions differ in more than the name.
std::vector<std::unique_ptr<Target>> LoadTogether(std::string_view names, std::string* error);

struct BuiltIn {
  std::string name;           // "host", "mutant:tail-unmasked"
  std::string what;           // one line; a mutant's names the real bug it is modelled on
  bool deterministic = true;  // false: a mutant whose defect is a race
  bool on_device = false;
};
std::vector<BuiltIn> BuiltInTargets();

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_BUILTIN_CATALOGUE_H_
