// SPDX-License-Identifier: Apache-2.0

#include "fuzz/placement.h"

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <new>
#include <optional>
#include <string_view>

#include "fuzz/mutation.h"
#include "fuzz/text.h"

namespace plumbline::fuzz {
namespace {

using kernel::DType;
using kernel::Reduction;

// Two bytes that repeat, low byte first, from an even address. Each is a quiet NaN in bf16, fp16 and
// fp32, none shares a byte with another, and none is the -1 that first_invalid_row legitimately holds.
using Pattern = uint16_t;
constexpr Pattern kGuard = 0xffc1;
constexpr Pattern kPoison[2] = {0xfff5, 0x7ffa};

// Around labels: as int32 and as int64 above any vocabulary, so a label read out of bounds is invalid.
// The second is for the problem whose ignore_index is the first.
constexpr Pattern kLabelGuard[2] = {0x7f7f, 0x7e7e};

constexpr size_t kAlignment = 64;
// A band holds at least this, and a whole row where rows are longer, up to a page: a kernel that runs
// one row too far then lands in the band, not in another tensor.
constexpr size_t kMinBand = 256;
constexpr size_t kMaxBand = 4096;

constexpr size_t RoundUp(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

void Fill(std::byte* begin, std::byte* end, Pattern pattern) {
  const auto length = static_cast<size_t>(end - begin);
  // Lines between padding are short and many: a loop that is vectorised, without calls.
  constexpr size_t kShort = 512;
  if (length <= kShort) {
    for (size_t done = 0; done + 2 <= length; done += 2) std::memcpy(begin + done, &pattern, 2);
    if (length % 2 != 0) begin[length - 1] = std::byte(pattern & 0xff);
    return;
  }
  const std::byte bytes[2] = {std::byte(pattern & 0xff), std::byte(pattern >> 8)};
  std::memcpy(begin, bytes, std::min<size_t>(length, 2));
  for (size_t done = 2; done < length; done *= 2) {
    std::memcpy(begin + done, begin, std::min(done, length - done));
  }
}

// [begin, end) holds the pattern from its first byte on.
bool Holds(const std::byte* begin, const std::byte* end, Pattern pattern) {
  const auto length = static_cast<size_t>(end - begin);
  const std::byte bytes[2] = {std::byte(pattern & 0xff), std::byte(pattern >> 8)};
  if (length <= 2) return std::memcmp(begin, bytes, length) == 0;
  return std::memcmp(begin, bytes, 2) == 0 && std::memcmp(begin, begin + 2, length - 2) == 0;
}

// One tensor in the arena: `lines` runs of `line_bytes` bytes, `pitch` apart, between two bands.
// Offsets count from the start of the arena. Elements are 2, 4 or 8 bytes and every offset is even, so
// patterns keep their phase everywhere.
struct Region {
  std::string_view name;
  size_t begin = 0, end = 0;  // with its bands
  size_t data = 0;            // first element
  size_t lines = 0, line_bytes = 0, pitch = 0;
  Pattern guard = kGuard;

  size_t Extent() const { return lines == 0 ? 0 : (lines - 1) * pitch + line_bytes; }

  // Calls f(from, to) for every stretch that belongs to no element.
  template <class F>
  void ForEachGap(F f) const {
    size_t from = begin;
    for (size_t i = 0; i < lines; ++i) {
      const size_t line = data + i * pitch;
      if (from < line) f(from, line);
      from = line + line_bytes;
    }
    f(from, end);
  }
};

struct Shape2 {
  int64_t lines = 0, length = 0;  // elements that lie side by side
  int64_t pitch = 0;              // elements from one line to the next
};

Shape2 MatrixShape(int64_t rows, int64_t columns, bool transposed, int64_t padding) {
  if (transposed) std::swap(rows, columns);
  return {columns == 0 ? 0 : rows, columns, columns + padding};
}

Shape2 VectorShape(int64_t n) { return {n == 0 ? 0 : 1, n, n}; }

// n elements `stride` apart; stride 0 is one element that all share.
Shape2 StridedShape(int64_t n, int64_t stride) {
  if (n == 0 || stride == 1) return VectorShape(n);
  if (stride == 0) return {1, 1, 1};
  return {n, 1, stride};
}

std::string DescribeByte(const Region& region, size_t at, std::byte was, std::byte is) {
  const size_t end = region.data + region.Extent();
  std::string where;
  if (at < region.data) {
    where = Text("%zu bytes before its first element", region.data - at);
  } else if (at >= end) {
    where = Text("%zu bytes past its end", at - end);
  } else if ((at - region.data) % region.pitch >= region.line_bytes) {
    where = Text("padding after line %zu", (at - region.data) / region.pitch);
  } else {
    where = Text("line %zu", (at - region.data) / region.pitch);
  }
  const auto offset = static_cast<int64_t>(at) - static_cast<int64_t>(region.data);
  return std::string(region.name) + Text(": byte %+lld (", static_cast<long long>(offset)) + where +
         Text(") holds 0x%02x, was 0x%02x", std::to_integer<unsigned>(is),
              std::to_integer<unsigned>(was));
}

}  // namespace

struct Placement::State {
  explicit State(const OwnedProblem& problem);
  ~State() {
    if (arena != nullptr) ::operator delete(arena, std::align_val_t(kAlignment));
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void Reserve(std::string_view name, DType dtype, const Shape2& shape, int64_t offset, bool input);
  void ReserveInputs(const OwnedProblem& p);
  void ReserveOutputs(const OwnedProblem& p);
  void CopyIn(const Region& region, const HostTensor& from, bool transposed);
  void View(const OwnedProblem& p);
  std::byte* At(const std::vector<Region>& regions, std::string_view name) const;

  // The arena: inputs, outputs, then a pristine copy of the inputs.
  std::byte* arena = nullptr;
  size_t input_bytes = 0, used = 0;
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
  Reserve("hidden", dtype, MatrixShape(p.rows(), p.hidden_size(), false, layout.hidden_padding), 0,
          true);
  Reserve("weight", dtype,
          MatrixShape(p.vocab(), p.hidden_size(), layout.weight_hidden_major, layout.weight_padding), 0,
          true);
  Reserve("labels", p.labels.dtype, VectorShape(p.rows()), layout.label_offset, true);
  const auto reads_as_ignored = [&](Pattern guard) {
    const int64_t wide = static_cast<int64_t>(guard) * 0x0001'0001'0001'0001;
    const int64_t narrow = static_cast<int64_t>(guard) * 0x0001'0001;
    return p.ignore_index == wide || p.ignore_index == narrow;
  };
  inputs.back().guard = reads_as_ignored(kLabelGuard[0]) ? kLabelGuard[1] : kLabelGuard[0];
  if (p.temperature) {
    Reserve("temperature", DType::kF32, VectorShape(p.temperature->size()), 0, true);
  }
  if (p.grad_logprob) {
    const bool scalar = p.grad_logprob->shape.empty();
    Reserve("grad_logprob", DType::kF32,
            scalar ? VectorShape(1) : StridedShape(p.rows(), layout.grad_stride), 0, true);
  }
  if (p.grad_entropy) {
    Reserve("grad_entropy", DType::kF32, StridedShape(p.rows(), layout.grad_stride), 0, true);
  }
}

void Placement::State::ReserveOutputs(const OwnedProblem& p) {
  const Layout& layout = p.layout;
  const DType grad = p.wanted.fp32_grads ? DType::kF32 : p.hidden.dtype;
  const bool reduced = p.reduction != Reduction::kNone;
  Reserve(reduced ? "loss" : "logprob", DType::kF32, VectorShape(reduced ? 1 : p.rows()), 0, false);
  if (p.wanted.entropy) Reserve("entropy", DType::kF32, VectorShape(p.rows()), 0, false);
  if (p.wanted.lse) Reserve("lse", DType::kF32, VectorShape(p.rows()), 0, false);
  if (p.wanted.grad_hidden) {
    Reserve("grad_hidden", grad, MatrixShape(p.rows(), p.hidden_size(), false, layout.hidden_padding),
            0, false);
  }
  if (p.wanted.grad_weight) {
    Reserve("grad_weight", grad,
            MatrixShape(p.vocab(), p.hidden_size(), layout.weight_hidden_major, layout.weight_padding),
            0, false);
  }
  Reserve("first_invalid_row", DType::kI64, VectorShape(1), 0, false);
}

void Placement::State::CopyIn(const Region& region, const HostTensor& from, bool transposed) {
  if (region.lines == 0) return;
  if (!transposed) {
    for (size_t i = 0; i < region.lines; ++i) {
      std::memcpy(arena + region.data + i * region.pitch, from.bytes.data() + i * region.line_bytes,
                  region.line_bytes);
    }
    return;
  }
  const size_t element = kernel::SizeOf(from.dtype), length = region.line_bytes / element;
  for (size_t i = 0; i < region.lines; ++i) {
    std::byte* line = arena + region.data + i * region.pitch;
    for (size_t j = 0; j < length; ++j) {
      std::memcpy(line + j * element, from.bytes.data() + (j * region.lines + i) * element, element);
    }
  }
}

std::byte* Placement::State::At(const std::vector<Region>& regions, std::string_view name) const {
  for (const Region& r : regions) {
    if (r.name == name) return arena + r.data;
  }
  return nullptr;
}

void Placement::State::View(const OwnedProblem& p) {
  const Layout& layout = p.layout;
  const int64_t n = p.rows(), h = p.hidden_size(), v = p.vocab();
  const int64_t hidden_ld = h + layout.hidden_padding;
  const int64_t weight_ld = (layout.weight_hidden_major ? v : h) + layout.weight_padding;
  const int64_t weight_row = layout.weight_hidden_major ? 1 : weight_ld;
  const int64_t weight_column = layout.weight_hidden_major ? weight_ld : 1;

  const auto in = [&](std::string_view name) { return static_cast<const void*>(At(inputs, name)); };
  problem.hidden = {in("hidden"), p.hidden.dtype, 2, {n, h}, {hidden_ld, 1}};
  problem.weight = {in("weight"), p.hidden.dtype, 2, {v, h}, {weight_row, weight_column}};
  problem.labels = {in("labels"), p.labels.dtype, 1, {n, 1}, {1, 1}};
  problem.ignore_index = p.ignore_index;
  problem.reduction = p.reduction;
  const auto upstream = [&](std::string_view name, const std::optional<HostTensor>& tensor,
                            int64_t stride) -> std::optional<kernel::ConstTensor> {
    if (!tensor) return std::nullopt;
    if (tensor->shape.empty()) return kernel::ConstTensor{in(name), DType::kF32, 0, {1, 1}, {1, 1}};
    return kernel::ConstTensor{in(name), DType::kF32, 1, {n, 1}, {stride, 1}};
  };
  problem.temperature = upstream("temperature", p.temperature, 1);
  problem.grad_logprob = upstream("grad_logprob", p.grad_logprob, layout.grad_stride);
  problem.grad_entropy = upstream("grad_entropy", p.grad_entropy, layout.grad_stride);

  const DType grad = p.wanted.fp32_grads ? DType::kF32 : p.hidden.dtype;
  const auto output = [&](std::string_view name, DType dtype, int rank, int64_t rows, int64_t columns,
                          int64_t row_stride, int64_t column_stride) -> std::optional<kernel::Tensor> {
    std::byte* data = At(outputs, name);
    if (data == nullptr) return std::nullopt;
    return kernel::Tensor{data, dtype, rank, {rows, columns}, {row_stride, column_stride}};
  };
  results.logprob = output("logprob", DType::kF32, 1, n, 1, 1, 1);
  results.loss = output("loss", DType::kF32, 0, 1, 1, 1, 1);
  results.entropy = output("entropy", DType::kF32, 1, n, 1, 1, 1);
  results.lse = output("lse", DType::kF32, 1, n, 1, 1, 1);
  results.grad_hidden = output("grad_hidden", grad, 2, n, h, hidden_ld, 1);
  results.grad_weight = output("grad_weight", grad, 2, v, h, weight_row, weight_column);
  results.first_invalid_row = output("first_invalid_row", DType::kI64, 0, 1, 1, 1, 1);
}

Placement::State::State(const OwnedProblem& p) {
  ReserveInputs(p);
  input_bytes = used;
  ReserveOutputs(p);
  arena = static_cast<std::byte*>(::operator new(used + input_bytes, std::align_val_t(kAlignment)));

  for (const Region& region : inputs) {
    region.ForEachGap([&](size_t from, size_t to) { Fill(arena + from, arena + to, region.guard); });
    const std::string_view name = region.name;
    const HostTensor& from = name == "hidden"         ? p.hidden
                             : name == "weight"       ? p.weight
                             : name == "labels"       ? p.labels
                             : name == "temperature"  ? *p.temperature
                             : name == "grad_logprob" ? *p.grad_logprob
                                                      : *p.grad_entropy;
    CopyIn(region, from, name == "weight" && p.layout.weight_hidden_major);
  }
  std::memcpy(arena + used, arena, input_bytes);
  View(p);
}

Placement::Placement(const OwnedProblem& problem) : state_(std::make_unique<State>(problem)) {
  Poison(0);
}

Placement::~Placement() = default;

const kernel::Problem& Placement::problem() const { return state_->problem; }
const kernel::Results& Placement::results() const { return state_->results; }

// Bands and inputs are put right as well: what one run broke is not held against the next.
void Placement::Poison(int pattern) {
  State& s = *state_;
  std::memcpy(s.arena, s.arena + s.used, s.input_bytes);
  for (const Region& region : s.outputs) {
    Fill(s.arena + region.begin, s.arena + region.end, region.guard);
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
    const std::byte* pristine = s.arena + s.used;
    if (Planted(HarnessDefect::kInputsNotCompared) ||
        std::memcmp(s.arena + region.begin, pristine + region.begin, region.end - region.begin) == 0) {
      continue;
    }
    const auto report = [&](Damage::Kind kind, size_t from, size_t to) {
      const std::byte* end = s.arena + to;
      const std::byte* at = std::mismatch(s.arena + from, s.arena + to, pristine + from).first;
      if (at == end) return false;
      const auto offset = static_cast<size_t>(at - s.arena);
      damage.push_back({kind, DescribeByte(region, offset, pristine[offset], *at)});
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
