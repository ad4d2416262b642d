// SPDX-License-Identifier: Apache-2.0

#include "tests/same_bits/loaded_targets.h"

#include <dlfcn.h>

#include <stdexcept>

namespace plumbline::same_bits {
namespace {

// The file that holds the code of a function.
template <class Function>
std::filesystem::path FileOf(Function* function) {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(function), &info) == 0 || info.dli_fname == nullptr)
    return {};
  return std::filesystem::weakly_canonical(info.dli_fname);
}

void RequireIn(const std::filesystem::path& file, const plumbline_target_v1& table,
               const std::string& name) {
  for (const auto& found : {FileOf(table.describe), FileOf(table.run), FileOf(table.sizes),
                            FileOf(table.forward), FileOf(table.backward)}) {
    if (found == file) continue;
    throw std::runtime_error(name + ": a function lies in " + found.string() + ", not in " +
                             file.string());
  }
}

}  // namespace

LoadedTargets::LoadedTargets(const std::filesystem::path& library)
    : library_(std::filesystem::canonical(library)) {
  void* const handle = ::dlopen(library_.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) throw std::runtime_error(::dlerror());
  constexpr const char* kSymbol = "plumbline_same_bits_target";
  // POSIX makes the conversion from object to function pointer valid for dlsym.
  find_ = reinterpret_cast<plumbline_same_bits_target_function*>(::dlsym(handle, kSymbol));
  if (find_ == nullptr) throw std::runtime_error(library_.string() + ": exports no " + kSymbol);
}

const plumbline_target_v1& LoadedTargets::Find(const std::string& name) const {
  const plumbline_target_v1* const table = find_(name.c_str());
  if (table == nullptr) throw std::runtime_error(library_.string() + ": has no target " + name);
  RequireIn(library_, *table, name);
  return *table;
}

void RequireOwn(const plumbline_target_v1& table, const std::string& name) {
  RequireIn(FileOf(&RequireOwn), table, name);
}

}  // namespace plumbline::same_bits
