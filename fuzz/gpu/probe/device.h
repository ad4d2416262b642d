// SPDX-License-Identifier: Apache-2.0
//
// Measures the current CUDA device, without the operator: its elementary functions over every relevant
// argument, and its tensor cores on dot products that the host draws. fuzz/gpu/probe/probe.h compares
// the results with the figures that the CUDA targets declare. u = 2^-24.
//
// Every function throws CudaFault, with the call and CUDA's own words, if the device or the driver
// fails. In a build without CUDA there is no device: DescribeDevice reports that, and no other function
// may be called.

#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace plumbline::fuzz {

struct CudaFault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct ProbedDevice {
  std::string name;
  int major = 0, minor = 0;     // compute capability
  int driver = 0, runtime = 0;  // CUDA versions, 1000 * major + 10 * minor
};

// Returns false, with the reason, if there is no device that can be probed.
bool DescribeDevice(ProbedDevice* device, std::string* reason);

// Device memory, freed with the object.
class DeviceBytes {
 public:
  explicit DeviceBytes(size_t bytes);
  ~DeviceBytes();
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;

  void* data() const { return data_; }
  void Fill(int byte);
  void Put(const void* from, size_t bytes);
  void Get(void* to, size_t bytes) const;  // waits for everything enqueued before

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

// The result of one function over a range of fp32 patterns.
struct FunctionSweep {
  int64_t arguments = 0;
  double worst = 0;  // largest relative error, in u, against fp64
  float worst_at = 0;
  int64_t rising = 0;  // neighbours in the wrong order
  int64_t wrong = 0;   // values that should be exact, zero, NaN or of one sign, and are not
  float wrong_at = 0;
};

// Sweeps ex2.approx.ftz.f32 over every negative pattern, including -0, -inf and NaN. These count as
// wrong: ex2(-0) other than 1, a result above 1, a lost NaN, and a value below 2^-126 that is neither
// +0 nor within `claim` u.
FunctionSweep SweepExponential(double claim);
// Sweeps logf, and lg2.approx.f32, over [1, 2^32). These count as wrong: log(1) other than +0, a
// negative result.
FunctionSweep SweepLogarithm();
FunctionSweep SweepFastLogarithm();
// Computes 1 / s for every s in [1, 2^32), and a / b for 2^28 pairs of any finite numbers. Any other
// value than the correctly rounded quotient counts as wrong.
FunctionSweep SweepReciprocal();
FunctionSweep SampleDivision();

// Computes out[t][i][j] = the dot product of row i of a[t] with row j of b[t], t < tiles, i, j < 16.
// Both are [tiles][16][depth] bf16 or fp16 patterns, depth a multiple of 16. One chain runs over the
// depth from +0.
void MmaTiles(bool fp16, int64_t tiles, int depth, const uint16_t* a, const uint16_t* b, float* out);
// Computes the same by wgmma. tiles must be a multiple of 4, and the compute capability 9.0.
void WgmmaTiles(bool fp16, int64_t tiles, int depth, const uint16_t* a, const uint16_t* b, float* out);

}  // namespace plumbline::fuzz
