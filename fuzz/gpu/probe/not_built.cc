// SPDX-License-Identifier: Apache-2.0
//
// Replaces the device sources of the probe if there is no CUDA compiler.

#include "fuzz/gpu/probe/device.h"

namespace plumbline::fuzz {
namespace {

[[noreturn]] void NotBuilt() { throw CudaFault("this build has no CUDA"); }

}  // namespace

bool DescribeDevice(ProbedDevice*, std::string* reason) {
  *reason = "this build has no CUDA: it was configured without a CUDA compiler";
  return false;
}

DeviceBytes::DeviceBytes(size_t) { NotBuilt(); }
DeviceBytes::~DeviceBytes() = default;
void DeviceBytes::Fill(int) { NotBuilt(); }
void DeviceBytes::Put(const void*, size_t) { NotBuilt(); }
void DeviceBytes::Get(void*, size_t) const { NotBuilt(); }

FunctionSweep SweepExponential(double) { NotBuilt(); }
FunctionSweep SweepLogarithm() { NotBuilt(); }
FunctionSweep SweepFastLogarithm() { NotBuilt(); }
FunctionSweep SweepReciprocal() { NotBuilt(); }
FunctionSweep SampleDivision() { NotBuilt(); }
void MmaTiles(bool, int64_t, int, const uint16_t*, const uint16_t*, float*) { NotBuilt(); }
void WgmmaTiles(bool, int64_t, int, const uint16_t*, const uint16_t*, float*) { NotBuilt(); }

}  // namespace plumbline::fuzz
