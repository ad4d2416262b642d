// SPDX-License-Identifier: Apache-2.0

#include "fuzz/base/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>
#include <utility>

namespace plumbline::fuzz {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// Descriptors from here on are not overwritten when a child's are duplicated.
constexpr int kAbove = 10;

int OpenLog(const std::filesystem::path& path) {
  if (!path.empty()) return open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  const int descriptor = memfd_create("plumb-log", MFD_CLOEXEC);
  // The log is opened for appending, so that after a cut the next line goes to the new end and leaves
  // no hole.
  if (descriptor >= 0) fcntl(descriptor, F_SETFL, O_RDWR | O_APPEND);
  return descriptor;
}

// Returns -1, with the reason, if the program could not be started.
pid_t Spawn(ChildSpec spec, int log, std::string* error) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, log, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, log, STDERR_FILENO);
  const int shared = spec.shared < 0 ? -1 : fcntl(spec.shared, F_DUPFD_CLOEXEC, kAbove);
  if (shared >= 0) posix_spawn_file_actions_adddup2(&actions, shared, kSharedDescriptor);

  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, defaults;
  sigemptyset(&none);
  sigemptyset(&defaults);
  for (const int s : {SIGINT, SIGTERM, SIGPIPE, SIGHUP}) sigaddset(&defaults, s);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &defaults);

  std::vector<char*> argv;
  for (std::string& word : spec.words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t pid = -1;
  const int failed =
      posix_spawn(&pid, spec.program.c_str(), &actions, &attributes, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (shared >= 0) close(shared);
  if (failed == 0) return pid;
  *error = "cannot start " + spec.program.string() + ": " + strerrordesc_np(failed);
  return -1;
}

}  // namespace

bool ChildProcess::Start(ChildSpec spec, std::string* error) {
  log_limit_ = spec.log_limit;
  log_ = AboveChildDescriptors(OpenLog(spec.log));
  if (log_ < 0) {
    *error = "cannot open the log " + spec.log.string() + ": " + strerrordesc_np(errno);
    return false;
  }
  log_mark_ = std::max<int64_t>(0, lseek(log_, 0, SEEK_END));
  spec.words.insert(spec.words.end(), {"--parent", std::to_string(getpid())});
  if (spec.fork) pid_ = spec.fork(spec.words, log_, spec.shared);
  if (pid_ < 0) pid_ = Spawn(std::move(spec), log_, error);
  return pid_ >= 0;
}

ChildProcess::~ChildProcess() {
  Kill();
  if (log_ >= 0) close(log_);
}

bool ChildProcess::Reap(int flags) {
  if (end_) return true;
  int status = 0;
  rusage usage{};
  const pid_t got = wait4(pid_, &status, flags, &usage);
  if (got == 0 || (got < 0 && errno == EINTR)) return false;
  ChildEnd& end = end_.emplace();
  end.most_resident = int64_t{usage.ru_maxrss} << 10;
  if (got < 0) {  // SIGCHLD is ignored: the system keeps no status
    end.how = "ended, its status unknown";
  } else if (WIFSIGNALED(status)) {
    end.status = -1;
    end.signal = WTERMSIG(status);
    const char* const name = sigdescr_np(end.signal);
    end.how = "killed by signal " + std::to_string(end.signal) + " (" + (name ? name : "unknown") + ")";
  } else {
    end.status = WEXITSTATUS(status);
    end.how = "exited with status " + std::to_string(end.status);
  }
  return true;
}

bool ChildProcess::Await(milliseconds time) {
  const Clock::time_point end = Clock::now() + time;
  for (Clock::duration pause = milliseconds(1);;
       pause = std::min<Clock::duration>(2 * pause, milliseconds(50))) {
    TrimLog();
    if (pid_ < 0 || Reap(WNOHANG)) return end_.has_value();
    const Clock::duration left = end - Clock::now();
    if (left <= Clock::duration::zero()) return false;
    std::this_thread::sleep_for(std::min(pause, left));
  }
}

void ChildProcess::Kill() {
  if (pid_ < 0) return;
  kill(-pid_, SIGKILL);
  while (!Reap(0)) {
  }
  // A process that inherits orphans (PR_SET_CHILD_SUBREAPER) has those of the group to reap as well.
  while (waitpid(-pid_, nullptr, WNOHANG) > 0) {
  }
  pid_ = -1;
}

int64_t ChildProcess::TrimLog() {
  const int64_t size = lseek(log_, 0, SEEK_END);
  if (size <= log_limit_ || ftruncate(log_, 0) != 0) return size;
  const std::string note = "[plumb: " + std::to_string(size) + " bytes of output cut here]\n";
  log_mark_ = std::max<int64_t>(0, write(log_, note.data(), note.size()));
  return log_mark_;
}

void ChildProcess::MarkLog() { log_mark_ = std::max<int64_t>(0, TrimLog()); }

std::string ChildProcess::Printed(size_t most) const {
  const int64_t size = lseek(log_, 0, SEEK_END);
  const int64_t begin = std::max<int64_t>(log_mark_, size - static_cast<int64_t>(most));
  if (begin >= size) return {};
  std::string text(static_cast<size_t>(size - begin), '\0');
  const ssize_t got = pread(log_, text.data(), text.size(), begin);
  text.resize(got > 0 ? static_cast<size_t>(got) : 0);
  text.erase(text.find_last_not_of("\n\r ") + 1);
  return text;
}

std::string ChildProcess::LastLine() const {
  std::string text = Printed(2000);
  if (text.empty()) return {};
  text.erase(0, text.rfind('\n') + 1);
  if (text.size() > 200) text.resize(200);
  // Only printable ASCII of a target's output is kept: other bytes may control a terminal or break a
  // JSON file.
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return "; its last line: " + text;
}

int AboveChildDescriptors(int descriptor) {
  if (descriptor < 0) return descriptor;
  const int raised = fcntl(descriptor, F_DUPFD_CLOEXEC, kAbove);
  close(descriptor);
  return raised;
}

bool EndWithParent(pid_t parent) {
  // The signal is requested first and the parent checked after, so that a death between the two is
  // seen.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  return getppid() == parent;
}

}  // namespace plumbline::fuzz
