// SPDX-License-Identifier: Apache-2.0
//
// The energy that a GPU has taken and the clock it runs at, by NVML. The driver's package installs
// libnvidia-ml.so.1; it is loaded by name, so that a machine without it can run what links this.

#pragma once

#include <memory>
#include <string>

namespace plumbline::bench {

class EnergyMeter {
 public:
  // Returns that of the current CUDA device. Null where there is none, and *why says so: no library, or
  // a device that counts no energy (before Volta).
  static std::unique_ptr<EnergyMeter> Make(std::string* why);
  EnergyMeter(const EnergyMeter&) = delete;
  EnergyMeter& operator=(const EnergyMeter&) = delete;
  ~EnergyMeter();

  // J since the driver was loaded, of the whole board. The counter moves every 20 to 100 ms. Throws
  // std::runtime_error if NVML refuses, as do the others.
  double Joules() const;
  // MHz of the multiprocessors, now.
  double Clock() const;
  // W that the board may take.
  double PowerLimit() const;

 private:
  struct Library;
  explicit EnergyMeter(std::unique_ptr<Library> library);
  std::unique_ptr<Library> library_;
};

}  // namespace plumbline::bench
