// SPDX-License-Identifier: Apache-2.0

#include "fuzz/target/target.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <exception>
#include <filesystem>
#include <functional>
#include <utility>

#include "fuzz/target/contracts.h"
#include "fuzz/target/interface/cuda_device.h"
#include "fuzz/target/interface/views.h"

namespace plumbline::fuzz {
namespace {

constexpr const char* kSymbol = "plumbline_target";

// Returns an empty text, or why this table cannot be called. Reads no more of it than its struct_size
// covers.
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
void* OpenLibrary(const std::filesystem::path& path, std::string* error) {
  // Made absolute: dlopen searches the system's folders for a name without a slash.
  void* library = ::dlopen(std::filesystem::absolute(path).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = ::dlerror();
    *error = why != nullptr ? why : "dlopen failed";
  }
  return library;
}

DLDevice DeviceOf(const Device* device) { return device != nullptr ? device->dlpack() : kHostMemory; }
void* StreamOf(const Device* device) { return device != nullptr ? device->stream() : nullptr; }

constexpr std::array<std::string_view, 4> kStatusNames = {"failed", "invalid", "no-status", "threw"};
constexpr size_t kLongestFailure = 96;

bool BelongsInWord(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("._-@").find(c) != std::string_view::npos;
}

// Makes the outcome of a text that ends in the target's word for the failure, if it has one.
RunOutcome FailedWithText(RunStatus status, std::string_view name, std::string text) {
  RunOutcome outcome{status, std::move(text), std::string(name)};
  const size_t mark = outcome.message.find(PLUMBLINE_WORD_FOLLOWS);
  if (mark == std::string::npos) return outcome;
  std::string word = outcome.message.substr(mark + 1, kLongestFailure);
  outcome.message.resize(mark);
  std::ranges::replace_if(word, std::not_fn(BelongsInWord), '-');
  if (word.empty()) return outcome;
  outcome.failure = word.find('@') != std::string::npos ? word : outcome.failure + "@" + word;
  return outcome;
}

// Runs a function of the table and returns its outcome. The function is given a buffer for its message.
template <class Call>
RunOutcome Called(Call call) {
  std::array<char, 1024> error{};
  int status = PLUMBLINE_FAILED;
  try {
    status = call(error.data(), error.size());
  } catch (const std::exception& e) {
    return {RunStatus::kFailed, std::string("threw through the C interface: ") + e.what(), "threw"};
  } catch (...) {
    return {RunStatus::kFailed, "threw through the C interface", "threw"};
  }
  error.back() = '\0';
  std::string message = error.data();
  switch (status) {
    case PLUMBLINE_OK:
      return {};
    case PLUMBLINE_UNSUPPORTED:
      return FailedWithText(RunStatus::kUnsupported, "", std::move(message));
    case PLUMBLINE_INVALID:
      return FailedWithText(RunStatus::kInvalid, "invalid", std::move(message));
    case PLUMBLINE_FAILED:
      return FailedWithText(RunStatus::kFailed, "failed", std::move(message));
    default:
      return FailedWithText(RunStatus::kFailed, "no-status",
                            "returned " + std::to_string(status) + ", which is no plumbline_status" +
                                (message.empty() ? "" : ": " + message));
  }
}

}  // namespace

bool IsFailureWord(std::string_view text) {
  return std::ranges::find(kStatusNames, text) != kStatusNames.end() ||
         (text.find('@') != std::string_view::npos && std::ranges::all_of(text, BelongsInWord));
}

Target::~Target() {
  if (library_ != nullptr) ::dlclose(library_);
}

std::unique_ptr<Target> Target::Open(std::string_view name, const std::filesystem::path& path,
                                     std::string* error, OpenDevice open) {
  std::unique_ptr<Target> target(new Target);
  target->name_ = name;
  target->library_ = OpenLibrary(path, error);
  if (target->library_ == nullptr) return nullptr;
  // POSIX makes the conversion from object to function pointer valid for dlsym.
  const auto entry = reinterpret_cast<decltype(&plumbline_target)>(::dlsym(target->library_, kSymbol));
  if (entry == nullptr) {
    *error = std::string(name) + ": exports no " + kSymbol + "()";
    return nullptr;
  }
  target->table_ = entry();
  return Checked(std::move(target), error, open);
}

std::unique_ptr<Target> Target::Adopt(std::string_view name, const plumbline_target_v1* table,
                                      std::string* error, OpenDevice open) {
  std::unique_ptr<Target> target(new Target);
  target->name_ = name;
  target->table_ = table;
  return Checked(std::move(target), error, open);
}

// Returns the target with its description parsed and its device opened, or null with the reason.
std::unique_ptr<Target> Target::Checked(std::unique_ptr<Target> target, std::string* error,
                                        OpenDevice open) {
  if (std::string why = CheckTable(target->table_); !why.empty()) {
    *error = target->name_ + ": " + why;
    return nullptr;
  }
  const char* text = target->table_->describe();
  std::string why = "describe() returned null";
  const auto description = text == nullptr ? std::nullopt : ParseDescription(text, &why);
  if (!description) {
    *error = target->name_ + ": " + why;
    return nullptr;
  }
  if (description->device == "cuda") {
    target->device_ = (open != nullptr ? open : CudaDevice)(&why);
    if (target->device_ == nullptr) {
      *error = target->name_ + ": " + why;
      return nullptr;
    }
  }
  target->description_text_ = text;
  target->description_ = *description;
  return target;
}

bool Target::HoldTo(std::string_view contract, std::string* error) {
  const std::optional<std::string> text = WithContract(description_text_, contract, error);
  if (!text) return false;
  std::optional<Description> description = ParseDescription(*text, error);
  if (!description) return false;
  name_ = HeldTo(std::move(name_), contract);
  description_text_ = *text;
  description_ = *std::move(description);
  return true;
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

}  // namespace plumbline::fuzz
