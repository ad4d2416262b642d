// SPDX-License-Identifier: Apache-2.0

#include "fuzz/target/catalogue.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "fuzz/builtin/cuda.h"
#include "fuzz/builtin/cuda_forward_backward.h"
#include "fuzz/builtin/host.h"
#include "fuzz/builtin/host_hopper.h"

namespace plumbline::fuzz {
namespace {

constexpr std::string_view kPlugin = "plugin:";

std::vector<BuiltIn>& Targets() {
  static std::vector<BuiltIn> targets = {
      {"host", "the operator of this project on the CPU", HostTarget()},
      {"host-hopper",
       "the same with its dot products as Hopper's tensor cores compute them, bit for bit",
       HostHopperTarget()},
      {"cuda", "the operator on a CUDA device, by the fastest path that the device has", CudaTarget(),
       true, true},
      {"cuda-portable", "the same by the path for compute capability 8.0 and up", CudaPortableTarget(),
       true, true},
      {"cuda-simt", "the same without tensor cores, for compute capability 7.5 and up",
       CudaSimtTarget(), true, true},
      {"cuda-forward-backward", "the operator on a CUDA device, gradients computed in the forward call",
       CudaForwardBackwardTarget(), true, true}};
  return targets;
}

std::string UnknownName(std::string_view name) {
  std::string text = "unknown target \"" + std::string(name) + "\"; there are ";
  for (const BuiltIn& target : BuiltInTargets()) text += target.name + ", ";
  return text + "plugin:PATH.so";
}

}  // namespace

std::unique_ptr<Target> LoadTarget(std::string_view name, std::string* error, OpenDevice open) {
  if (name.starts_with(kPlugin)) {
    return Target::Open(name, std::filesystem::path(name.substr(kPlugin.size())), error, open);
  }
  const auto found = std::ranges::find(Targets(), name, &BuiltIn::name);
  if (found == Targets().end()) {
    *error = UnknownName(name);
    return nullptr;
  }
  return Target::Adopt(name, found->table, error, open);
}

std::vector<std::unique_ptr<Target>> LoadTogether(std::string_view names, std::string* error) {
  const bool foreign = names.starts_with(kPlugin);  // a path may hold a plus
  std::vector<std::unique_ptr<Target>> targets;
  std::string first;  // description, without the name
  for (size_t begin = 0; begin <= names.size();) {
    const size_t end = foreign ? names.size() : std::min(names.find('+', begin), names.size());
    targets.push_back(LoadTarget(names.substr(begin, end - begin), error));
    if (targets.back() == nullptr) return {};
    begin = end + 1;
    std::string text(targets.back()->description_text());
    const std::string name = "\"" + targets.back()->description().name + "\"";
    if (const size_t at = text.find("\"name\":" + name); at != text.npos) {
      text.erase(at, 7 + name.size());
    }
    if (targets.size() == 1) first = text;
    if (text == first) continue;
    *error = std::string(names) + ": " + targets.back()->name() + " and " + targets.front()->name() +
             " do not claim the same: they cannot be judged together";
    return {};
  }
  return targets;
}

const std::vector<BuiltIn>& BuiltInTargets() { return Targets(); }

void AddTargets(std::vector<BuiltIn> targets) {
  for (BuiltIn& target : targets) {
    target.on_device = target.name.starts_with("cuda");
    Targets().push_back(std::move(target));
  }
}

}  // namespace plumbline::fuzz
