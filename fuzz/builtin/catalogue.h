// SPDX-License-Identifier: Apache-2.0
//
// The targets by the names that a command line takes:
// "host", "host-hopper", "cuda", "cuda-portable", "cuda-simt", "cuda-forward-backward", "mutant:NAME",
// "hopper-mutant:NAME", "cuda-mutant:NAME", "plugin:PATH.so".

#ifndef PLUMBLINE_FUZZ_BUILTIN_CATALOGUE_H_
#define PLUMBLINE_FUZZ_BUILTIN_CATALOGUE_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/target/target.h"

namespace plumbline::fuzz {

// The target of that name; null, with the reason, for an unknown name (and the names there are) or
// where Target::Open or Target::Adopt fails.
std::unique_ptr<Target> LoadTarget(std::string_view name, std::string* error,
                                   OpenDevice open = nullptr);

// "cuda+cuda-portable": built-in targets that are examined together (fuzz/examine/examine.h), or one of
// any kind. Null pointers never; empty, with the reason, where one does not load or their descriptions
// differ in more than the name.
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
