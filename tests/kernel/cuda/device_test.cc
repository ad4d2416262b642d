// SPDX-License-Identifier: Apache-2.0
//
// The properties of a device that the operator caches, compared with what the CUDA runtime reports.

#include "kernel/cuda/support/device.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <string>
#include <thread>

namespace plumbline::kernel::cuda {
namespace {

struct Answer {
  Status capability_status, multiprocessor_status;
  int capability = 0, multiprocessors = 0;
};

Answer Ask() {
  Answer answer;
  answer.capability_status = GetComputeCapability(&answer.capability);
  answer.multiprocessor_status = CountMultiprocessors(&answer.multiprocessors);
  return answer;
}

// Fails if a cached answer is given for another device, or if the first threads to ask are given an
// answer that is not there yet.
TEST(GpuDevice, EveryThreadIsToldOfItsOwnDevice) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) GTEST_SKIP() << "no CUDA device";
  for (int device = 0; device < devices; ++device) {
    cudaDeviceProp properties{};
    ASSERT_EQ(cudaGetDeviceProperties(&properties, device), cudaSuccess);
    std::array<Answer, 8> answers;
    std::array<std::thread, 8> threads;
    for (size_t i = 0; i < threads.size(); ++i) {
      threads[i] = std::thread([&answers, i, device] {
        if (cudaSetDevice(device) == cudaSuccess) answers[i] = Ask();
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const Answer& answer : answers) {
      EXPECT_EQ(answer.capability, 10 * properties.major + properties.minor) << "device " << device;
      EXPECT_EQ(answer.multiprocessors, properties.multiProcessorCount) << "device " << device;
    }
  }
}

// Fails if a device that is not there is cached as one.
TEST(CudaDevice, WithoutOneIsAnErrorInCudasWords) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0) GTEST_SKIP() << "there is a device";
  for (int again = 0; again < 2; ++again) {
    const Answer answer = Ask();
    EXPECT_EQ(answer.capability_status.code, Code::kFailed);
    EXPECT_EQ(answer.multiprocessor_status.code, Code::kFailed);
    EXPECT_NE(answer.capability_status.message.find("cudaError"), std::string::npos)
        << answer.capability_status.message;
  }
}

}  // namespace
}  // namespace plumbline::kernel::cuda
