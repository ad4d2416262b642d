// SPDX-License-Identifier: Apache-2.0

#include "tests/kernel/cuda/support/busy_process.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>

#include "tests/kernel/cuda/support/device_problem.h"
#include "tests/kernel/cuda/support/on_each_path.h"
#include "tests/kernel/cuda/support/reference.h"

namespace plumbline::kernel::device {
namespace {

namespace fs = std::filesystem;
constexpr const char* kReady = "PLUMB_BUSY_PROCESS_READY";  // names a file that the child makes

bool InputEnded() {
  pollfd input = {STDIN_FILENO, POLLIN, 0};
  return poll(&input, 1, 0) > 0;
}

// The work of the other process; it is no test.
TEST(BusyProcess, DISABLED_Runs) {
  const char* const ready = std::getenv(kReady);
  ASSERT_NE(ready, nullptr);
  constexpr int64_t kFloats = int64_t{1} << 24;
  DeviceBuffer floats(kFloats * 4);
  const Stream stream;
  for (bool first = true; !InputEnded(); first = false) {
    for (int i = 0; i < 20; ++i) Load(reinterpret_cast<float*>(floats.data()), kFloats, stream.get());
    stream.Wait();
    if (first) std::ofstream(ready) << "ready\n";
  }
}

}  // namespace

BusyProcess::BusyProcess() {
  const fs::path self = fs::read_symlink("/proc/self/exe");
  const fs::path ready = fs::temp_directory_path() / ("plumb-busy-" + std::to_string(getpid()));
  fs::remove(ready);
  const std::string command = std::string(kReady) + "='" + ready.string() + "' exec '" + self.string() +
                              "' --gtest_also_run_disabled_tests "
                              "--gtest_filter=BusyProcess.DISABLED_Runs >/dev/null 2>&1";
  input_ = popen(command.c_str(), "w");
  if (input_ == nullptr) throw std::runtime_error("no second process: popen failed");
  for (int i = 0; i < 300 && !fs::exists(ready); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const bool came = fs::remove(ready);
  if (came) return;
  pclose(input_);
  throw std::runtime_error("the second process, " + self.string() + ", is not on the GPU after 30 s");
}

BusyProcess::~BusyProcess() { pclose(input_); }

}  // namespace plumbline::kernel::device
