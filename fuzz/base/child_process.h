// SPDX-License-Identifier: Apache-2.0
//
// Supervises a child process, for work that may crash or hang. The child has a process group of its own
// for two reasons. Ctrl-C must reach the supervisor alone: in the child it would look like a crash of
// the target. And killing the group also kills the children that a target started. The child is made
// by posix_spawn, so nothing is forked while threads run.

#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace plumbline::fuzz {

// The descriptor under which a child finds ChildSpec::shared. A target that prints to stdout or reads
// stdin does not touch it.
inline constexpr int kSharedDescriptor = 3;

struct ChildSpec {
  std::filesystem::path program;
  std::vector<std::string> words;  // its argv; `--parent PID` is appended, for EndWithParent
  int shared = -1;                 // a descriptor that the child gets; it stays open here. -1: none
  // stdout and stderr of the child are appended to this file; if empty, to memory. It is truncated when
  // it passes log_limit bytes, so a target cannot fill the disk.
  std::filesystem::path log{};
  int64_t log_limit = int64_t{1} << 20;
  // Makes the child in another way, with these words and descriptors, as a child of this process that
  // leads its own process group. Not set, or if it returns -1: posix_spawn.
  std::function<pid_t(const std::vector<std::string>& words, int log, int shared)> fork{};
};

// How a child ended.
struct ChildEnd {
  int status = 0;             // its exit status; -1: a signal ended it
  int signal = 0;             // that signal, or 0
  int64_t most_resident = 0;  // bytes that it held at most
  std::string how;            // "killed by signal 6 (Aborted)" or "exited with status 1"
};

class ChildProcess {
 public:
  ChildProcess() = default;
  ~ChildProcess();  // as Kill
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // Called once. The child's standard input is empty, and its signals are as in a fresh process.
  // Returns false, with the reason, if it could not be started.
  bool Start(ChildSpec spec, std::string* error);
  // Waits at most `time` for its end, and returns true if it has ended. The log's size is checked here
  // and by MarkLog alone.
  bool Await(std::chrono::milliseconds time);
  // Kills it, with everything in its process group, and reaps it. Its end stays as it was if it had
  // one.
  void Kill();

  pid_t pid() const { return pid_; }                           // -1 once it was killed
  const std::optional<ChildEnd>& end() const { return end_; }  // nullopt: it has not ended

  void MarkLog();  // what is in the log so far is not Printed
  // Returns the last `most` bytes that were printed since the mark, without line ends at the end.
  std::string Printed(size_t most) const;
  // Returns "; its last line: ...", cut after 200 bytes, or an empty text if nothing was printed.
  std::string LastLine() const;

 private:
  bool Reap(int flags);  // true if it has ended
  int64_t TrimLog();     // returns the log's size

  pid_t pid_ = -1;
  int log_ = -1;
  int64_t log_limit_ = 0, log_mark_ = 0;
  std::optional<ChildEnd> end_;
};

// Returns the same file under a descriptor to which no descriptor of a child is duplicated, and closes
// the given one. -1 stays.
int AboveChildDescriptors(int descriptor);

// Called first in a child: it ends with its parent from now on, and leaves no core file, since crashes
// are expected. Returns false if the parent has ended already.
bool EndWithParent(pid_t parent);

}  // namespace plumbline::fuzz
