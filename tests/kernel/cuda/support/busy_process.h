// SPDX-License-Identifier: Apache-2.0
//
// Another process that keeps the same GPU busy. Processes take turns there, by slices of time, so that
// what one of them has enqueued on several streams starts late and together: an order that is missing
// between them then shows.

#ifndef PLUMBLINE_TESTS_KERNEL_CUDA_SUPPORT_BUSY_PROCESS_H_
#define PLUMBLINE_TESTS_KERNEL_CUDA_SUPPORT_BUSY_PROCESS_H_

#include <cstdio>

namespace plumbline::kernel::device {

// This program once more, running the disabled test BusyProcess.DISABLED_Runs until it is told to stop.
// Throws std::runtime_error where it does not start or does not reach the GPU.
class BusyProcess {
 public:
  BusyProcess();
  ~BusyProcess();  // ends it and waits for its end
  BusyProcess(const BusyProcess&) = delete;
  BusyProcess& operator=(const BusyProcess&) = delete;

 private:
  FILE* input_ = nullptr;  // of its shell: it stops at the end of it
};

}  // namespace plumbline::kernel::device

#endif  // PLUMBLINE_TESTS_KERNEL_CUDA_SUPPORT_BUSY_PROCESS_H_
