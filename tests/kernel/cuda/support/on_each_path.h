// SPDX-License-Identifier: Apache-2.0
//
// A fixture for tests that need a GPU. It runs on each path, and skips itself, saying why, if there is
// no GPU.

#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include "tests/kernel/cuda/support/device_problem.h"

namespace plumbline::kernel::device {

class OnEachPath : public testing::TestWithParam<CudaPath> {
 protected:
  void SetUp() override {
    const std::string why = WhyNoDevice();
    if (!why.empty()) GTEST_SKIP() << why;
  }
  static Execution On(cudaStream_t stream = nullptr) { return OnDevice(GetParam(), stream); }
};

inline auto EachPath() {
  return testing::Values(CudaPath::kSimt, CudaPath::kPortable, CudaPath::kBest);
}
// Paths for tests that take too long on the slow one.
inline auto FastPaths() { return testing::Values(CudaPath::kPortable, CudaPath::kBest); }
inline std::string PathName(const testing::TestParamInfo<CudaPath>& path) {
  return path.param == CudaPath::kBest ? "best" : path.param == CudaPath::kSimt ? "simt" : "portable";
}

// A stream that does not wait for the default one.
class Stream {
 public:
  Stream() { Check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate"); }
  ~Stream() { (void)cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  cudaStream_t get() const { return stream_; }
  void Wait() const { Check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }

 private:
  cudaStream_t stream_ = nullptr;
};

}  // namespace plumbline::kernel::device
