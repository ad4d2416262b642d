// SPDX-License-Identifier: Apache-2.0
//
// A problem in a CUDA device's memory: a recipe expanded there (fuzz/recipe/expand/device_values.h), or
// a copy of the host's problem. It also has outputs for one target, between guard bands.
//
// It supports padding, hidden-major weight, offsets and strides of labels and upstream gradients.
// Reversed or broadcast rows and the far strides of `wide` are left to the host's placement.

#ifndef PLUMBLINE_FUZZ_GPU_PRODUCTION_DEVICE_CASE_H_
#define PLUMBLINE_FUZZ_GPU_PRODUCTION_DEVICE_CASE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/problem/owned_problem.h"
#include "fuzz/recipe/recipe.h"
#include "kernel/problem.h"

namespace plumbline::fuzz {

class DeviceCase {
 public:
  // Returns null, with the reason in *error: that of WhyNotOnDevice, or the device's own words.
  static std::unique_ptr<DeviceCase> FromRecipe(const Recipe& recipe, std::string* error);
  static std::unique_ptr<DeviceCase> FromProblem(const OwnedProblem& problem, std::string* error);
  virtual ~DeviceCase() = default;

  // The problem's pointers are device memory that this owns.
  virtual const kernel::Problem& problem() const = 0;
  // Returns labels, temperature, upstream gradients, layout and the wanted outputs; hidden and weight
  // have their shapes and no bytes.
  virtual const OwnedProblem& rows() const = 0;
  // Reads rows [first, first + count) of hidden or weight from the device, dense.
  virtual HostTensor ReadRows(const kernel::ConstTensor& tensor, int64_t first,
                              int64_t count) const = 0;
};

class DeviceOutputs {
 public:
  static std::unique_ptr<DeviceOutputs> For(const DeviceCase& device_case, std::string* error);
  virtual ~DeviceOutputs() = default;

  virtual const kernel::Results& results() const = 0;
  // Fills every byte, guard bands and padding too. Throws oracle::cuda::DeviceError, as below.
  virtual void Poison(unsigned char pattern) = 0;
  // Returns an empty text, or the output that has bytes around or between its elements which are not
  // the pattern any more.
  virtual std::string Damage() = 0;
  virtual int64_t FirstInvalidRow() = 0;  // reads that output
};

// Workspace or saved state of exactly this many bytes, aligned to 256, between guard bands. May throw
// oracle::cuda::DeviceError.
class DeviceScratch {
 public:
  static std::unique_ptr<DeviceScratch> Of(size_t bytes, std::string* error);
  virtual ~DeviceScratch() = default;
  virtual void* data() const = 0;
  virtual void Poison(unsigned char pattern) = 0;
  virtual std::string Damage() = 0;
};

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_GPU_PRODUCTION_DEVICE_CASE_H_
