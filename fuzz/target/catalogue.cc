// SPDX-License-Identifier: Apache-2.0

#include "fuzz/target/catalogue.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "fuzz/base/nearest.h"
#include "fuzz/base/text.h"
#include "fuzz/builtin/cuda.h"
#include "fuzz/builtin/cuda_forward_backward.h"
#include "fuzz/builtin/host.h"
#include "fuzz/builtin/host_hopper.h"
#include "fuzz/target/contracts.h"

namespace plumbline::fuzz {
namespace {

constexpr std::string_view kPlugin = "plugin:", kPython = "python:";

// Returns why this is no name of a Python function; empty if it is one.
std::string WhyNoFunction(std::string_view name) {
  const std::string_view rest = name.substr(kPython.size());
  const size_t colon = rest.find(':');
  if (colon != rest.npos && colon > 0 && colon + 1 < rest.size() &&
      rest.find(':', colon + 1) == rest.npos) {
    return {};
  }
  return "'" + Printable(Abridged(std::string(name))) +
         "' names no Python function: it is python:MODULE:FUNCTION, such as "
         "python:my_package.losses:linear_cross_entropy";
}

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
      {"cuda-forward-backward",
       "the operator on a CUDA device, gradients computed in the forward call; blocks of rows change "
       "bits of grad_weight where rows are dropped",
       CudaForwardBackwardTarget(), true, true}};
  return targets;
}

std::string UnknownName(std::string_view name) {
  const std::string quoted = Printable(Abridged(std::string(name)));
  std::string text = "there is no target '" + quoted + "'.";
  std::vector<std::string> names;
  std::string listed;
  for (const BuiltIn& target : BuiltInTargets()) {
    names.push_back(target.name);
    if (target.name.find("mutant:") == std::string::npos) listed += target.name + ", ";
  }
  if (std::error_code code; name.ends_with(".so") || name.find('/') != name.npos) {
    text += " A shared library is plugin:" + quoted + " (" +
            (std::filesystem::exists(name, code) ? "that file exists)." : "there is no such file).");
  } else if (name.find('.') != name.npos) {
    text += " A function of a Python module is python:MODULE:FUNCTION.";
  } else {
    text += DidYouMean(name, names);
  }
  return text + " Targets: " + listed +
         "mutant:NAME, plugin:PATH.so, python:MODULE:FUNCTION; `plumb targets` lists them.";
}

}  // namespace

namespace {

// Loads a target that is held to its own contract.
std::unique_ptr<Target> LoadPlain(std::string_view name, std::string* error, OpenDevice open) {
  if (name.starts_with(kPlugin)) {
    return Target::Open(name, std::filesystem::path(name.substr(kPlugin.size())), error, open);
  }
  const auto found = std::ranges::find(Targets(), name, &BuiltIn::name);
  if (found == Targets().end()) {
    *error = IsPython(name) ? std::string(name) + " can be run by a Python worker alone."
                            : UnknownName(name);
    return nullptr;
  }
  if (found->table == nullptr) {
    *error = found->why_not;
    return nullptr;
  }
  return Target::Adopt(name, found->table, error, open);
}

}  // namespace

std::unique_ptr<Target> LoadTarget(std::string_view name, std::string* error, OpenDevice open) {
  const auto [plain, contract] = SplitTarget(name);
  std::unique_ptr<Target> target = LoadPlain(plain, error, open);
  if (target == nullptr && contract.empty() && name.find('@') != name.npos) {
    *error += " Behind @ may stand " + ContractNames() + ".";
  }
  if (target == nullptr || contract.empty()) return target;
  if (target->HoldTo(contract, error)) return target;
  *error = std::string(name) + ": " + *error;
  return nullptr;
}

bool IsPython(std::string_view name) { return name.starts_with(kPython); }

std::string WhyNoTarget(std::string_view names) {
  const std::string_view plain = SplitTarget(names).first;
  if (plain.starts_with(kPlugin)) return {};
  if (IsPython(plain)) return WhyNoFunction(plain);
  for (size_t begin = 0; begin <= plain.size();) {
    const size_t end = std::min(plain.find('+', begin), plain.size());
    const std::string_view name = plain.substr(begin, end - begin);
    if (std::ranges::find(Targets(), name, &BuiltIn::name) == Targets().end())
      return UnknownName(plain);
    begin = end + 1;
  }
  return {};
}

std::vector<std::unique_ptr<Target>> LoadTogether(std::string_view names, std::string* error) {
  const bool foreign = names.starts_with(kPlugin) || IsPython(names);  // may hold a plus
  const auto [plain, contract] = SplitTarget(names);
  std::vector<std::unique_ptr<Target>> targets;
  std::string first;  // description, without the name
  for (size_t begin = 0; begin <= plain.size();) {
    const size_t end = foreign ? plain.size() : std::min(plain.find('+', begin), plain.size());
    targets.push_back(
        LoadTarget(HeldTo(std::string(plain.substr(begin, end - begin)), contract), error));
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
