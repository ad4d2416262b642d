// SPDX-License-Identifier: Apache-2.0

#include "fuzz/check/run.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <thread>
#include <vector>

#include "fuzz/base/child_process.h"
#include "fuzz/base/fp_environment.h"
#include "fuzz/builtin/catalogue.h"
#include "fuzz/examine/device_run.h"
#include "fuzz/target/target.h"
#include "kernel/dtype.h"
#include "oracle/judge/verdict.h"
#include "oracle/output.h"

extern char** environ;

namespace plumbline::fuzz {
namespace {

using Clock = std::chrono::steady_clock;
using oracle::Output;

// The head of the shared memory. The child writes it; it is read after the child's end.
struct Record {
  uint32_t state = 0;  // 1 + DumpRun::Kind; 0: not reached
  uint32_t asked = 0;  // bit o: Output o was asked of the target
  char message[4096] = {};
  char description[(1 << 16) - 8 - 4096] = {};
};
static_assert(sizeof(Record) == 1 << 16);
constexpr size_t kAlignment = 64;

void Write(std::string_view text, char* to, size_t capacity) {
  const size_t length = std::min(text.size(), capacity - 1);
  std::memcpy(to, text.data(), length);
  to[length] = '\0';
}

std::optional<kernel::Tensor>* Find(kernel::Results* results, Output output) {
  return const_cast<std::optional<kernel::Tensor>*>(&oracle::Find(*results, output));
}

// Gives every result its place behind the record, or none if memory is null. Returns the total size,
// which is the same in both processes.
size_t Place(void* memory, kernel::Results* results) {
  size_t size = sizeof(Record);
  for (Output o : oracle::kOutputs) {
    auto* const tensor = Find(results, o);
    if (!*tensor) continue;
    if (memory != nullptr) (*tensor)->data = static_cast<std::byte*>(memory) + size;
    const size_t bytes = static_cast<size_t>((*tensor)->size()) * kernel::SizeOf((*tensor)->dtype);
    size += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  return size;
}

// Fills with NaN of every dtype, so that an element that is not written fails.
void Poison(const kernel::Results& results) {
  for (Output o : oracle::kOutputs) {
    const auto& tensor = oracle::Find(results, o);
    if (!tensor) continue;
    std::memset(tensor->data, 0xff,
                static_cast<size_t>(tensor->size()) * kernel::SizeOf(tensor->dtype));
  }
}

std::string Ending(int wait_status) {
  if (!WIFSIGNALED(wait_status)) {
    return "exited with status " + std::to_string(WEXITSTATUS(wait_status)) + " in the middle of it";
  }
  const char* name = sigdescr_np(WTERMSIG(wait_status));
  return "killed by signal " + std::to_string(WTERMSIG(wait_status)) + " (" +
         (name != nullptr ? name : "unknown") + ")";
}

// Returns the last line that the child printed, as printable ASCII: other bytes may control a terminal.
std::string LastWords(int log) {
  const off_t size = lseek(log, 0, SEEK_END);
  const off_t begin = std::max<off_t>(0, size - 2000);
  std::string text(static_cast<size_t>(size - begin), '\0');
  const ssize_t got = pread(log, text.data(), text.size(), begin);
  text.resize(got > 0 ? static_cast<size_t>(got) : 0);
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  if (const size_t newline = text.rfind('\n'); newline != std::string::npos) text.erase(0, newline + 1);
  if (text.size() > 200) text.resize(200);
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return text.empty() ? text : "; its last line: " + text;
}

// Returns why the target is not asked, because it does not declare something. `alike` stands for the
// problem without its weight, which would be a copy of gigabytes; NaN in the weight is not tested here.
std::optional<std::string> WhyRefused(const Target& target, const DumpSample& sample,
                                      kernel::Results* results) {
  Capabilities can = target.description().capabilities;
  if (!can.entropy) results->entropy.reset();
  if (!can.lse) results->lse.reset();
  if (!can.grad_hidden) results->grad_hidden.reset();
  if (!can.grad_weight) results->grad_weight.reset();

  const kernel::Problem& p = sample.problem();
  OwnedProblem alike;
  alike.hidden = HostTensor::Zeros(p.hidden.dtype, {p.rows(), p.hidden_size()});
  alike.weight = HostTensor::Zeros(p.weight.dtype, {p.vocab(), 0});
  alike.labels = HostTensor::Zeros(p.labels.dtype, {p.rows()});
  for (int64_t i = 0; i < p.rows(); ++i) alike.labels.SetInt(i, oracle::ReadInt(p.labels, i));
  const auto like = [](const std::optional<kernel::ConstTensor>& from) -> std::optional<HostTensor> {
    if (!from) return std::nullopt;
    HostTensor to = HostTensor::Zeros(from->dtype, std::vector(from->shape, from->shape + from->rank));
    for (int64_t i = 0; i < to.size(); ++i) {
      to.SetFloat(i, static_cast<float>(oracle::ReadElement(*from, i, 0)));
    }
    return to;
  };
  alike.temperature = like(p.temperature);
  alike.grad_logprob = like(p.grad_logprob);
  alike.grad_entropy = like(p.grad_entropy);
  alike.ignore_index = p.ignore_index;
  alike.reduction = p.reduction;
  alike.wanted = {results->entropy.has_value(), results->lse.has_value(),
                  results->grad_hidden.has_value(), results->grad_weight.has_value(),
                  results->grad_hidden && results->grad_hidden->dtype == kernel::DType::kF32};
  Description description = target.description();
  description.capabilities = can;
  return WhySkipped(description, alike);
}

DumpRun::Kind Run(const DumpRunSpec& spec, Record* record, std::string* what) {
  const std::unique_ptr<Target> target = LoadTarget(spec.target, what);
  RestoreFpEnvironment();
  if (!target) return DumpRun::Kind::kUnavailable;
  const std::unique_ptr<Dump> dump = OpenDump(spec.dump, what);
  if (!dump) return DumpRun::Kind::kFault;
  const DumpSample sample(*dump, ChooseRows(*dump, spec.rows, spec.seed));
  Write(target->description_text(), record->description, sizeof record->description);

  kernel::Results results = sample.Wanted();
  Place(record, &results);
  Poison(results);
  if (const auto why = WhyRefused(*target, sample, &results)) {
    *what = *why;
    return DumpRun::Kind::kRefused;
  }
  for (Output o : oracle::kOutputs) {
    if (oracle::Find(results, o)) record->asked |= uint32_t{1} << static_cast<int>(o);
  }
  RunOutcome outcome;
  try {
    if (target->device() == nullptr) {
      outcome = target->Run(sample.problem(), results);
    } else {
      DeviceOutcome there = RunOnDevice(*target, sample.problem(), results);
      outcome = std::move(there.run);
      if (outcome.status == RunStatus::kOk && !there.damage.empty()) {
        outcome = {RunStatus::kFailed, std::move(there.damage.front().what)};
      }
    }
  } catch (const DeviceLost& lost) {
    outcome = {RunStatus::kFailed, lost.what()};
  } catch (const DeviceFull& full) {
    outcome = {RunStatus::kUnsupported, full.what()};
  }
  *what = outcome.message;
  switch (outcome.status) {
    case RunStatus::kOk:
      return DumpRun::Kind::kRan;
    case RunStatus::kFailed:
      return DumpRun::Kind::kFailed;
    default:
      return DumpRun::Kind::kRefused;
  }
}

}  // namespace

// A running process and its outcome.
struct DumpRun::Child {
  pid_t pid = -1;
  int memory = -1, log = -1;
  int wait_status = 0;
  bool late = false, interrupted = false;

