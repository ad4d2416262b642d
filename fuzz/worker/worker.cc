// SPDX-License-Identifier: Apache-2.0
#include "fuzz/worker/worker.h"

#include <fcntl.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "fuzz/base/child_process.h"
#include "fuzz/base/fp_environment.h"
#include "fuzz/cases/file.h"
#include "fuzz/examine/examine.h"
#include "fuzz/gpu/production/examine_on_device.h"
#include "fuzz/infer/collect.h"
#include "fuzz/infer/infer.h"
#include "fuzz/recipe/expand/expand.h"
#include "fuzz/recipe/ordinary.h"
#include "fuzz/recipe/recipe.h"
#include "fuzz/target/catalogue.h"
#include "fuzz/target/contracts.h"
#include "fuzz/target/interface/device.h"
#include "fuzz/target/target.h"
#include "fuzz/worker/message.h"
#include "fuzz/worker/protocol.h"

namespace plumbline::fuzz {
namespace {

CaseResult Fault(std::string what) {
  CaseResult result;
  result.harness_fault = std::move(what);
  return result;
}

// Returns the bytes of address space in use; what malloc could hand out again is not counted.
int64_t HeldBytes() {
  int64_t pages = 0;
  char text[64] = "";
  const int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (file >= 0 && read(file, text, sizeof text - 1) > 0) pages = std::strtoll(text, nullptr, 10);
  if (file >= 0) close(file);
  return pages * sysconf(_SC_PAGESIZE) - static_cast<int64_t>(mallinfo2().fordblks);
}

// Reports a case for which there was no memory left; everything that examining it took has been freed.
// The target keeps the memory if most of what the process holds came with this case or a few before it.
CaseResult OutOfMemory(int64_t held_before) {
  const int64_t held = HeldBytes(), kept = held - held_before;
  if (kept < held / 2) return Fault(std::string(kOutOfMemory));
  return FailedWith(FindingKind::kStatus, kMemoryOutput,
                    "the target kept " + std::to_string(kept >> 20) +
                        " MiB of memory, and none was left to judge what it gave");
}

constexpr int kLooks = 40;
constexpr std::chrono::milliseconds kBetweenLooks{250};

// Reports a case for which there was no room on the device. The target keeps the room if nearly all of
// it went while this worker ran, and not to the harness, and does not come back in ten seconds.
// Otherwise another process has it, or the case is too large.
CaseResult NoRoom(const DeviceFull& full, Device* device, const Device::Memory& at_first) {
  static_cast<void>(device->Wait());
  device->Unmap();
  device->Trim();
  const Device::Memory now = device->GetMemory();
  const auto kept_by = [&](const Device::Memory& memory) {
    const size_t ours = memory.free + device->kept();
    return at_first.free > ours ? at_first.free - ours : 0;
  };
  // Other workers hold memory for the length of a case, a target that keeps it holds it for ever.
  size_t kept = kept_by(now);
  for (int look = 0; look < kLooks && kept / 3 >= now.total / 4; ++look) {
    std::this_thread::sleep_for(kBetweenLooks);
    kept = std::min(kept, kept_by(device->GetMemory()));
  }
  if (kept / 3 >= now.total / 4) {
    return FailedWith(FindingKind::kStatus, kMemoryOutput,
                      "the target kept " + std::to_string(kept >> 20) + " MiB; " + full.what());
  }
  CaseResult result;
  result.verdict = oracle::Verdict::kSkipped;
  result.skip_reason = full.what();
  return result;
}

CaseResult Infer(const Request& request, const Target& target, const WorkerOptions& worker) {
  RestoreFpEnvironment();
  int64_t left = 0;
  const std::vector<InferenceCase> cases =
      CollectCases(request.recipe, target, worker.same_shape,
                   std::chrono::milliseconds(request.infer_within), &left);
  RestoreFpEnvironment();
  CaseResult result;
  const std::string_view held_to = SplitTarget(worker.target).second;
  const std::string_view base = held_to.empty() ? kUndeclared : held_to;
  Inference inference = InferShortcuts(cases, base);
  inference.left = left;
  result.inference = ToJson(inference).Dump();
  return result;
}

CaseResult Serve(const Request& request, std::span<const Target* const> targets,
                 const WorkerOptions& worker) {
  if (request.infer_within > 0) return Infer(request, *targets.front(), worker);
  const bool production = worker.production;
  const auto begin = std::chrono::steady_clock::now();
  OwnedProblem problem;
  Recipe recipe;
  std::string error;
  const bool on_device = production && !request.recipe.empty();
  if (!request.recipe.empty()) {
    const int64_t most = production ? kMaxDeviceElements : kMaxElements;
    if (!Parse(request.recipe, &recipe, &error, most)) return Fault("recipe: " + error);
    if (!on_device) problem = Expand(recipe);
  } else {
    std::optional<Case> c = ParseCase(request.case_file, &error);
    if (!c) return Fault("case: " + error);
    problem = std::move(c->problem);
  }
  const std::chrono::duration<double> expanding = std::chrono::steady_clock::now() - begin;
  ExamineOptions options;
  options.seed = request.seed;
  options.arbiter = request.arbiter;
  options.arbiter_on_pass = request.arbiter_on_pass;
  options.same_shape = worker.same_shape;
  options.tell_apart = request.tell_apart;
  options.honest_errors = request.recipe.empty() ? request.honest_errors : IsOrdinary(recipe);
  options.unit_ratios = request.unit_ratios;
  RestoreFpEnvironment();
  CaseResult result = on_device ? ExamineOnDevice(recipe, targets, options)
                                : Examine(std::move(problem), targets, options);
  if (const std::string changed = FpEnvironmentFault(); !changed.empty()) {
    // The oracle ran after the target, on the same thread, so no other result of this case counts.
    result = FailedWith(FindingKind::kStatus, "",
                        "the target left the caller's floating-point environment changed: " + changed);
    result.findings.front().failure = "caller@floating-point-environment";
  }
  result.expand_seconds += expanding.count();
  return result;
}

// Limits private writable memory beyond what is there already (a sanitizer's shadow, a framework's
// arena).
void LimitMemory(int64_t memory) {
  int64_t pages[6] = {};  // proc(5), /proc/pid/statm: the sixth is data and stack
  std::ifstream statm("/proc/self/statm");
  for (int64_t& count : pages) statm >> count;
  if (!statm) return;
  const auto limit = static_cast<rlim_t>(pages[5] * sysconf(_SC_PAGESIZE) + memory);
  const rlimit data{limit, limit};
  setrlimit(RLIMIT_DATA, &data);
}

}  // namespace

ExitStatus RunWorker(const WorkerOptions& worker) {
  // Two guards end the worker with its supervisor: the end of the socket while it is idle, and a signal
  // while the target runs.
  if (!EndWithParent(worker.supervisor)) return ExitStatus::kFault;
  constexpr int socket = kSharedDescriptor;
  fcntl(socket, F_SETFD, FD_CLOEXEC);  // a target's own children must not hold the socket open

  // Cases allocate and free hundreds of kilobytes each. Returning each block to the system, and zeroing
  // pages for the next, took a twentieth of a campaign's time. At most this much is kept.
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 128 << 20);

