// SPDX-License-Identifier: Apache-2.0

#include "fuzz/examine/placement.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <initializer_list>
#include <new>
#include <optional>
#include <stdexcept>
#include <string_view>

#include "fuzz/base/harness_defect.h"
#include "fuzz/base/text.h"
#include "fuzz/examine/pattern.h"
#include "fuzz/examine/placement_region.h"
#include "fuzz/examine/placement_shapes.h"

namespace plumbline::fuzz {
namespace {

using kernel::DType;
using kernel::Reduction;

// Like kGuard (fuzz/examine/placement_region.h), these are NaN and share no byte.
constexpr Pattern kPoison[2] = {0xfff5, 0x7ffa};

// The patterns around labels are above any vocabulary as int32 and as int64, so a label read out of
// bounds is invalid. The second is used if the problem's ignore_index is the first.
constexpr Pattern kLabelGuard[2] = {0x7f7f, 0x7e7e};

// From this size on memory is mapped, not allocated, so that untouched pages cost nothing.
constexpr size_t kMapFrom = size_t{1} << 30;

}  // namespace

struct Placement::State {
  // The inputs as they were before the run. Bytes `from` to `to`, counted from the start of the arena,
  // are kept `copy` bytes from the start of the copies.
  struct Stretch {
    size_t from = 0, to = 0, copy = 0;
  };

