// SPDX-License-Identifier: Apache-2.0
//
// Another process that keeps the same GPU busy. Processes share the GPU in time slices, so what one of
// them has enqueued on several streams starts late and together. An order that is missing between
// streams then shows.

#pragma once

#include <cstdio>

namespace plumbline::kernel::device {

// Starts this program again, running the disabled test BusyProcess.DISABLED_Runs until it is told to
// stop. Throws std::runtime_error if it does not start or does not reach the GPU.
class BusyProcess {
 public:
  BusyProcess();
  ~BusyProcess();  // ends it and waits for its end
  BusyProcess(const BusyProcess&) = delete;
  BusyProcess& operator=(const BusyProcess&) = delete;

 private:
  FILE* input_ = nullptr;  // its shell's input; it stops when this is closed
};

}  // namespace plumbline::kernel::device
