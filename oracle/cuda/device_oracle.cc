// SPDX-License-Identifier: Apache-2.0

#include "oracle/cuda/device_oracle.h"

#include <exception>

#include "oracle/cuda/blas.h"
#include "oracle/cuda/device.h"
#include "oracle/cuda/device_sweep.h"
#include "oracle/cuda/launch.h"

namespace plumbline::oracle::cuda {
namespace {

class Opened final : public DeviceOracle {
 public:
  DeviceVerdicts Judge(const kernel::Problem& problem, std::span<const kernel::Results> results,
                       const Contract& contract, size_t memory,
                       std::vector<WatchedRow>* watched) override {
    DeviceVerdicts out;
    if (results.empty()) {
      out.error = "no results to judge";
      return out;
    }
    try {
      return DeviceSweep(problem, results, contract, memory, watched, blas_, &arena_).Run();
    } catch (const std::exception& e) {
      out.error = e.what();
    }
    cudaGetLastError();  // clears what is not sticky; the error is reported above
    return out;
  }

  uint64_t Hash(const kernel::ConstTensor& t, std::string* error) override {
    try {
      auto* const sum = hash_.Of<uint64_t>(1, "a hash");
      Check(cudaMemset(sum, 0, sizeof(uint64_t)), "a hash");
      HashBits(t.data, static_cast<int>(kernel::SizeOf(t.dtype)), t.rank > 0 ? t.shape[0] : 1,
               t.rank > 1 ? t.shape[1] : 1, t.rank > 0 ? t.stride[0] : 0, t.rank > 1 ? t.stride[1] : 0,
               sum);
      return Download(sum, 1, "a hash")[0];
    } catch (const std::exception& e) {
      *error = e.what();
      return 0;
    }
  }

 private:
  Blas blas_;
  Arena arena_;
  DeviceBlock hash_;
};

}  // namespace

bool Built() { return true; }

std::unique_ptr<DeviceOracle> DeviceOracle::Open(std::string* error) {
  try {
    int devices = 0;
    Check(cudaGetDeviceCount(&devices), "looking for a device");
    return std::make_unique<Opened>();
  } catch (const std::exception& e) {
    *error = e.what();
    return nullptr;
  }
}

}  // namespace plumbline::oracle::cuda
