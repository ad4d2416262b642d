// SPDX-License-Identifier: Apache-2.0
#include "fuzz/worker/process.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>
#include <vector>

#include "fuzz/base/harness_defect.h"
#include "fuzz/worker/message.h"

namespace plumbline::fuzz {

std::unique_ptr<WorkerProcess> WorkerProcess::Start(const WorkerSpec& spec,
                                                    const std::atomic<bool>* interrupt,
                                                    std::string* error) {
  std::unique_ptr<WorkerProcess> worker(new WorkerProcess);
  worker->interrupt_ = interrupt;
  worker->memory_ = spec.memory;
  if (!worker->Spawn(spec, error)) return nullptr;

  std::vector<std::byte> bytes;
  const MessageStatus status =
      ReceiveMessage(worker->socket_, &bytes, worker->Until(spec.start_timeout));
  if (status != MessageStatus::kOk) {
    *error = "target " + spec.target +
             ": the worker process did not get ready: " + worker->Ended(status).what;
    return nullptr;
  }
  std::optional<Hello> hello = Decode<Hello>(bytes, error);
  if (!hello) return nullptr;
  if (!hello->error.empty()) {
    *error = hello->error;
    return nullptr;
  }
  worker->hello_ = *std::move(hello);
  return worker;
}

bool WorkerProcess::Spawn(const WorkerSpec& spec, std::string* error) {
  std::array<int, 2> pair;
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) != 0) {
    *error = std::string("socketpair: ") + strerrordesc_np(errno);
    return false;
  }
  socket_ = AboveChildDescriptors(pair[0]);
  ChildSpec child = {
      .program = spec.program,
      .words = {"plumb", "worker", "--target", spec.target, "--memory", std::to_string(spec.memory)},
      .shared = pair[1],
      .log = spec.log,
      .log_limit = spec.log_limit};
  if (spec.production) child.words.emplace_back("--production");
  if (spec.first_call.count() > 0) child.words.emplace_back("--same-shape");
  const bool started = child_.Start(child, error);
  close(pair[1]);
  return started;
}

WorkerProcess::~WorkerProcess() {
  if (socket_ >= 0) close(socket_);
}

Answer WorkerProcess::Ask(const Request& request, std::chrono::milliseconds deadline,
                          const std::function<void()>& meanwhile) {
  child_.MarkLog();
  MessageStatus status = SendMessage(socket_, Encode(request), Until(deadline));
  if (status != MessageStatus::kOk) return Ended(status);
  if (meanwhile) meanwhile();
  std::vector<std::byte> bytes;
  status = ReceiveMessage(socket_, &bytes, Until(deadline));  // `meanwhile` takes none of it
  if (status != MessageStatus::kOk) return Ended(status);
  Answer answer;
  std::string error;
  std::optional<CaseResult> result = Decode<CaseResult>(bytes, &error);
  if (!result) {
    child_.Kill();
    return {.kind = Answer::Kind::kDied,
            .result = {},
            .what = "sent no valid reply: " + error,
            .signal = 0};
  }
  answer.result = *std::move(result);
  return answer;
}

Patience WorkerProcess::Until(std::chrono::milliseconds deadline) {
  // A child of the target may hold the socket open after the worker's death, so the process is checked
  // too.
  return {std::chrono::steady_clock::now() + deadline,
          [this] { return !interrupted() && !child_.Await(std::chrono::milliseconds(0)); }};
}

std::string WorkerProcess::HowItEnded() const {
  const std::optional<ChildEnd>& end = child_.end();
  if (!end) return "closed its connection without answering";
  std::string how = end->how;
  if (end->status == kWorkerDeviceLost) how += ", its device lost";
  // A process may end in any way when its allocations fail. The cause shows in its having held nearly
  // all the memory that it may have.
  if (memory_ > 0 && end->most_resident >= memory_ / 4 * 3) {
    how = "out of memory: it held " + std::to_string(end->most_resident >> 20) + " MiB where " +
          std::to_string(memory_ >> 20) + " are allowed (--worker-memory), and was " + how;
  }
  return how;
}

Answer WorkerProcess::Ended(MessageStatus status) {
  Answer answer;
  if (status == MessageStatus::kTimedOut) {
    answer.kind = Planted(HarnessDefect::kHangPasses) ? Answer::Kind::kResult : Answer::Kind::kTimedOut;
    answer.what = "did not answer before its deadline and was killed";
  } else if (status == MessageStatus::kGivenUp && interrupted() && !child_.end()) {
    answer.kind = Answer::Kind::kInterrupted;
    answer.what = "interrupted";
  } else {
    // The socket ends a moment before the process can be reaped. A process that closed the socket and
    // lives on is killed.
    child_.Await(std::chrono::milliseconds(800));
    answer.kind = Planted(HarnessDefect::kDeathPasses) ? Answer::Kind::kResult : Answer::Kind::kDied;
    answer.what = status == MessageStatus::kBroken && !child_.end() ? "sent bytes that are no answer"
                                                                    : HowItEnded();
    if (child_.end()) answer.signal = child_.end()->signal;
  }
  child_.Kill();
  if (answer.kind != Answer::Kind::kInterrupted) answer.what += child_.LastLine();
  return answer;
}

}  // namespace plumbline::fuzz
