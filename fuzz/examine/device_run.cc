// SPDX-License-Identifier: Apache-2.0

#include "fuzz/examine/device_run.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "fuzz/base/harness_defect.h"
#include "fuzz/base/text.h"
#include "fuzz/target/device.h"

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
    bands_.resize(at - workspace - saved);
    size_t copied = 0;
    for (const auto& [from, to] : Bands(at)) {
      band_at_.push_back({from, to, copied});
      copied += to - from;
    }
  }

  void* workspace() const { return workspace_.bytes == 0 ? nullptr : memory_ + workspace_.begin; }
  void* saved() const { return saved_.bytes == 0 ? nullptr : memory_ + saved_.begin; }
  void FillBands() {
    for (const Band& b : band_at_) device_.Fill(memory_ + b.from, kBandByte, b.to - b.from);
  }
  void PoisonWorkspace() { Poison(workspace_); }
  void PoisonSaved() { Poison(saved_); }

  // Enqueues the copies that Inspect compares after the next Wait.
  void Fetch() {
    for (const Band& b : band_at_)
      device_.CopyOut(bands_.data() + b.copy, memory_ + b.from, b.to - b.from);
  }
  std::vector<Placement::Damage> Inspect() const {
    std::vector<Placement::Damage> damage;
    for (const Band& b : band_at_) {
      const std::byte* const begin = bands_.data() + b.copy;
      const std::byte* const end = begin + (b.to - b.from);
      const std::byte* const at =
          std::find_if(begin, end, [](std::byte held) { return held != std::byte{kBandByte}; });
      if (at == end || Planted(HarnessDefect::kScratchNotInspected)) continue;
      damage.push_back({Placement::Damage::Kind::kGuardBand,
                        Describe(b.from + static_cast<size_t>(at - begin), *at)});
    }
    return damage;
  }

 private:
  struct Buffer {
    size_t begin = 0, bytes = 0;
    size_t end() const { return begin + bytes; }
  };
  struct Band {
    size_t from = 0, to = 0, copy = 0;
  };

  std::vector<std::pair<size_t, size_t>> Bands(size_t end) const {
    return {{0, workspace_.begin}, {workspace_.end(), saved_.begin}, {saved_.end(), end}};
  }
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
  std::vector<Band> band_at_;
  std::vector<std::byte> bands_;
};

// Enqueues the target's work on tensors of its device. Wait is called after it, and then Damage.
class Call {
 public:
  explicit Call(const Target& target) : target_(target) {}

  // Allocates memory before anything is enqueued.
  void Prepare(const kernel::Problem& problem) {
    if (!target_.split()) return;
    size_t workspace = 0, saved = 0;
    const RunOutcome sized = target_.Sizes(problem, &workspace, &saved);
    if (sized.status == RunStatus::kOk) scratch_.emplace(target_.device(), workspace, saved);
  }
  RunOutcome Run(const kernel::Problem& problem, const kernel::Results& results) {
    // If sizes() refuses the problem, run() is asked as well, since it has a message.
    if (!scratch_) return target_.Run(problem, results);
    scratch_->FillBands();
    scratch_->PoisonWorkspace();
    scratch_->PoisonSaved();
    RunOutcome outcome = target_.Forward(problem, results, scratch_->workspace(), scratch_->saved());
    if (outcome.status == RunStatus::kOk && (results.grad_hidden || results.grad_weight)) {
      scratch_->PoisonWorkspace();
      outcome = target_.Backward(problem, results, scratch_->workspace(), scratch_->saved());
    }
    scratch_->Fetch();
    return outcome;
  }
  DeviceOutcome Finish(RunOutcome outcome) {
    const std::string left = target_.device()->Wait();
    if (!left.empty() && outcome.status == RunStatus::kOk &&
        !Planted(HarnessDefect::kLastErrorIgnored)) {
      outcome = {RunStatus::kFailed, "an error was left behind: " + left};
    }
    DeviceOutcome result{std::move(outcome), {}};
    if (scratch_) result.damage = scratch_->Inspect();
    target_.device()->Trim();
    return result;
  }

 private:
  const Target& target_;
  std::optional<Scratch> scratch_;
};

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

  Call call(target);
  call.Prepare(problem);
  if (held_up) device.Delay(kHeldUp);
  for (const auto& [from, to] : image.stretches) {
    device.CopyIn(arena + from, image.begin + from, to - from);
  }
  RunOutcome outcome = call.Run(problem, results);
  for (const auto& [from, to] : image.stretches) {
    device.CopyOut(image.begin + from, arena + from, to - from);
  }
  DeviceOutcome result = call.Finish(std::move(outcome));
  if (sparse) device.Unmap();
  return result;
}

DeviceOutcome RunOnDevice(const Target& target, const kernel::Problem& given,
                          const kernel::Results& wanted) {
  struct Copy {
    std::byte* host;   // lowest address of an element
    size_t bytes, at;  // length up to the end of the highest element; offset in the arena
    bool output;
  };
  std::vector<Copy> copies;
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

  Device& device = *target.device();
  std::byte* const arena = device.Keep(Device::Use::kArena, used);
  auto next = copies.begin();
  const auto move = [&](auto& tensor) {
    tensor.data = arena + next->at + (static_cast<const std::byte*>(tensor.data) - next->host);
    ++next;
  };
  ForEachInput(problem, move);
  ForEachOutput(results, move);
  Call call(target);
  call.Prepare(problem);
  for (const Copy& c : copies) {
    if (c.bytes > 0) device.CopyIn(arena + c.at, c.host, c.bytes);
  }
  RunOutcome outcome = call.Run(problem, results);
  for (const Copy& c : copies) {
    if (c.output && c.bytes > 0) device.CopyOut(c.host, arena + c.at, c.bytes);
  }
  return call.Finish(std::move(outcome));
}

}  // namespace plumbline::fuzz
