// SPDX-License-Identifier: Apache-2.0
#include "fuzz/worker/process.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <thread>
#include <utility>
#include <vector>

#include "fuzz/base/child_process.h"
#include "fuzz/base/harness_defect.h"
#include "fuzz/worker/message.h"

extern char** environ;

namespace plumbline::fuzz {
namespace {

using Clock = std::chrono::steady_clock;

// Above the descriptors that the child's are duplicated to, so that no dup2 overwrites a source.
constexpr int kLowestDescriptor = 10;

int Raise(int descriptor) {
  if (descriptor < 0) return descriptor;
  const int raised = fcntl(descriptor, F_DUPFD_CLOEXEC, kLowestDescriptor);
  close(descriptor);
  return raised;
}

int OpenLog(const std::filesystem::path& path) {
  if (!path.empty()) return open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  const int descriptor = memfd_create("plumb-worker-log", MFD_CLOEXEC);
  // The log is opened for appending, so that after a cut the next line goes to the new end and leaves
  // no hole.
  if (descriptor >= 0) fcntl(descriptor, F_SETFL, O_RDWR | O_APPEND);
  return descriptor;
}

std::string SystemError(const char* what) { return std::string(what) + ": " + strerrordesc_np(errno); }

std::string Describe(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    const int signal = WTERMSIG(wait_status);
    const char* name = sigdescr_np(signal);
    return "killed by signal " + std::to_string(signal) + " (" + (name ? name : "unknown") + ")";
  }
  std::string how = "exited with status " + std::to_string(WEXITSTATUS(wait_status));
  if (WEXITSTATUS(wait_status) == kWorkerDeviceLost) how += ", its device lost";
  return how;
}

}  // namespace

std::unique_ptr<WorkerProcess> WorkerProcess::Start(const WorkerSpec& spec,
                                                    const std::atomic<bool>* interrupt,
                                                    std::string* error) {
  std::unique_ptr<WorkerProcess> worker(new WorkerProcess);
  worker->interrupt_ = interrupt;
  worker->log_limit_ = spec.log_limit;
  worker->memory_ = spec.memory;
  if (!worker->Spawn(spec, error)) return nullptr;

  std::vector<std::byte> bytes;
  const Patience patience{Clock::now() + spec.start_timeout, [&] { return worker->KeepWaiting(); }};
  const MessageStatus status = ReceiveMessage(worker->socket_, &bytes, patience);
  if (status != MessageStatus::kOk) {
    *error = "target " + spec.target +
             ": the worker process did not get ready: " + worker->Ended(status).what;
    return nullptr;
  }
  std::optional<Hello> hello = DecodeHello(bytes, error);
  if (!hello) return nullptr;
  if (!hello->error.empty()) {
    *error = hello->error;
    return nullptr;
  }
  worker->hello_ = *std::move(hello);
  return worker;
}

bool WorkerProcess::Spawn(const WorkerSpec& spec, std::string* error) {
  log_ = Raise(OpenLog(spec.log));
  if (log_ < 0) {
    *error = SystemError(("cannot open the worker's log " + spec.log.string()).c_str());
    return false;
  }
  log_mark_ = std::max<int64_t>(0, lseek(log_, 0, SEEK_END));
  std::array<int, 2> pair;
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) != 0) {
    *error = SystemError("socketpair");
    return false;
  }
  socket_ = Raise(pair[0]);
  const int child_socket = Raise(pair[1]);

  pid_ = SpawnApart(spec.program,
                    {"plumb", "worker", "--target", spec.target, "--parent", std::to_string(getpid()),
                     "--memory", std::to_string(spec.memory)},
                    log_, child_socket, kWorkerSocket, error);
  close(child_socket);
  return pid_ >= 0;
}

WorkerProcess::~WorkerProcess() {
  if (socket_ >= 0) close(socket_);
  Kill();
  if (log_ >= 0) close(log_);
}

Answer WorkerProcess::Ask(const Request& request, std::chrono::milliseconds deadline) {
  TrimLog();
  log_mark_ = std::max<int64_t>(0, lseek(log_, 0, SEEK_END));
  const Patience patience{Clock::now() + deadline, [this] { return KeepWaiting(); }};
  MessageStatus status = SendMessage(socket_, Encode(request), patience);
  if (status != MessageStatus::kOk) return Ended(status);
  std::vector<std::byte> bytes;
  status = ReceiveMessage(socket_, &bytes, patience);
  if (status != MessageStatus::kOk) return Ended(status);
  Answer answer;
  std::string error;
  std::optional<CaseResult> result = DecodeResult(bytes, &error);
  if (!result) {
    Kill();
    return {.kind = Answer::Kind::kDied,
            .result = {},
            .what = "sent no valid reply: " + error,
            .signal = 0};
  }
  answer.result = *std::move(result);
  return answer;
}

