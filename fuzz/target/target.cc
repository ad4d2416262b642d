// SPDX-License-Identifier: Apache-2.0

#include "fuzz/target/target.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <span>
#include <thread>
#include <utility>

#include "fuzz/builtin/cuda.h"
#include "fuzz/builtin/cuda_forward_backward.h"
#include "fuzz/builtin/host.h"
#include "fuzz/builtin/host_hopper.h"
#include "fuzz/builtin/mutants/mutants.h"
#include "fuzz/target/cuda_device.h"
#include "fuzz/target/views.h"

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
constexpr const char* kSymbol = "plumbline_target";

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

// Empty, or why this table cannot be called. Reads no more of it than its struct_size covers.
std::string CheckTable(const plumbline_target_v1* table) {
  if (table == nullptr) return "plumbline_target() returned null";
  if (table->abi_version != PLUMBLINE_TARGET_ABI_VERSION) {
    return "abi_version is " + std::to_string(table->abi_version) + ", this build speaks " +
           std::to_string(PLUMBLINE_TARGET_ABI_VERSION);
  }
  if (table->struct_size < sizeof(plumbline_target_v1)) {
    return "struct_size is " + std::to_string(table->struct_size) + ", below version 1's " +
           std::to_string(sizeof(plumbline_target_v1));
  }
  if (table->describe == nullptr) return "describe is null";
  if (table->run == nullptr) return "run is null";
  const bool split[] = {table->sizes != nullptr, table->forward != nullptr, table->backward != nullptr};
  if (split[0] != split[1] || split[1] != split[2]) {
    return "sizes, forward and backward: some are null and some are not; it is all three or none";
  }
  return {};
}

// RTLD_LOCAL, so that two plug-ins that define the same names do not meet; RTLD_NOW, so that a missing
// symbol is an error here and not a crash in the middle of a campaign.
void* Open(const std::filesystem::path& path, std::string* error) {
  // A name without a slash would be searched for in the system's folders.
  void* library = ::dlopen(std::filesystem::absolute(path).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = ::dlerror();
    *error = why != nullptr ? why : "dlopen failed";
  }
  return library;
}

DLDevice DeviceOf(const Device* device) { return device != nullptr ? device->dlpack() : kHostMemory; }
void* StreamOf(const Device* device) { return device != nullptr ? device->stream() : nullptr; }

// What a function of the table came to; it is given the buffer for its words.
template <class Call>
RunOutcome Called(Call call) {
  std::array<char, 1024> error{};
  int status = PLUMBLINE_FAILED;
  try {
    status = call(error.data(), error.size());
  } catch (const std::exception& e) {
    return {RunStatus::kFailed, std::string("threw through the C interface: ") + e.what()};
  } catch (...) {
    return {RunStatus::kFailed, "threw through the C interface"};
  }
  error.back() = '\0';
  std::string message = error.data();
  switch (status) {
    case PLUMBLINE_OK:
      return {};
    case PLUMBLINE_UNSUPPORTED:
      return {RunStatus::kUnsupported, std::move(message)};
    case PLUMBLINE_INVALID:
      return {RunStatus::kInvalid, std::move(message)};
    case PLUMBLINE_FAILED:
      return {RunStatus::kFailed, std::move(message)};
    default:
      return {RunStatus::kFailed, "returned " + std::to_string(status) +
                                      ", which is no plumbline_status" +
                                      (message.empty() ? "" : ": " + message)};
  }
}

}  // namespace

Target::~Target() {
  if (library_ != nullptr) ::dlclose(library_);
}

std::unique_ptr<Target> Target::Load(std::string_view name, std::string* error, OpenDevice open) {
  std::unique_ptr<Target> target(new Target);
  target->name_ = name;
  if (name.starts_with(kPlugin)) {
    target->library_ = Open(std::filesystem::path(name.substr(kPlugin.size())), error);
    if (target->library_ == nullptr) return nullptr;
    // POSIX makes the conversion from object to function pointer valid for dlsym.
    const auto entry =
        reinterpret_cast<decltype(&plumbline_target)>(::dlsym(target->library_, kSymbol));
    if (entry == nullptr) {
      *error = std::string(name) + ": exports no " + kSymbol + "()";
      return nullptr;
    }
    target->table_ = entry();
  } else {
    target->table_ = FindBuiltIn(name);
    if (target->table_ == nullptr) {
      *error = UnknownName(name);
      return nullptr;
    }
  }
  if (std::string why = CheckTable(target->table_); !why.empty()) {
    *error = std::string(name) + ": " + why;
    return nullptr;
  }
  const char* text = target->table_->describe();
  std::string why = "describe() returned null";
  const auto description = text == nullptr ? std::nullopt : ParseDescription(text, &why);
  if (!description) {
    *error = std::string(name) + ": " + why;
    return nullptr;
  }
  if (description->device == "cuda") {
    target->device_ = (open != nullptr ? open : CudaDevice)(&why);
    if (target->device_ == nullptr) {
      *error = std::string(name) + ": " + why;
      return nullptr;
    }
  }
  target->description_ = *description;
  return target;
}

RunOutcome Target::Run(const kernel::Problem& problem, const kernel::Results& results) const {
  AbiCall call(problem, results, DeviceOf(device_));
  return Called([&](char* error, size_t capacity) {
    return table_->run(call.problem(), call.results(), StreamOf(device_), error, capacity);
  });
}

RunOutcome Target::Sizes(const kernel::Problem& problem, size_t* workspace, size_t* saved) const {
  AbiCall call(problem, {}, DeviceOf(device_));
  return Called([&](char*, size_t) { return table_->sizes(call.problem(), workspace, saved); });
}

RunOutcome Target::Forward(const kernel::Problem& problem, const kernel::Results& results,
                           void* workspace, void* saved) const {
  AbiCall call(problem, results, DeviceOf(device_));
  return Called([&](char* error, size_t capacity) {
    return table_->forward(call.problem(), call.results(), workspace, saved, StreamOf(device_), error,
                           capacity);
  });
}

RunOutcome Target::Backward(const kernel::Problem& problem, const kernel::Results& results,
                            void* workspace, const void* saved) const {
  AbiCall call(problem, results, DeviceOf(device_));
  return Called([&](char* error, size_t capacity) {
    return table_->backward(call.problem(), call.results(), workspace, saved, StreamOf(device_), error,
                            capacity);
  });
}

std::vector<std::unique_ptr<Target>> LoadTogether(std::string_view names, std::string* error) {
  const bool foreign = names.starts_with(kPlugin);  // a path may hold a plus
  std::vector<std::unique_ptr<Target>> targets;
  std::string first;  // description, without the name
  for (size_t begin = 0; begin <= names.size();) {
    const size_t end = foreign ? names.size() : std::min(names.find('+', begin), names.size());
    targets.push_back(Target::Load(names.substr(begin, end - begin), error));
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

int DefaultJobs(bool on_device) {
  const int threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const bool shared = std::getenv("CUDA_MPS_PIPE_DIRECTORY") != nullptr;
  return on_device && !shared ? std::min(threads, 4) : threads;
}

}  // namespace plumbline::fuzz
