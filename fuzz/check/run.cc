// SPDX-License-Identifier: Apache-2.0

#include "fuzz/check/run.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fuzz/base/fp_environment.h"
#include "fuzz/examine/device_run.h"
#include "fuzz/problem/values.h"
#include "fuzz/target/catalogue.h"
#include "fuzz/target/target.h"
#include "fuzz/worker/command.h"
#include "kernel/dtype.h"
#include "oracle/output.h"
#include "oracle/verdict/verdict.h"

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

// Gives every result its place behind the record, or none if memory is null. Returns the total size,
// which is the same in both processes.
size_t PlaceResults(void* memory, kernel::Results* results) {
  size_t size = sizeof(Record);
  for (Output o : oracle::kOutputs) {
    auto& tensor = oracle::Find(results, o);
    if (!tensor) continue;
    if (memory != nullptr) tensor->data = static_cast<std::byte*>(memory) + size;
    const size_t bytes = static_cast<size_t>(tensor->size()) * kernel::SizeOf(tensor->dtype);
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

// Returns why the target is not asked, because it does not declare something. `alike` stands for the
// problem without its weight, which would be a copy of gigabytes; NaN in the weight is not tested here.
std::optional<std::string> WhyRefused(const Target& target, const DumpSample& sample,
                                      kernel::Results* results) {
  const Capabilities& can = target.description().capabilities;
  if (!can.entropy) results->entropy.reset();
  if (!can.lse) results->lse.reset();
  if (!can.grad_hidden) results->grad_hidden.reset();
  if (!can.grad_weight) results->grad_weight.reset();

  const kernel::Problem& p = sample.problem();
  OwnedProblem alike;
  alike.hidden = HostTensor::Zeros(p.hidden.dtype, {p.rows(), p.hidden_size()});
  alike.weight = HostTensor::Zeros(p.weight.dtype, {p.vocab(), 0});
  alike.labels = GatherRows(p.labels, Iota(p.rows()));
  const auto like = [](const std::optional<kernel::ConstTensor>& from) -> std::optional<HostTensor> {
    if (!from) return std::nullopt;
    HostTensor to = GatherRows(*from, Iota(from->size()));
    if (from->rank == 0) to.shape.clear();
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
  return WhySkipped(target.description(), alike);
}

DumpRun::Kind Run(const DumpRunSpec& spec, Record* record, std::string* what) {
  const std::unique_ptr<Target> target = LoadTarget(spec.target, what);
  RestoreFpEnvironment();
  if (!target) return DumpRun::Kind::kUnavailable;
  const std::unique_ptr<Dump> dump = OpenDump(spec.dump, what, spec.vocabulary);
  if (!dump) return DumpRun::Kind::kFault;
  const DumpSample sample(*dump, ChooseRows(*dump, spec.rows, spec.seed));
  Write(target->description_text(), record->description, sizeof record->description);

  kernel::Results results = sample.Wanted();
  PlaceResults(record, &results);
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

int DumpRun::Share() {
  const int shared = memfd_create("plumb-check-results", MFD_CLOEXEC);
  if (shared >= 0 && ftruncate(shared, static_cast<off_t>(size_)) == 0) {
    memory_ = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, shared, 0);
  }
  if (memory_ == nullptr || memory_ == MAP_FAILED) {
    what_ = "cannot share memory of " + std::to_string(size_) + " bytes: " + strerrordesc_np(errno);
    memory_ = nullptr;
  }
  return shared;
}

DumpRun::DumpRun(const DumpRunSpec& spec, const DumpSample& sample, const std::atomic<bool>* interrupt)
    : results_(sample.Wanted()) {
  const Clock::time_point deadline = Clock::now() + spec.deadline;
  size_ = PlaceResults(nullptr, &results_);
  const int shared = Share();
  ChildProcess child;
  std::optional<WorkerCommand> command = CommandFor(spec.target, spec.program, &what_);
  bool started = false;
  if (memory_ != nullptr && command) {
    std::vector<std::string> words = std::move(command->words);
    for (const std::string& word :
         {std::string("check-worker"), std::string("--target"), spec.target, std::string("--dump"),
          spec.dump.string(), std::string("--rows"), std::to_string(spec.rows), std::string("--seed"),
          std::to_string(spec.seed)}) {
      words.push_back(word);
    }
    if (spec.vocabulary) {
      words.insert(words.end(), {"--vocabulary", std::to_string(*spec.vocabulary)});
    }
    started = child.Start(
        {.program = std::move(command->program), .words = std::move(words), .shared = shared}, &what_);
  }
  if (shared >= 0) close(shared);
  if (!started) return;
  PlaceResults(memory_, &results_);
  bool late = false, interrupted = false;
  while (!late && !interrupted && !child.Await(std::chrono::milliseconds(50))) {
    interrupted = interrupt != nullptr && interrupt->load();
    late = Clock::now() >= deadline;
  }
  child.Kill();
  if (interrupted) {
    kind_ = Kind::kInterrupted;
    what_ = "interrupted";
  } else if (late) {
    kind_ = Kind::kTimedOut;
    what_ = "did not come back before its deadline and was killed" + child.LastLine();
  } else {
    Conclude(child);
  }
}

// Reads the record of a child that has ended by itself.
void DumpRun::Conclude(const ChildProcess& child) {
  auto* const record = static_cast<Record*>(memory_);
  record->message[sizeof record->message - 1] = '\0';
  record->description[sizeof record->description - 1] = '\0';
  const ChildEnd& end = *child.end();
  if (end.status < 0 || record->state == 0 || record->state > 1 + static_cast<uint32_t>(Kind::kFault)) {
    kind_ = Kind::kDied;
    what_ = end.how + (end.status < 0 ? "" : " in the middle of it") + child.LastLine();
    return;
  }
  kind_ = static_cast<Kind>(record->state - 1);
  what_ = record->message;
  if (kind_ != Kind::kRan) return;
  for (Output o : oracle::kOutputs) {
    if ((record->asked >> static_cast<int>(o) & 1) == 0) oracle::Find(&results_, o).reset();
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

ExitStatus ServeDumpRun(const DumpRunSpec& spec, pid_t supervisor) {
  if (!EndWithParent(supervisor)) return ExitStatus::kFault;
  const off_t size = lseek(kSharedDescriptor, 0, SEEK_END);
  if (size < static_cast<off_t>(sizeof(Record))) return ExitStatus::kFault;
  void* const memory = mmap(nullptr, static_cast<size_t>(size), PROT_READ | PROT_WRITE, MAP_SHARED,
                            kSharedDescriptor, 0);
  close(kSharedDescriptor);  // the target must not use it
  if (memory == MAP_FAILED) return ExitStatus::kFault;
  auto* const record = new (memory) Record;
  std::string what;
  const DumpRun::Kind kind = Run(spec, record, &what);
  Write(what, record->message, sizeof record->message);
  record->state = 1 + static_cast<uint32_t>(kind);
  return ExitStatus::kClean;
}

}  // namespace plumbline::fuzz
