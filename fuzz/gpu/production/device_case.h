// SPDX-License-Identifier: Apache-2.0
//
// A problem in a CUDA device's memory: a recipe expanded there (fuzz/recipe/expand/device_values.h), or
// a problem of the host's copied. And outputs for one target, between guard bands.
//
// Layouts: padding, hidden-major weight, offsets and strides of labels and upstream gradients. Rows
// that are reversed or broadcast and the far strides of `wide` stay with the host's placement.

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
  // Null, with the reason in *error: what WhyNotOnDevice says, or the device's own words.
  static std::unique_ptr<DeviceCase> FromRecipe(const Recipe& recipe, std::string* error);
  static std::unique_ptr<DeviceCase> FromProblem(const OwnedProblem& problem, std::string* error);
  virtual ~DeviceCase() = default;

  // Device memory, which this owns.
  virtual const kernel::Problem& problem() const = 0;
  // Labels, temperature, upstream gradients, layout and what is wanted; hidden and weight have their
  // shapes and no bytes.
  virtual const OwnedProblem& rows() const = 0;
  // hidden or weight as rows [first, first + count) lie there, dense.
  virtual HostTensor ReadRows(const kernel::ConstTensor& tensor, int64_t first,
                              int64_t count) const = 0;
};

class DeviceOutputs {
 public:
  static std::unique_ptr<DeviceOutputs> For(const DeviceCase& device_case, std::string* error);
  virtual ~DeviceOutputs() = default;

  virtual const kernel::Results& results() const = 0;
  // Every byte, guard bands and padding too. Throws oracle::cuda::DeviceError, as below.
  virtual void Poison(unsigned char pattern) = 0;
  // Empty; or which output has bytes around or between its elements that are not the pattern any more.
  virtual std::string Damage() = 0;
  virtual int64_t FirstInvalidRow() = 0;  // what that output says
};

// Workspace or saved state of exactly so many bytes, aligned to 256, between guard bands. May throw
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