  explicit State(const OwnedProblem& problem);
  ~State() {
    if (mapped) {
      munmap(arena, total);
    } else if (arena != nullptr) {
      ::operator delete(arena, std::align_val_t(kAlignment));
    }
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void Reserve(std::string_view name, DType dtype, const Shape2& shape, int64_t offset, bool input);
  void ReserveInputs(const OwnedProblem& p);
  void ReserveOutputs(const OwnedProblem& p);
  void Keep();
  void Allocate();
  void CopyIn(const Region& region, const HostTensor& from, bool transposed);
  void View(const OwnedProblem& p);
  std::byte* At(const std::vector<Region>& regions, std::string_view name) const;
  // Temperatures, the outputs by row and gradients without dense rows keep their order.
  bool Reversed(const Region& r) const {
    const bool gradient = r.name == "grad_hidden" || r.name == "grad_weight";
    return reversed && r.name != "temperature" && r.name != "logprob" && r.name != "entropy" &&
           r.name != "lse" && !(gradient && sparse_gradients);
  }
  // Returns the kept copy of the byte at `offset` of the inputs; the copy continues to the end of its
  // stretch.
  const std::byte* Pristine(size_t offset) const;

  // The arena: inputs, outputs, then copies of what the inputs held.
  std::byte* arena = nullptr;
  bool mapped = false, reversed = false, sparse_gradients = false;
  size_t used = 0, total = 0;
  std::vector<Stretch> kept;
  std::vector<Region> inputs, outputs;
  kernel::Problem problem;
  kernel::Results results;
};

void Placement::State::Reserve(std::string_view name, DType dtype, const Shape2& shape, int64_t offset,
                               bool input) {
  const size_t element = kernel::SizeOf(dtype);
  Region r;
  r.name = name;
  r.lines = static_cast<size_t>(shape.lines);
  r.line_bytes = static_cast<size_t>(shape.length) * element;
  r.pitch = static_cast<size_t>(shape.pitch) * element;
  const size_t band = RoundUp(std::clamp(r.pitch, kMinBand, kMaxBand));
  r.begin = used;
  r.data = used + band + static_cast<size_t>(offset) * element;
  r.end = RoundUp(r.data + r.Extent() + band);
  used = r.end;
  (input ? inputs : outputs).push_back(r);
}

void Placement::State::ReserveInputs(const OwnedProblem& p) {
  const Layout& layout = p.layout;
  const DType dtype = p.hidden.dtype;
  const int64_t hidden_rows = layout.hidden_broadcast ? std::min<int64_t>(p.rows(), 1) : p.rows();
  Reserve("hidden", dtype, MatrixShape(hidden_rows, p.hidden_size(), false, layout.hidden_padding),
          layout.offset, true);
  Reserve("weight", dtype,
          MatrixShape(p.vocab(), p.hidden_size(), layout.weight_hidden_major, layout.weight_padding),
          layout.offset, true);
  Reserve("labels", p.labels.dtype, StridedShape(p.rows(), layout.label_stride, layout.reversed),
          layout.label_offset, true);
  const auto reads_as_ignored = [&](Pattern guard) {
    const int64_t wide = static_cast<int64_t>(guard) * 0x0001'0001'0001'0001;
    const int64_t narrow = static_cast<int64_t>(guard) * 0x0001'0001;
    return p.ignore_index == wide || p.ignore_index == narrow;
  };
  inputs.back().guard = reads_as_ignored(kLabelGuard[0]) ? kLabelGuard[1] : kLabelGuard[0];
  if (p.temperature) {
    const int64_t stride = p.temperature->shape.empty() ? 1 : layout.temperature_stride;
    Reserve("temperature", DType::kF32, StridedShape(p.temperature->size(), stride, false),
            layout.offset, true);
  }
  if (p.grad_logprob) {
    const bool scalar = p.grad_logprob->shape.empty();
    Reserve("grad_logprob", DType::kF32,
            scalar ? VectorShape(1) : StridedShape(p.rows(), layout.grad_stride, layout.reversed),
            layout.offset, true);
  }
  if (p.grad_entropy) {
    Reserve("grad_entropy", DType::kF32, StridedShape(p.rows(), layout.grad_stride, layout.reversed),
            layout.offset, true);
  }
}

void Placement::State::ReserveOutputs(const OwnedProblem& p) {
  const Layout& layout = p.layout;
  const DType grad = p.wanted.fp32_grads ? DType::kF32 : p.hidden.dtype;
  const bool reduced = p.reduction != Reduction::kNone;
  const Shape2 by_row = StridedShape(p.rows(), layout.output_stride, false);
  Reserve(reduced ? "loss" : "logprob", DType::kF32, reduced ? VectorShape(1) : by_row, layout.offset,
          false);
  if (p.wanted.entropy) Reserve("entropy", DType::kF32, by_row, layout.offset, false);
  if (p.wanted.lse) Reserve("lse", DType::kF32, by_row, layout.offset, false);
  const int64_t h = p.hidden_size(), step = layout.gradient_step;
  if (p.wanted.grad_hidden) {
    Reserve("grad_hidden", grad,
            step > 1 ? StridedShape(p.rows() * h, step, false)
                     : MatrixShape(p.rows(), h, false, layout.hidden_padding),
            layout.offset, false);
  }
  if (p.wanted.grad_weight) {
    Reserve("grad_weight", grad,
            step > 1 ? StridedShape(p.vocab() * h, step, false)
                     : MatrixShape(p.vocab(), h, layout.weight_hidden_major, layout.weight_padding),
            layout.offset, false);
  }
  if (p.wanted.first_invalid_row) {
    Reserve("first_invalid_row", DType::kI64, VectorShape(1), 0, false);
  }
}

void Placement::State::Keep() {
  size_t copied = 0;
  for (const Region& region : inputs) {
    region.ForEachKept([&](size_t from, size_t to) {
      if (!kept.empty() && kept.back().to == from) {
        kept.back().to = to;
      } else {
        kept.push_back({from, to, copied});
      }
      copied += to - from;
    });
  }
  total = used + copied;
}

const std::byte* Placement::State::Pristine(size_t offset) const {
  const auto after = std::upper_bound(kept.begin(), kept.end(), offset,
                                      [](size_t at, const Stretch& s) { return at < s.from; });
  const Stretch& stretch = *(after - 1);
  return arena + used + stretch.copy + (offset - stretch.from);
}

void Placement::State::Allocate() {
  if (total < kMapFrom) {
    arena = static_cast<std::byte*>(::operator new(total, std::align_val_t(kAlignment)));
    return;
  }
  // Mapped as shared, though with no other process: a limit on data (fuzz/worker/worker.h) counts
  // private mappings in full, but shared ones by the pages that are touched.
  void* const memory =
      mmap(nullptr, total, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    throw std::runtime_error(
        Text("placement: %zu bytes of address space, for the strides asked for: ", total) +
        std::strerror(errno));
  }
  arena = static_cast<std::byte*>(memory);
  mapped = true;
}

void Placement::State::CopyIn(const Region& region, const HostTensor& from, bool transposed) {
  if (region.lines == 0) return;
  const bool last_first = Reversed(region);
  if (!transposed) {
    for (size_t i = 0; i < region.lines; ++i) {
      const size_t line = last_first ? region.lines - 1 - i : i;
      std::memcpy(arena + region.data + line * region.pitch, from.bytes.data() + i * region.line_bytes,
                  region.line_bytes);
    }
    return;
  }
  const size_t element = kernel::SizeOf(from.dtype), length = region.line_bytes / element;
  for (size_t i = 0; i < region.lines; ++i) {
    std::byte* line = arena + region.data + (last_first ? region.lines - 1 - i : i) * region.pitch;
    for (size_t j = 0; j < length; ++j) {
      std::memcpy(line + j * element, from.bytes.data() + (j * region.lines + i) * element, element);
    }
  }
}

std::byte* Placement::State::At(const std::vector<Region>& regions, std::string_view name) const {
  for (const Region& r : regions) {
    if (r.name == name) {
      return arena + r.data + (Reversed(r) && r.lines > 0 ? (r.lines - 1) * r.pitch : 0);
    }
  }
  return nullptr;
}

void Placement::State::View(const OwnedProblem& p) {
  const Layout& layout = p.layout;
  const int64_t n = p.rows(), h = p.hidden_size(), v = p.vocab();
  const int64_t sign = layout.reversed ? -1 : 1;
  const int64_t hidden_ld = sign * (h + layout.hidden_padding);
  const int64_t weight_ld = sign * ((layout.weight_hidden_major ? v : h) + layout.weight_padding);
  const int64_t weight_row = layout.weight_hidden_major ? 1 : weight_ld;
  const int64_t weight_column = layout.weight_hidden_major ? weight_ld : 1;

  const auto in = [&](std::string_view name) { return static_cast<const void*>(At(inputs, name)); };
  problem.hidden = {
      in("hidden"), p.hidden.dtype, 2, {n, h}, {layout.hidden_broadcast ? 0 : hidden_ld, 1}};
  problem.weight = {in("weight"), p.hidden.dtype, 2, {v, h}, {weight_row, weight_column}};
  for (kernel::ConstTensor* matrix : {&problem.hidden, &problem.weight}) {
    for (int d = 0; d < 2 && layout.single_stride != 1; ++d) {
      if (matrix->shape[d] == 1) matrix->stride[d] = layout.single_stride;
    }
  }
  problem.labels = {in("labels"), p.labels.dtype, 1, {n, 1}, {sign * layout.label_stride, 1}};
  problem.ignore_index = p.ignore_index;
  problem.reduction = p.reduction;
  const auto upstream = [&](std::string_view name, const std::optional<HostTensor>& tensor,
                            int64_t stride) -> std::optional<kernel::ConstTensor> {
    if (!tensor) return std::nullopt;
    if (tensor->shape.empty()) return kernel::ConstTensor{in(name), DType::kF32, 0, {1, 1}, {1, 1}};
    return kernel::ConstTensor{in(name), DType::kF32, 1, {n, 1}, {stride, 1}};
  };
  problem.temperature = upstream("temperature", p.temperature, layout.temperature_stride);
  problem.grad_logprob = upstream("grad_logprob", p.grad_logprob, sign * layout.grad_stride);
  problem.grad_entropy = upstream("grad_entropy", p.grad_entropy, sign * layout.grad_stride);

  const DType grad = p.wanted.fp32_grads ? DType::kF32 : p.hidden.dtype;
  const auto output = [&](std::string_view name, DType dtype, int rank, int64_t rows, int64_t columns,
                          int64_t row_stride, int64_t column_stride) -> std::optional<kernel::Tensor> {
    std::byte* data = At(outputs, name);
    if (data == nullptr) return std::nullopt;
    return kernel::Tensor{data, dtype, rank, {rows, columns}, {row_stride, column_stride}};
  };
  results.logprob = output("logprob", DType::kF32, 1, n, 1, layout.output_stride, 1);
  results.loss = output("loss", DType::kF32, 0, 1, 1, 1, 1);
  results.entropy = output("entropy", DType::kF32, 1, n, 1, layout.output_stride, 1);
  results.lse = output("lse", DType::kF32, 1, n, 1, layout.output_stride, 1);
  results.grad_hidden = output("grad_hidden", grad, 2, n, h, hidden_ld, 1);
  results.grad_weight = output("grad_weight", grad, 2, v, h, weight_row, weight_column);
  if (const int64_t step = layout.gradient_step; step > 1) {
    const auto place = [&](std::optional<kernel::Tensor>* to, int64_t row, int64_t column) {
      if (!*to) return;
      (*to)->stride[0] = step * row;
      (*to)->stride[1] = step * column;
    };
    place(&results.grad_hidden, h, 1);
    place(&results.grad_weight, layout.weight_hidden_major ? 1 : h, layout.weight_hidden_major ? v : 1);
  }
  results.first_invalid_row = output("first_invalid_row", DType::kI64, 0, 1, 1, 1, 1);
}

Placement::State::State(const OwnedProblem& p)
    : reversed(p.layout.reversed), sparse_gradients(p.layout.gradient_step > 1) {
  ReserveInputs(p);
  ReserveOutputs(p);
  Keep();
  Allocate();

  for (const Region& region : inputs) {
    region.ForEachGap([&](size_t from, size_t to) { Fill(arena + from, arena + to, region.guard); });
  }
  auto region = inputs.begin();  // in the order of ForEachTensor
  ForEachTensor(p, [&](std::string_view name, const HostTensor* from) {
    if (from != nullptr) CopyIn(*region++, *from, name == "weight" && p.layout.weight_hidden_major);
  });
  for (const Stretch& s : kept) std::memcpy(arena + used + s.copy, arena + s.from, s.to - s.from);
  View(p);
}

Placement::Placement(const OwnedProblem& problem) : state_(std::make_unique<State>(problem)) {
  Poison(0);
}

Placement::~Placement() = default;

const kernel::Problem& Placement::problem() const { return state_->problem; }
const kernel::Results& Placement::results() const { return state_->results; }

Placement::Image Placement::GetImage() {
  const State& s = *state_;
  Image image{s.arena, s.used, {}};
  for (const std::vector<Region>* regions : {&s.inputs, &s.outputs}) {
    for (const Region& region : *regions) {
      region.ForEachKept([&](size_t from, size_t to) {
        if (!image.stretches.empty() && image.stretches.back().second == from) {
          image.stretches.back().second = to;
        } else {
          image.stretches.emplace_back(from, to);
        }
      });
    }
  }
  return image;
}

// Restores guard bands and inputs as well, so that one run's damage is not reported for the next.
void Placement::Poison(int pattern) {
  State& s = *state_;
  for (const State::Stretch& kept : s.kept) {
    std::memcpy(s.arena + kept.from, s.arena + s.used + kept.copy, kept.to - kept.from);
  }
  for (const Region& region : s.outputs) {
    region.ForEachKept(
        [&](size_t from, size_t to) { Fill(s.arena + from, s.arena + to, region.guard); });
    for (size_t i = 0; i < region.lines; ++i) {
      std::byte* line = s.arena + region.data + i * region.pitch;
      Fill(line, line + region.line_bytes, kPoison[pattern & 1]);
    }
  }
}

std::vector<Placement::Damage> Placement::Inspect() const {
  const State& s = *state_;
  std::vector<Damage> damage;
  for (const Region& region : s.inputs) {
    bool same = true;
    region.ForEachKept([&](size_t from, size_t to) {
      same = same && std::memcmp(s.arena + from, s.Pristine(from), to - from) == 0;
    });
    if (same || Planted(HarnessDefect::kInputsNotCompared)) continue;
    const auto report = [&](Damage::Kind kind, size_t from, size_t to) {
      const auto [at, was] = std::mismatch(s.arena + from, s.arena + to, s.Pristine(from));
      if (at == s.arena + to) return false;
      const auto offset = static_cast<size_t>(at - s.arena);
      damage.push_back({kind, DescribeByte(region, offset, *was, *at)});
      return true;
    };
    bool reported = false;
    region.ForEachGap([&](size_t from, size_t to) {
      reported = reported || report(Damage::Kind::kGuardBand, from, to);
    });
    reported = false;
    for (size_t i = 0; i < region.lines && !reported; ++i) {
      const size_t line = region.data + i * region.pitch;
      reported = report(Damage::Kind::kInputWritten, line, line + region.line_bytes);
    }
  }
  for (const Region& region : s.outputs) {
    bool reported = false;
    region.ForEachGap([&](size_t from, size_t to) {
      if (reported || Holds(s.arena + from, s.arena + to, region.guard)) return;
      if (Planted(HarnessDefect::kOneSidedGuard) && from < region.data) return;
      reported = true;
      const std::byte expected[2] = {std::byte(region.guard & 0xff), std::byte(region.guard >> 8)};
      size_t at = from;
      while (s.arena[at] == expected[(at - from) % 2]) ++at;
      damage.push_back(
          {Damage::Kind::kGuardBand, DescribeByte(region, at, expected[(at - from) % 2], s.arena[at])});
    });
  }
  return damage;
}

uint64_t PoisonBits(int pattern, size_t width) {
  const uint64_t twice = kPoison[pattern & 1] * uint64_t{0x0001'0001'0001'0001};
  return width >= 8 ? twice : twice & ((uint64_t{1} << (8 * width)) - 1);
}

}  // namespace plumbline::fuzz
