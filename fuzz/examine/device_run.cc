// SPDX-License-Identifier: Apache-2.0

#include "fuzz/examine/device_run.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "fuzz/base/harness_defect.h"
#include "fuzz/base/text.h"
#include "fuzz/target/interface/device.h"

namespace plumbline::fuzz {
namespace {

constexpr size_t kLine = 256;  // the alignment of cudaMalloc
constexpr size_t kBand = 4096;
// kBandByte is neither a byte of the poison nor one of a small number.
constexpr unsigned char kBandByte = 0xa5, kPoisonByte = 0xff;
// Long compared with a launch and a small kernel, short compared with a case.
constexpr std::chrono::microseconds kHeldUp{200};

size_t RoundUpToLine(size_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

// Calls f(name, view) for every tensor that is there.
template <class F>
void ForEachInput(kernel::Problem& p, F f) {
  f(p.hidden);
  f(p.weight);
  f(p.labels);
  for (auto* tensor : {&p.temperature, &p.grad_logprob, &p.grad_entropy}) {
    if (*tensor) f(**tensor);
  }
}
template <class F>
void ForEachOutput(kernel::Results& r, F f) {
  for (auto* tensor : {&r.logprob, &r.loss, &r.entropy, &r.lse, &r.grad_hidden, &r.grad_weight,
                       &r.first_invalid_row}) {
    if (*tensor) f(**tensor);
  }
}

// The scratch memory: band, workspace, band, saved state, band. Each buffer begins on a multiple of
// kLine; the band behind it begins with the next byte.
class Scratch {
 public:
  Scratch(Device* device, size_t workspace, size_t saved) : device_(*device) {
    size_t at = kBand;
    for (Buffer* buffer : {&workspace_, &saved_}) {
      buffer->bytes = buffer == &workspace_ ? workspace : saved;
      buffer->begin = at;
      if (buffer->bytes > SIZE_MAX / 4) throw DeviceFull(buffer->bytes, 0, device_.GetMemory().total);
      at = RoundUpToLine(at + buffer->bytes + kBand);
    }
    memory_ = device_.Keep(Device::Use::kScratch, at);
    for (const auto& [from, to] : {std::pair(size_t{0}, workspace_.begin),
                                   {workspace_.end(), saved_.begin},
                                   {saved_.end(), at}}) {
      bands_.push_back({from, std::vector<std::byte>(to - from)});
    }
  }

  void* workspace() const { return workspace_.bytes == 0 ? nullptr : memory_ + workspace_.begin; }
  void* saved() const { return saved_.bytes == 0 ? nullptr : memory_ + saved_.begin; }
  void FillBands() {
    for (const Band& b : bands_) device_.Fill(memory_ + b.from, kBandByte, b.held.size());
  }
  void PoisonWorkspace() { Poison(workspace_); }
  void PoisonSaved() { Poison(saved_); }

  // Enqueues the copies that Inspect compares after the next Wait.
  void Fetch() {
    for (Band& b : bands_) device_.CopyOut(b.held.data(), memory_ + b.from, b.held.size());
  }
  std::vector<Placement::Damage> Inspect() const {
    std::vector<Placement::Damage> damage;
    for (const Band& b : bands_) {
      const auto at =
          std::ranges::find_if(b.held, [](std::byte held) { return held != std::byte{kBandByte}; });
      if (at == b.held.end() || Planted(HarnessDefect::kScratchNotInspected)) continue;
      damage.push_back({Placement::Damage::Kind::kGuardBand,
                        Describe(b.from + static_cast<size_t>(at - b.held.begin()), *at)});
    }
    return damage;
  }

 private:
  struct Buffer {
    size_t begin = 0, bytes = 0;
    size_t end() const { return begin + bytes; }
  };
  struct Band {
    size_t from = 0;
    std::vector<std::byte> held;  // as Fetch found it
  };

  void Poison(const Buffer& buffer) {
    if (buffer.bytes > 0) device_.Fill(memory_ + buffer.begin, kPoisonByte, buffer.bytes);
  }
  // A damaged byte between the two buffers is reported relative to the nearer one.
  std::string Describe(size_t at, std::byte held) const {
    const bool first = at < workspace_.end() + kBand / 2;
    const Buffer& buffer = first ? workspace_ : saved_;
    const std::string name = first ? "workspace" : "saved state";
    const std::string place = at < buffer.begin ? Text("byte %zu before its start", buffer.begin - at)
                                                : Text("byte +%zu past its end", at - buffer.end());
    return name + Text(" of %zu bytes: ", buffer.bytes) + place +
           Text(" holds 0x%02x, was 0x%02x", static_cast<unsigned>(held), unsigned{kBandByte});
  }

  Device& device_;
  Buffer workspace_, saved_;
  std::byte* memory_ = nullptr;
  std::vector<Band> bands_;
};

// Memory of the host, and where its copy lies in the arena of the device.
struct Copy {
  std::byte* host;
  size_t bytes, at;
  bool back;  // copied back after the run
};

// Enqueues the scratch memory's bands and poisons, and the target's work.
RunOutcome Enqueue(const Target& target, const kernel::Problem& problem, const kernel::Results& results,
                   std::optional<Scratch>& scratch) {
  // If sizes() refuses the problem, run() is asked as well, since it has a message.
  if (!scratch) return target.Run(problem, results);
  scratch->FillBands();
  scratch->PoisonWorkspace();
  scratch->PoisonSaved();
  RunOutcome outcome = target.Forward(problem, results, scratch->workspace(), scratch->saved());
  if (outcome.status == RunStatus::kOk && (results.grad_hidden || results.grad_weight)) {
    scratch->PoisonWorkspace();
    outcome = target.Backward(problem, results, scratch->workspace(), scratch->saved());
  }
  scratch->Fetch();
  return outcome;
}

// Runs the target on tensors of its device, for which `copies` are made in `arena`.
DeviceOutcome RunOnCopies(const Target& target, bool held_up, std::byte* arena,
                          const std::vector<Copy>& copies, const kernel::Problem& problem,
                          const kernel::Results& results) {
  Device& device = *target.device();
  // Memory is allocated before anything is enqueued.
  std::optional<Scratch> scratch;
  size_t workspace = 0, saved = 0;
  if (target.split() && target.Sizes(problem, &workspace, &saved).status == RunStatus::kOk) {
    scratch.emplace(&device, workspace, saved);
  }
  if (held_up) device.Delay(kHeldUp);
  for (const Copy& c : copies) {
    if (c.bytes > 0) device.CopyIn(arena + c.at, c.host, c.bytes);
  }
  DeviceOutcome result{Enqueue(target, problem, results, scratch), {}};
  for (const Copy& c : copies) {
    if (c.back && c.bytes > 0) device.CopyOut(c.host, arena + c.at, c.bytes);
  }
  const std::string left = device.Wait();
  if (!left.empty() && result.run.status == RunStatus::kOk &&
      !Planted(HarnessDefect::kLastErrorIgnored)) {
    result.run = {RunStatus::kFailed, "an error was left behind: " + left};
  }
  if (scratch) result.damage = scratch->Inspect();
  device.Trim();
  return result;
}

}  // namespace

DeviceOutcome RunOnDevice(const Target& target, bool held_up, Placement* placement) {
  Device& device = *target.device();
  const Placement::Image image = placement->GetImage();
  const bool sparse = image.stretches.size() > 1;
  std::byte* const arena = sparse ? device.MapSparse(image.bytes, image.stretches)
                                  : device.Keep(Device::Use::kArena, image.bytes);
  kernel::Problem problem = placement->problem();
  kernel::Results results = placement->results();
  const auto move = [&](auto& tensor) {
    tensor.data = arena + (static_cast<const std::byte*>(tensor.data) - image.begin);
  };
  ForEachInput(problem, move);
  ForEachOutput(results, move);

  std::vector<Copy> copies;
  for (const auto& [from, to] : image.stretches) {
    copies.push_back({image.begin + from, to - from, from, true});
  }
  return RunOnCopies(target, held_up, arena, copies, problem, results);
}

DeviceOutcome RunOnDevice(const Target& target, const kernel::Problem& given,
                          const kernel::Results& wanted) {
  std::vector<Copy> copies;  // from a tensor's lowest address to the end of its highest element
  size_t used = 0;
  const auto note = [&](const auto& tensor, bool output) {
    int64_t lowest = 0, highest = 0;  // elements from data
    for (int d = 0; d < tensor.rank; ++d) {
      const int64_t reach = (std::max<int64_t>(tensor.shape[d], 1) - 1) * tensor.stride[d];
      (reach < 0 ? lowest : highest) += reach;
    }
    const auto size = static_cast<int64_t>(kernel::SizeOf(tensor.dtype));
    auto* const data = const_cast<std::byte*>(static_cast<const std::byte*>(tensor.data));
    const size_t bytes = tensor.size() == 0 ? 0 : static_cast<size_t>((highest - lowest + 1) * size);
    copies.push_back({bytes == 0 ? data : data + lowest * size, bytes, used, output});
    used += RoundUpToLine(std::max<size_t>(bytes, 1));
  };
  kernel::Problem problem = given;
  kernel::Results results = wanted;
  ForEachInput(problem, [&](const auto& tensor) { note(tensor, false); });
  ForEachOutput(results, [&](const auto& tensor) { note(tensor, true); });

  std::byte* const arena = target.device()->Keep(Device::Use::kArena, used);
  auto next = copies.begin();
  const auto move = [&](auto& tensor) {
    tensor.data = arena + next->at + (static_cast<const std::byte*>(tensor.data) - next->host);
    ++next;
  };
  ForEachInput(problem, move);
  ForEachOutput(results, move);
  return RunOnCopies(target, false, arena, copies, problem, results);
}

}  // namespace plumbline::fuzz
