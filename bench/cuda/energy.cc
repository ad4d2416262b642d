// SPDX-License-Identifier: Apache-2.0

#include "bench/cuda/energy.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <array>
#include <stdexcept>
#include <utility>

namespace plumbline::bench {

// The functions of nvml.h that are called, with its types: nvmlReturn_t is an enumeration whose 0 is
// success, nvmlDevice_t a pointer, NVML_CLOCK_SM is 1. The header comes with no package that the build
// needs otherwise.
struct EnergyMeter::Library {
  using Device = void*;
  void* handle = nullptr;
  Device device = nullptr;
  const char* (*error_string)(int) = nullptr;
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*by_bus)(const char*, Device*) = nullptr;
  int (*energy)(Device, unsigned long long*) = nullptr;  // mJ
  int (*clock)(Device, int, unsigned*) = nullptr;        // MHz
  int (*limit)(Device, unsigned*) = nullptr;             // mW
  bool initialised = false;

  ~Library() {
    if (initialised) (void)shutdown();
    if (handle != nullptr) (void)dlclose(handle);
  }
  template <class Function>
  bool Find(const char* name, Function* function) const {
    *function = reinterpret_cast<Function>(dlsym(handle, name));
    return *function != nullptr;
  }
  void Check(int error, const char* call) const {
    if (error != 0) throw std::runtime_error(std::string(call) + ": " + error_string(error));
  }
};

EnergyMeter::EnergyMeter(std::unique_ptr<Library> library) : library_(std::move(library)) {}
EnergyMeter::~EnergyMeter() = default;

std::unique_ptr<EnergyMeter> EnergyMeter::Make(std::string* why) {
  auto of = std::make_unique<Library>();
  of->handle = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (of->handle == nullptr) {
    *why = "no libnvidia-ml.so.1";
    return nullptr;
  }
  if (!of->Find("nvmlErrorString", &of->error_string) || !of->Find("nvmlInit_v2", &of->init) ||
      !of->Find("nvmlShutdown", &of->shutdown) ||
      !of->Find("nvmlDeviceGetHandleByPciBusId_v2", &of->by_bus) ||
      !of->Find("nvmlDeviceGetTotalEnergyConsumption", &of->energy) ||
      !of->Find("nvmlDeviceGetClockInfo", &of->clock) ||
      !of->Find("nvmlDeviceGetEnforcedPowerLimit", &of->limit)) {
    *why = "libnvidia-ml.so.1 lacks a function";
    return nullptr;
  }
  int device = 0;
  std::array<char, 32> bus{};
  unsigned long long millijoules = 0;
  try {
    of->Check(of->init(), "nvmlInit");
    of->initialised = true;
    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), device) != cudaSuccess) {
      throw std::runtime_error("CUDA names no bus of its device");
    }
    of->Check(of->by_bus(bus.data(), &of->device), "nvmlDeviceGetHandleByPciBusId");
    of->Check(of->energy(of->device, &millijoules), "nvmlDeviceGetTotalEnergyConsumption");
  } catch (const std::runtime_error& fault) {
    *why = fault.what();
    return nullptr;
  }
  return std::unique_ptr<EnergyMeter>(new EnergyMeter(std::move(of)));
}

double EnergyMeter::Joules() const {
  unsigned long long millijoules = 0;
  library_->Check(library_->energy(library_->device, &millijoules),
                  "nvmlDeviceGetTotalEnergyConsumption");
  return static_cast<double>(millijoules) * 1e-3;
}

double EnergyMeter::Clock() const {
  constexpr int kMultiprocessors = 1;
  unsigned megahertz = 0;
  library_->Check(library_->clock(library_->device, kMultiprocessors, &megahertz),
                  "nvmlDeviceGetClockInfo");
  return megahertz;
}

double EnergyMeter::PowerLimit() const {
  unsigned milliwatts = 0;
  library_->Check(library_->limit(library_->device, &milliwatts), "nvmlDeviceGetEnforcedPowerLimit");
  return milliwatts * 1e-3;
}

}  // namespace plumbline::bench
