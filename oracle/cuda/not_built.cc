// SPDX-License-Identifier: Apache-2.0
//
// Stands in for the oracle on a device in a build without a CUDA compiler.

#include "oracle/cuda/device_oracle.h"

namespace plumbline::oracle::cuda {

bool Built() { return false; }

std::unique_ptr<DeviceOracle> DeviceOracle::Open(std::string* error) {
  *error = "this build has no CUDA: the oracle runs on the host alone";
  return nullptr;
}

}  // namespace plumbline::oracle::cuda