  Hello hello;
  const std::vector<std::unique_ptr<Target>> loaded = LoadTogether(worker.target, &hello.error);
  const Target* const target = loaded.empty() ? nullptr : loaded.front().get();
  std::vector<const Target*> targets;
  for (const auto& each : loaded) targets.push_back(each.get());
  RestoreFpEnvironment();
  if (target) {
    hello.name = target->description().name;
    hello.version = target->description().version;
    hello.device = target->description().device;
    hello.description = target->description_text();
    if (worker.production) hello.error = WhyNoProduction(*target);
  } else if (hello.error.empty()) {
    hello.error = "target " + worker.target + " did not load and gave no reason";
  }
  if (SendMessage(socket, ToBytes(hello)) != MessageStatus::kOk) return ExitStatus::kFault;
  if (!hello.error.empty()) return ExitStatus::kUnavailable;
  if (worker.memory > 0 && hello.device == "cpu") LimitMemory(worker.memory);

  // The memory is measured now and then: measuring takes as long as a small case, and what a target
  // keeps adds up.
  constexpr int kLookEvery = 64;
  Device* const device = target->device();
  const Device::Memory at_first = device != nullptr ? device->GetMemory() : Device::Memory{};
  int64_t held = 0;
  for (int64_t count = 0;; ++count) {
    if (count % kLookEvery == 0) held = HeldBytes();
    std::vector<std::byte> bytes;
    const MessageStatus status = ReceiveMessage(socket, &bytes);
    if (status == MessageStatus::kClosed) return ExitStatus::kClean;
    if (status != MessageStatus::kOk) return ExitStatus::kFault;
    std::string error;
    const std::optional<Request> request = DecodeRequest(bytes, &error);
    CaseResult result;
    try {
      result = request ? Serve(*request, targets, worker) : Fault("request: " + error);
      if (device != nullptr) device->Unmap();
    } catch (const std::bad_alloc&) {
      result = OutOfMemory(held);
    } catch (const DeviceLost& lost) {
      // No call to the device will succeed in this process any more, its end included, so no destructor
      // is run. The supervisor treats it as any death (fuzz/worker/case_runner.h).
      dprintf(STDERR_FILENO, "\n%s\n", lost.what());
      _exit(kWorkerDeviceLost);
    } catch (const DeviceFull& full) {
      result = NoRoom(full, device, at_first);
    } catch (const std::runtime_error&
                 refused) {  // address space for wide strides: fuzz/examine/placement.h
      result = Fault(refused.what());
    }
    if (SendMessage(socket, ToBytes(result)) != MessageStatus::kOk) return ExitStatus::kFault;
  }
}

}  // namespace plumbline::fuzz
