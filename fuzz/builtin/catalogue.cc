// SPDX-License-Identifier: Apache-2.0

#include "fuzz/builtin/catalogue.h"

#include <algorithm>
#include <filesystem>
#include <span>
#include <utility>

#include "fuzz/builtin/cuda.h"
#include "fuzz/builtin/cuda_forward_backward.h"
#include "fuzz/builtin/host.h"
#include "fuzz/builtin/host_hopper.h"
#include "fuzz/builtin/mutants/mutants.h"

namespace plumbline::fuzz {
namespace {

constexpr std::string_view kHost = "host";
constexpr std::string_view kHostHopper = "host-hopper";
constexpr std::string_view kCuda = "cuda";
constexpr std::string_view kCudaPortable = "cuda-portable";
constexpr std::string_view kCudaSimt = "cuda-simt";
constexpr std::string_view kCudaForwardBackward = "cuda-forward-backward";
constexpr std::string_view kMutant = "mutant:";
constexpr std::string_view kHopperMutant = "hopper-mutant:";
constexpr std::string_view kCudaMutant = "cuda-mutant:";
constexpr std::string_view kPlugin = "plugin:";

const plumbline_target_v1* FindBuiltIn(std::string_view name) {
  if (name == kHost) return HostTarget();
  if (name == kHostHopper) return HostHopperTarget();
  if (name == kCuda) return CudaTarget();
  if (name == kCudaPortable) return CudaPortableTarget();
  if (name == kCudaSimt) return CudaSimtTarget();
  if (name == kCudaForwardBackward) return CudaForwardBackwardTarget();
  const auto find = [&](std::string_view prefix, std::span<const Mutant> mutants) {
    const plumbline_target_v1* table = nullptr;
    for (const Mutant& mutant : mutants) {
      if (name.starts_with(prefix) && mutant.name == name.substr(prefix.size())) table = mutant.table;
    }
    return table;
  };
  if (const plumbline_target_v1* table = find(kMutant, Mutants())) return table;
  if (const plumbline_target_v1* table = find(kHopperMutant, HopperMutants())) return table;
  return find(kCudaMutant, CudaMutants());
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
  const plumbline_target_v1* table = FindBuiltIn(name);
  if (table == nullptr) {
    *error = UnknownName(name);
    return nullptr;
  }
  return Target::Adopt(name, table, error, open);
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

std::vector<BuiltIn> BuiltInTargets() {
  std::vector<BuiltIn> targets = {
      {std::string(kHost), "the operator of this project on the CPU"},
      {std::string(kHostHopper),
       "the same with its dot products as Hopper's tensor cores compute them, bit for bit"},
      {std::string(kCuda), "the operator on a CUDA device, by the fastest path that the device has"},
      {std::string(kCudaPortable), "the same by the path for compute capability 8.0 and up"},
      {std::string(kCudaSimt), "the same without tensor cores, for compute capability 7.5 and up"},
      {std::string(kCudaForwardBackward),
       "the operator on a CUDA device, gradients computed in the forward call"}};
  for (const Mutant& mutant : Mutants()) {
    targets.push_back({std::string(kMutant) + std::string(mutant.name), std::string(mutant.what)});
  }
  for (const Mutant& mutant : HopperMutants()) {
    targets.push_back({std::string(kHopperMutant) + std::string(mutant.name),
                       "the same defect on host-hopper: " + std::string(mutant.what)});
  }
  for (const Mutant& mutant : CudaMutants()) {
    targets.push_back({std::string(kCudaMutant) + std::string(mutant.name), std::string(mutant.what),
                       mutant.deterministic});
  }
  for (BuiltIn& target : targets) target.on_device = target.name.starts_with(kCuda);
  return targets;
}

}  // namespace plumbline::fuzz
