// SPDX-License-Identifier: Apache-2.0
//
// The targets of another revision: tests/same_bits/library, loaded into this program.

#pragma once

#include <filesystem>
#include <string>

#include "fuzz/target_abi.h"

extern "C" {
// The one symbol of the library. Null where its revision has no target of this name.
using plumbline_same_bits_target_function = const plumbline_target_v1*(const char* name);
}

namespace plumbline::same_bits {

class LoadedTargets {
 public:
  // Throws std::runtime_error, with dlopen's words, where the library does not load.
  explicit LoadedTargets(const std::filesystem::path& library);

  // Throws std::runtime_error where there is no such target, or where one of its functions does not lie
  // in the library: then this program would compare itself with itself.
  const plumbline_target_v1& Find(const std::string& name) const;
  bool Has(const std::string& name) const { return find_(name.c_str()) != nullptr; }

 private:
  std::filesystem::path library_;
  plumbline_same_bits_target_function* find_ = nullptr;
};

// Throws std::runtime_error where a function of the table does not lie in this program.
void RequireOwn(const plumbline_target_v1& table, const std::string& name);

}  // namespace plumbline::same_bits
