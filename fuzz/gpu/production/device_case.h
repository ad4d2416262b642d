// SPDX-License-Identifier: Apache-2.0
//
// A problem in a CUDA device's memory: a recipe expanded there (fuzz/recipe/expand/device_values.h), or
// a copy of the host's problem. Outputs and scratch memory lie between guard bands.
//
// It supports padding, hidden-major weight, offsets and strides of labels and upstream gradients.
// Reversed or broadcast rows and the far strides of `wide` are left to the host's placement.
//
// Everything here throws oracle::cuda::DeviceError, which quotes CUDA. In a build with CUDA alone.

#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/problem/owned_problem.h"
#include "fuzz/recipe/recipe.h"
#include "fuzz/target/description.h"
#include "kernel/problem.h"
#include "oracle/cuda/device.h"

namespace plumbline::fuzz {

// Memory between guard bands: `lines` runs of `length` elements, `pitch` apart, the first of them
// `first` elements past an aligned address.
class DeviceRegion {
 public:
  struct Lines {
    int64_t lines = 0, length = 0, pitch = 0, first = 0;
  };

  // `width`: the bytes of an element. `what`: named if there is no memory.
  DeviceRegion(const Lines& lines, size_t width, const char* what);
  // Exactly this many bytes, aligned to 256.
  DeviceRegion(size_t bytes, const char* what)
      : DeviceRegion({1, static_cast<int64_t>(bytes), static_cast<int64_t>(bytes)}, 1, what) {}

  void* data() const { return base_ + kGuard + lines_.first * width_; }
  // Fills every byte, guard bands and padding too. A new region is full of 0xff, which is NaN in every
  // float dtype: the output of a kernel that reads past its inputs shows it.
  void Poison(unsigned char pattern);
  // Returns an empty text, or how many bytes around and between the elements are not the pattern any
  // more.
  std::string Damage();

 private:
  static constexpr int64_t kGuard = 4096;  // bytes before and after the used ones

  oracle::cuda::DeviceBlock memory_, found_;
  Lines lines_;
  int64_t width_, bytes_;
  unsigned char* base_;
  unsigned char pattern_ = 0;
};

class DeviceCase {
 public:
  // Also throws std::runtime_error, with the reason of WhyNotOnDevice.
  explicit DeviceCase(const Recipe& recipe);
  explicit DeviceCase(const OwnedProblem& problem);

  // Asks for no output that the target lacks.
  void LeaveOut(const Capabilities& can);
  // The problem's pointers are device memory that this owns.
  const kernel::Problem& problem() const { return problem_; }
  // Returns labels, temperature, upstream gradients, layout and the wanted outputs; hidden and weight
  // have their shapes and no bytes.
  const OwnedProblem& rows() const { return rows_; }
  // Reads rows [first, first + count) of hidden or weight from the device, dense.
  static HostTensor ReadRows(const kernel::ConstTensor& tensor, int64_t first, int64_t count);

 private:
  void Place();
  kernel::ConstTensor Vector(const HostTensor& from, int64_t offset, int64_t stride);

  OwnedProblem rows_;
  kernel::Problem problem_;
  std::deque<DeviceRegion> regions_;
};

// Outputs for one target.
class DeviceOutputs {
 public:
  explicit DeviceOutputs(const DeviceCase& device_case);

  const kernel::Results& results() const { return results_; }
  void Poison(unsigned char pattern);
  // Returns an empty text, or the first output that is damaged (DeviceRegion), and how.
  std::string Damage();
  std::optional<int64_t> FirstInvalidRow() const;  // reads that output, if it was asked for

 private:
  DeviceRegion& Add(const char* name, const DeviceRegion::Lines& lines, kernel::DType dtype);

  std::deque<std::pair<const char*, DeviceRegion>> regions_;
  kernel::Results results_;
};

}  // namespace plumbline::fuzz