  ~Child() {
    if (memory >= 0) close(memory);
    if (log >= 0) close(log);
  }
  bool Start(const DumpRunSpec& spec, std::string* error);
  void Wait(Clock::time_point deadline, const std::atomic<bool>* interrupt);
};

bool DumpRun::Child::Start(const DumpRunSpec& spec, std::string* error) {
  pid = SpawnApart(spec.program,
                   {"plumb", "check-worker", "--target", spec.target, "--dump", spec.dump.string(),
                    "--rows", std::to_string(spec.rows), "--seed", std::to_string(spec.seed),
                    "--parent", std::to_string(getpid())},
                   log, memory, kDumpRunMemory, error);
  return pid >= 0;
}

void DumpRun::Child::Wait(Clock::time_point deadline, const std::atomic<bool>* interrupt) {
  auto pause = std::chrono::milliseconds(1);
  while (waitpid(pid, &wait_status, WNOHANG) == 0) {
    interrupted = interrupt != nullptr && interrupt->load();
    late = Clock::now() >= deadline;
    if (interrupted || late) {
      kill(-pid, SIGKILL);
      while (waitpid(pid, &wait_status, 0) < 0 && errno == EINTR) {
      }
      return;
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::milliseconds(50));
  }
  kill(-pid, SIGKILL);  // its own children too
}

DumpRun::DumpRun(const DumpRunSpec& spec, const DumpSample& sample, const std::atomic<bool>* interrupt)
    : results_(sample.Wanted()) {
  const Clock::time_point deadline = Clock::now() + spec.deadline;
  size_ = Place(nullptr, &results_);
  Child child;
  child.memory = memfd_create("plumb-check-results", MFD_CLOEXEC);
  child.log = memfd_create("plumb-check-log", MFD_CLOEXEC);
  if (child.log >= 0) fcntl(child.log, F_SETFL, O_RDWR | O_APPEND);
  if (child.memory < 0 || child.log < 0 || ftruncate(child.memory, static_cast<off_t>(size_)) != 0) {
    what_ = "cannot share memory of " + std::to_string(size_) + " bytes: " + strerrordesc_np(errno);
    return;
  }
  memory_ = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, child.memory, 0);
  if (memory_ == MAP_FAILED) {
    what_ = "cannot map memory of " + std::to_string(size_) + " bytes: " + strerrordesc_np(errno);
    memory_ = nullptr;
    return;
  }
  Place(memory_, &results_);
  if (!child.Start(spec, &what_)) return;
  child.Wait(deadline, interrupt);
  Conclude(child);
}

void DumpRun::Conclude(const Child& child) {
  auto* const record = static_cast<Record*>(memory_);
  record->message[sizeof record->message - 1] = '\0';
  record->description[sizeof record->description - 1] = '\0';
  if (child.interrupted) {
    kind_ = Kind::kInterrupted;
    what_ = "interrupted";
  } else if (child.late) {
    kind_ = Kind::kTimedOut;
    what_ = "did not come back before its deadline and was killed" + LastWords(child.log);
  } else if (!WIFEXITED(child.wait_status) || record->state == 0 ||
             record->state > 1 + static_cast<uint32_t>(Kind::kFault)) {
    kind_ = Kind::kDied;
    what_ = Ending(child.wait_status) + LastWords(child.log);
  } else {
    kind_ = static_cast<Kind>(record->state - 1);
    what_ = record->message;
  }
  if (kind_ != Kind::kRan) return;
  for (Output o : oracle::kOutputs) {
    if ((record->asked >> static_cast<int>(o) & 1) == 0) Find(&results_, o)->reset();
  }
  std::string why;
  if (const auto description = ParseDescription(record->description, &why)) {
    description_ = *description;
  } else {
    kind_ = Kind::kFault;
    what_ = "what the target says of itself did not survive: " + why;
  }
}

DumpRun::~DumpRun() {
  if (memory_ != nullptr) munmap(memory_, size_);
}

int ServeDumpRun(const DumpRunSpec& spec, pid_t supervisor) {
  constexpr int kFault = 3;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != supervisor) return kFault;
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  const off_t size = lseek(kDumpRunMemory, 0, SEEK_END);
  if (size < static_cast<off_t>(sizeof(Record))) return kFault;
  void* const memory =
      mmap(nullptr, static_cast<size_t>(size), PROT_READ | PROT_WRITE, MAP_SHARED, kDumpRunMemory, 0);
  close(kDumpRunMemory);  // the target must not use it
  if (memory == MAP_FAILED) return kFault;
  auto* const record = new (memory) Record;
  std::string what;
  const DumpRun::Kind kind = Run(spec, record, &what);
  Write(what, record->message, sizeof record->message);
  record->state = 1 + static_cast<uint32_t>(kind);
  return 0;
}

}  // namespace plumbline::fuzz
