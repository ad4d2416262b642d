// SPDX-License-Identifier: Apache-2.0
//
// The built-in targets of the revision that this is compiled in, by name. The one exported function is
// declared in tests/same_bits/loaded_targets.h; this file includes nothing but that revision's headers.

#include <map>
#include <memory>
#include <string>

#if __has_include("fuzz/target/catalogue.h")
#include "fuzz/target/catalogue.h"
using plumbline::fuzz::LoadTarget;
#elif __has_include("fuzz/builtin/catalogue.h")
#include "fuzz/builtin/catalogue.h"
using plumbline::fuzz::LoadTarget;
#else  // Target::Load, in whichever folder
#if __has_include("fuzz/target/target.h")
#include "fuzz/target/target.h"
#else
#include "fuzz/target.h"
#endif
constexpr auto LoadTarget = [](const char* name, std::string* error) {
  return plumbline::fuzz::Target::Load(name, error);
};
#endif

// Null where the revision has no such target. Not for two threads at the same time.
extern "C" [[gnu::visibility("default")]] const plumbline_target_v1* plumbline_same_bits_target(
    const char* name) {
  static std::map<std::string, std::unique_ptr<plumbline::fuzz::Target>> loaded;
  std::string error;
  auto& target = loaded[name];
  if (target == nullptr) target = LoadTarget(name, &error);
  return target == nullptr ? nullptr : &target->table();
}
