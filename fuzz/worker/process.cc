// SPDX-License-Identifier: Apache-2.0
#include "fuzz/worker/process.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fuzz/base/harness_defect.h"
#include "fuzz/base/text.h"
#include "fuzz/target/catalogue.h"
#include "fuzz/worker/command.h"
#include "fuzz/worker/fork_server.h"
#include "fuzz/worker/message.h"

namespace plumbline::fuzz {

namespace {

// The time that a Python function which declares nothing has to be tried (fuzz/PYTHON.md). A compiler
// may run for each of some 50 questions.
constexpr std::chrono::milliseconds kTrying = std::chrono::minutes(20);

constexpr size_t kMostStack = 16384;  // faulthandler prints at most 100 frames of a thread

// Returns "; Fatal Python error: Aborted in f, mine.py:3" if an interpreter printed its stack before it
// died (Python's faulthandler); else an empty text.
std::string PythonStack(std::string_view printed) {
  constexpr std::string_view kFatal = "Fatal Python error: ", kFile = "  File \"";
  const size_t fatal = printed.rfind(kFatal);
  if (fatal == printed.npos) return {};
  const auto line_at = [&](size_t begin) {
    return printed.substr(begin, std::min(printed.find('\n', begin), printed.size()) - begin);
  };
  std::string text = "; " + std::string(line_at(fatal));
  const size_t current = printed.find("(most recent call first)", fatal);
  const size_t file = current == printed.npos ? current : printed.find(kFile, current);
  if (file != printed.npos) text += " at " + std::string(line_at(file + 2));
  return Abridged(text);
}

}  // namespace

std::unique_ptr<WorkerProcess> WorkerProcess::Start(const WorkerSpec& spec,
                                                    const std::atomic<bool>* interrupt,
                                                    std::string* error) {
  std::unique_ptr<WorkerProcess> worker(new WorkerProcess);
  worker->interrupt_ = interrupt;
  worker->memory_ = spec.memory;
  if (!worker->Spawn(spec, error)) return nullptr;

  std::vector<std::byte> bytes;
  const MessageStatus status =
      ReceiveMessage(worker->socket_, &bytes,
                     worker->Until(IsPython(spec.target) ? std::max(spec.start_timeout, kTrying)
                                                         : spec.start_timeout));
  if (status != MessageStatus::kOk) {
    const Answer ended = worker->Ended(status);
    *error = "target " + spec.target + ": the worker process did not get ready: " + ended.what;
    // An interpreter that ends by itself before it has loaded a target leaves a traceback.
    if (IsPython(spec.target) && ended.kind == Answer::Kind::kDied && ended.signal == 0 &&
        worker->child_.Printed(kMostStack).find("Traceback (") == std::string::npos) {
      *error += "; its program is " + worker->program_ + " (--python, or " + kPythonVariable +
                "): is it a Python interpreter?";
    }
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
  const std::optional<WorkerCommand> command = CommandFor(spec.target, spec.program, error);
  if (!command) return false;
  program_ = command->program.string();
  std::array<int, 2> pair;
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) != 0) {
    *error = std::string("socketpair: ") + strerrordesc_np(errno);
    return false;
  }
  socket_ = AboveChildDescriptors(pair[0]);
  ChildSpec child = {.program = command->program,
                     .words = command->words,
                     .shared = pair[1],
                     .log = spec.log,
                     .log_limit = spec.log_limit};
  for (const std::string& word : {std::string("worker"), std::string("--target"), spec.target,
                                  std::string("--memory"), std::to_string(spec.memory)}) {
    child.words.push_back(word);
  }
  if (spec.production) child.words.emplace_back("--production");
  if (spec.first_call.count() > 0) child.words.emplace_back("--same-shape");
  if (IsPython(spec.target)) {
    child.fork = [&](const std::vector<std::string>& words, int log, int shared) {
      const auto own = static_cast<std::ptrdiff_t>(command->words.size());
      return ForkServer::Of(spec.target, *command)
          .Fork({words.begin() + own, words.end()}, log, shared);
    };
  }
  const bool started = child_.Start(std::move(child), error);
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
  if (answer.kind == Answer::Kind::kInterrupted) return answer;
  const std::string stack = PythonStack(child_.Printed(kMostStack));
  answer.what += stack.empty() ? child_.LastLine() : stack;
  return answer;
}

}  // namespace plumbline::fuzz