bool WorkerProcess::KeepWaiting() {
  TrimLog();
  if (interrupt_ != nullptr && interrupt_->load()) return false;
  // A child of the target may hold the socket open after the worker's death, so the process is checked
  // too.
  return !Reap(WNOHANG);
}

bool WorkerProcess::Reap(int flags) {
  int status = 0;
  rusage usage{};
  pid_t got = 0;
  while (!wait_status_ && (got = wait4(pid_, &status, flags, &usage)) < 0 && errno == EINTR) {
  }
  if (!wait_status_ && got == pid_) {
    wait_status_ = status;
    most_resident_ = int64_t{usage.ru_maxrss} << 10;
  }
  return wait_status_.has_value();
}

std::string WorkerProcess::HowItEnded() const {
  if (!wait_status_) return "closed its connection without answering";
  std::string how = Describe(*wait_status_);
  // A process may end in any way when its allocations fail. The cause shows in its having held nearly
  // all the memory that it may have.
  if (memory_ > 0 && most_resident_ >= memory_ / 4 * 3) {
    how = "out of memory: it held " + std::to_string(most_resident_ >> 20) + " MiB where " +
          std::to_string(memory_ >> 20) + " are allowed (--worker-memory), and was " + how;
  }
  return how;
}

Answer WorkerProcess::Ended(MessageStatus status) {
  Answer answer;
  const bool interrupted = interrupt_ != nullptr && interrupt_->load();
  if (status == MessageStatus::kTimedOut) {
    Kill();
    answer.kind = Planted(HarnessDefect::kHangPasses) ? Answer::Kind::kResult : Answer::Kind::kTimedOut;
    answer.what = "did not answer before its deadline and was killed";
  } else if (status == MessageStatus::kGivenUp && interrupted && !wait_status_) {
    Kill();
    answer.kind = Answer::Kind::kInterrupted;
    answer.what = "interrupted";
    return answer;
  } else {
    // The socket ends a moment before the process can be reaped. A process that closed the socket and
    // lives on is killed.
    for (int i = 0; i < 100 && !wait_status_; ++i) {
      if (!Reap(WNOHANG)) std::this_thread::sleep_for(std::chrono::milliseconds(i < 20 ? 1 : 10));
    }
    answer.kind = Planted(HarnessDefect::kDeathPasses) ? Answer::Kind::kResult : Answer::Kind::kDied;
    answer.what = status == MessageStatus::kBroken && !wait_status_ ? "sent bytes that are no answer"
                                                                    : HowItEnded();
    if (wait_status_ && WIFSIGNALED(*wait_status_)) answer.signal = WTERMSIG(*wait_status_);
    Kill();
  }
  if (const std::string words = LastWords(); !words.empty()) answer.what += "; its last line: " + words;
  return answer;
}

void WorkerProcess::Kill() {
  if (pid_ < 0) return;
  kill(-pid_, SIGKILL);
  Reap(0);
  pid_ = -1;
}

void WorkerProcess::TrimLog() {
  const int64_t size = lseek(log_, 0, SEEK_END);
  if (size <= log_limit_) return;
  if (ftruncate(log_, 0) != 0) return;
  const std::string note = "[plumb: " + std::to_string(size) + " bytes of output cut here]\n";
  if (write(log_, note.data(), note.size()) < 0) return;
  log_mark_ = static_cast<int64_t>(note.size());
}

std::string WorkerProcess::LastWords() const {
  const int64_t size = lseek(log_, 0, SEEK_END);
  const int64_t begin = std::max<int64_t>(log_mark_, size - 2000);
  if (begin >= size) return {};
  std::string text(static_cast<size_t>(size - begin), '\0');
  const ssize_t got = pread(log_, text.data(), text.size(), begin);
  text.resize(got > 0 ? static_cast<size_t>(got) : 0);
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ' || text.back() == '\r'))
    text.pop_back();
  if (const size_t newline = text.rfind('\n'); newline != std::string::npos) text.erase(0, newline + 1);
  if (text.size() > 200) text.resize(200);
  // Only printable ASCII of a target's output is kept: other bytes may control a terminal or break a
  // JSON file.
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

}  // namespace plumbline::fuzz
