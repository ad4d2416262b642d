// SPDX-License-Identifier: Apache-2.0
//
// The targets by the names that a command line takes: "host", "host-hopper", "cuda", "cuda-portable",
// "cuda-simt", "cuda-forward-backward", "plugin:PATH.so", "python:MODULE:FUNCTION", and those that a program adds: "mutant:NAME",
// "hopper-mutant:NAME", "cuda-mutant:NAME".

#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/target/target.h"

namespace plumbline::fuzz {

// Loads the target of that name. Returns null, with the reason, for an unknown name (the reason says
// which is near) or if Target::Open or Target::Adopt fails.
std::unique_ptr<Target> LoadTarget(std::string_view name, std::string* error,
                                   OpenDevice open = nullptr);

// True of "python:MODULE:FUNCTION": such a target is loaded by a Python process alone
// (fuzz/worker/command.h), which adds it here.
bool IsPython(std::string_view name);

// Returns why nothing of this name, one target's or several joined by a plus, can be loaded; empty if
// loading decides. Loads nothing.
std::string WhyNoTarget(std::string_view names);

// Loads one target of any kind, or several built-in ones, "cuda+cuda-portable", that are examined
// together (fuzz/examine/examine.h). No pointer is null. Returns an empty vector, with the reason, if
// one does not load or if their descriptions differ in more than the name.
std::vector<std::unique_ptr<Target>> LoadTogether(std::string_view names, std::string* error);

struct BuiltIn {
  std::string name;  // "host", "mutant:NAME"
  std::string what;  // one line; a mutant's names the real bug it is modelled on
  const plumbline_target_v1* table = nullptr;
  bool deterministic = true;   // false: a mutant whose defect is a race
  bool on_device = false;      // the name begins with "cuda"
  std::string black_box = {};  // why a mutant is no defect of a target that declares no contract
  std::string why_not = {};    // why it cannot be loaded, where there is no table
};
const std::vector<BuiltIn>& BuiltInTargets();

// Adds targets behind those that there are. Not while another thread uses the catalogue.
void AddTargets(std::vector<BuiltIn> targets);

}  // namespace plumbline::fuzz
