// SPDX-License-Identifier: Apache-2.0
//
// Uninitialised doubles, aligned to a cache line as vectors need them.
//
// Freed blocks of 64 KiB to 8 MiB go to a list of the thread that frees them (at most 32 MiB), and are
// handed out again. malloc would return them to the system after every sweep, and touching fresh pages
// took a tenth of the time at N = 64, V = 4096.

#pragma once

#include <cstdint>
#include <utility>

namespace plumbline::oracle {

class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(int64_t count);
  ~Buffer();
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    swap(other);
    return *this;
  }
  double* data() const { return data_; }

 private:
  void swap(Buffer& other) {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }
  double* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace plumbline::oracle
