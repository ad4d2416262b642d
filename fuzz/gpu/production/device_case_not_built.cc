// SPDX-License-Identifier: Apache-2.0
//
// Replaces problems in a device's memory if there is no CUDA compiler.

#include "fuzz/gpu/production/device_case.h"

namespace plumbline::fuzz {
namespace {

constexpr const char* kWhy = "this build has no CUDA";

}  // namespace

std::unique_ptr<DeviceCase> DeviceCase::FromRecipe(const Recipe&, std::string* error) {
  *error = kWhy;
  return nullptr;
}

std::unique_ptr<DeviceCase> DeviceCase::FromProblem(const OwnedProblem&, std::string* error) {
  *error = kWhy;
  return nullptr;
}

std::unique_ptr<DeviceScratch> DeviceScratch::Of(size_t, std::string* error) {
  *error = kWhy;
  return nullptr;
}

std::unique_ptr<DeviceOutputs> DeviceOutputs::For(const DeviceCase&, std::string* error) {
  *error = kWhy;
  return nullptr;
}

}  // namespace plumbline::fuzz
