// SPDX-License-Identifier: Apache-2.0
//
// Measurements of the current CUDA device, without the operator: its elementary functions over
// every argument that matters, and its tensor cores on dot products that the host draws.
// fuzz/gpu/probe/probe.h sets the figures against what the CUDA targets declare. u = 2^-24.
//
// Every function throws CudaFault, with the call and CUDA's own words, where the device or the driver
// fails. In a build without CUDA there is no device: DescribeDevice says so and nothing else may be
// called.

#ifndef PLUMBLINE_FUZZ_GPU_PROBE_DEVICE_H_
#define PLUMBLINE_FUZZ_GPU_PROBE_DEVICE_H_

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

// False, with the reason, where there is no device that could be probed.
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
  void Get(void* to, size_t bytes) const;  // after everything that was enqueued before

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

// One function over a range of fp32 patterns.
struct FunctionSweep {
  int64_t arguments = 0;
  double worst = 0;  // largest relative error, in u, against fp64
  float worst_at = 0;
  int64_t rising = 0;  // neighbours in the wrong order
  int64_t wrong = 0;   // values that must be exact, zero, NaN or of one sign, and are not
  float wrong_at = 0;
};

// ex2.approx.ftz.f32 of every negative pattern, -0, -inf and NaN among them. Wrong: ex2(-0) other than
// 1, a result above 1, NaN lost, or a value below 2^-126 that is neither +0 nor within `claim` u.
FunctionSweep SweepExponential(double claim);
// logf, and lg2.approx.f32, on [1, 2^32). Wrong: log(1) other than +0, a negative result.
FunctionSweep SweepLogarithm();
FunctionSweep SweepFastLogarithm();
// 1 / s for every s in [1, 2^32), and a / b for 2^28 pairs of any finite numbers. Wrong: not the
// correctly rounded quotient.
FunctionSweep SweepReciprocal();
FunctionSweep SampleDivision();

// out[t][i][j] = the dot product of row i of a[t] with row j of b[t], t < tiles, i, j < 16; both are
// [tiles][16][depth] bf16 or fp16 patterns, depth a multiple of 16. One chain over the depth from +0.
void MmaTiles(bool fp16, int64_t tiles, int depth, const uint16_t* a, const uint16_t* b, float* out);
// The same by wgmma; tiles a multiple of 4; compute capability 9.0 alone.
void WgmmaTiles(bool fp16, int64_t tiles, int depth, const uint16_t* a, const uint16_t* b, float* out);

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_GPU_PROBE_DEVICE_H_
