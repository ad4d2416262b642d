// SPDX-License-Identifier: Apache-2.0

#include "fuzz/examine/placement.h"
#include "fuzz/examine/output_bits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "fuzz/problem/owned_problem.h"
#include "kernel/checks.h"
#include "kernel/problem.h"

namespace plumbline::fuzz {
namespace {

using kernel::ConstTensor;
using kernel::DType;
using kernel::Reduction;
using ::testing::HasSubstr;
using Kind = Placement::Damage::Kind;

constexpr int64_t kBand = 256;  // bytes that are guarded on each side at least

// Element k of every tensor is k + 1 plus a hundred for each tensor: no two are alike, and all are
// exact in bf16 as long as there are few.
OwnedProblem Numbered(int64_t n, int64_t v, int64_t h, const Layout& layout) {
  OwnedProblem p;
  p.hidden = HostTensor::Zeros(DType::kBf16, {n, h});
  p.weight = HostTensor::Zeros(DType::kBf16, {v, h});
  p.labels = HostTensor::Zeros(DType::kI32, {n});
  p.temperature = HostTensor::Zeros(DType::kF32, {n});
  p.grad_logprob = HostTensor::Zeros(DType::kF32, {n});
  p.grad_entropy = HostTensor::Zeros(DType::kF32, {n});
  float next = 1;
  for (HostTensor* t : {&p.hidden, &p.weight, &*p.temperature, &*p.grad_logprob, &*p.grad_entropy}) {
    for (int64_t i = 0; i < t->size(); ++i) t->SetFloat(i, next++);
  }
  for (int64_t i = 0; i < n; ++i) p.labels.SetInt(i, (i * 3 + 1) % v);
  p.layout = layout;
  return p;
}

const std::vector<Layout>& Layouts() {
  static const std::vector<Layout> layouts = {
      {}, {false, 3, 5, 1, 2}, {true, 0, 0, 0, 1}, {true, 1, 7, 3, 0}, {false, 200, 300, 5, 3}};
  return layouts;
}

// The bits of element (i, j) through the strides of the view.
uint64_t BitsAt(const ConstTensor& t, int64_t i, int64_t j = 0) {
  const int64_t offset = (t.rank > 0 ? i * t.stride[0] : 0) + (t.rank > 1 ? j * t.stride[1] : 0);
  uint64_t bits = 0;
  std::memcpy(
      &bits,
      static_cast<const std::byte*>(t.data) + offset * static_cast<int64_t>(kernel::SizeOf(t.dtype)),
      kernel::SizeOf(t.dtype));
  return bits;
}

void ExpectSame(const ConstTensor& view, const HostTensor& dense) {
  ASSERT_EQ(view.rank, static_cast<int>(dense.shape.size()));
  const int64_t columns = view.rank > 1 ? view.shape[1] : 1;
  ASSERT_EQ(view.size(), dense.size());
  for (int64_t i = 0; i < view.size(); ++i) {
    ASSERT_EQ(BitsAt(view, i / columns, i % columns), dense.GetBits(i)) << "element " << i;
  }
}

// The writable address of an input's byte, through which a target misbehaves.
std::byte* Bytes(const void* data) { return static_cast<std::byte*>(const_cast<void*>(data)); }

std::vector<std::string> Lines(const Placement& placement, Kind kind) {
  std::vector<std::string> lines;
  for (const auto& damage : placement.Inspect()) {
    if (damage.kind == kind) lines.push_back(damage.what);
  }
  return lines;
}

// Fails if a layout puts an element where the strides do not find it, or the strides are not the
// layout's.
TEST(Placement, InputsAreFoundThroughTheirStrides) {
  for (const Layout& layout : Layouts()) {
    const OwnedProblem p = Numbered(3, 4, 5, layout);
    const Placement placement(p);
    const kernel::Problem& view = placement.problem();
    ExpectSame(view.hidden, p.hidden);
    ExpectSame(view.weight, p.weight);
    ExpectSame(view.labels, p.labels);
    ExpectSame(*view.temperature, *p.temperature);
    for (int64_t i = 0; i < 3; ++i) {
      const int64_t from = layout.grad_stride == 0 ? 0 : i;
      EXPECT_EQ(BitsAt(*view.grad_logprob, i), p.grad_logprob->GetBits(from));
      EXPECT_EQ(BitsAt(*view.grad_entropy, i), p.grad_entropy->GetBits(from));
    }
    EXPECT_EQ(view.hidden.stride[0], 5 + layout.hidden_padding);
    EXPECT_EQ(view.weight.stride[layout.weight_hidden_major ? 1 : 0],
              (layout.weight_hidden_major ? 4 : 5) + layout.weight_padding);
    EXPECT_EQ(view.weight.stride[layout.weight_hidden_major ? 0 : 1], 1);
    EXPECT_EQ(view.grad_logprob->stride[0], layout.grad_stride);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(view.hidden.data) % 64, 0u);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(view.weight.data) % 64, 0u);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(view.labels.data) % 64,
              static_cast<uintptr_t>(layout.label_offset) * 4);
    EXPECT_THAT(placement.Inspect(), ::testing::IsEmpty());
  }
}

// Fails if gradients are dense where they are not to be, if their rows lie last to first, or if a write
// between two elements is not seen; or if a dimension of one element has the stride of the others.
TEST(Placement, SparseGradientsAndSingleDimensions) {
  for (const bool hidden_major : {false, true}) {
    Layout layout;
    layout.reversed = true;
    layout.weight_hidden_major = hidden_major;
    layout.hidden_padding = 3;
    layout.gradient_step = 2;
    layout.single_stride = 7;
    const OwnedProblem p = Numbered(3, 4, 1, layout);
    Placement placement(p);
    EXPECT_EQ(placement.problem().hidden.stride[1], 7);
    EXPECT_EQ(placement.problem().weight.stride[1], 7);
    ExpectSame(placement.problem().hidden, p.hidden);
    ExpectSame(placement.problem().weight, p.weight);
    const kernel::Tensor& gradient = *placement.results().grad_weight;
    EXPECT_EQ(std::pair(gradient.stride[0], gradient.stride[1]), std::pair(int64_t{2}, int64_t{hidden_major ? 8 : 2}));
    const size_t width = kernel::SizeOf(gradient.dtype);
    auto* const data = static_cast<std::byte*>(gradient.data);
    placement.Poison(0);
    for (size_t i = 0; i < 4; ++i) std::memset(data + 2 * i * width, 1, width);
    EXPECT_THAT(placement.Inspect(), ::testing::IsEmpty());
    std::memset(data + width, 1, width);
    EXPECT_THAT(placement.Inspect(), ::testing::SizeIs(1));
  }
}

// Fails if a temperature's or an output's stride is not the layout's, if rows that lie last to first
// turn them around too, or if a write between two elements is not seen.
TEST(Placement, VectorsHaveTheirOwnStrides) {
  for (const bool reversed : {false, true}) {
    Layout layout;
    layout.reversed = reversed;
    layout.temperature_stride = 3;
    layout.output_stride = 2;
    const OwnedProblem p = Numbered(3, 4, 5, layout);
    Placement placement(p);
    const kernel::Problem& view = placement.problem();
    EXPECT_EQ(view.temperature->stride[0], 3);
    ExpectSame(*view.temperature, *p.temperature);
    const kernel::Results& r = placement.results();
    for (const auto* output : {&r.logprob, &r.entropy, &r.lse}) {
      if (!*output) continue;
      EXPECT_EQ((*output)->stride[0], 2);
      placement.Poison(0);
      for (int64_t i = 0; i < 3; ++i) static_cast<float*>((*output)->data)[2 * i] = 1;
      EXPECT_THAT(placement.Inspect(), ::testing::IsEmpty());
      static_cast<float*>((*output)->data)[1] = 1;
      EXPECT_EQ(Lines(placement, Kind::kGuardBand).size(), 1U);
    }
    placement.Poison(0);
    Bytes(view.temperature->data)[5] ^= std::byte{1};
    EXPECT_THAT(Lines(placement, Kind::kGuardBand), ::testing::ElementsAre(HasSubstr("temperature")));
  }
}

// Fails if outputs are present that the problem does not want, if wanted ones are not, or if the
// operator refuses their form.
TEST(Placement, OutputsAreThoseThatAreWanted) {
  for (const Layout& layout : Layouts()) {
    for (const bool reduced : {false, true}) {
      OwnedProblem p = Numbered(3, 4, 5, layout);
      p.wanted = {true, false, true, true, true};
      if (reduced) {
        p.reduction = Reduction::kSum;
        p.grad_logprob = HostTensor::Zeros(DType::kF32, {});
        p.grad_logprob->SetFloat(0, -2);
      }
      const Placement placement(p);
      const kernel::Results& r = placement.results();
      EXPECT_EQ(r.logprob.has_value(), !reduced);
      EXPECT_EQ(r.loss.has_value(), reduced);
      EXPECT_TRUE(r.entropy && r.grad_hidden && r.grad_weight && r.first_invalid_row);
      EXPECT_FALSE(r.lse);
      EXPECT_EQ(r.grad_hidden->dtype, DType::kF32);
      EXPECT_EQ(r.grad_weight->dtype, DType::kF32);
      const kernel::Problem& view = placement.problem();
      EXPECT_EQ(r.grad_hidden->stride[0], view.hidden.stride[0]);
      EXPECT_EQ(r.grad_weight->stride[0], view.weight.stride[0]);
      EXPECT_EQ(r.grad_weight->stride[1], view.weight.stride[1]);
      const kernel::Status status = kernel::Check(view, r, {true, true, true, true, true});
      EXPECT_TRUE(status.ok()) << status.message;
    }
  }
}

// Sizes of 0 give tensors without elements between their bands. Fails on a null pointer or a band lost.
TEST(Placement, EmptyTensors) {
  for (const Layout& layout : Layouts()) {
    for (const auto& [n, v, h] : {std::array<int64_t, 3>{0, 4, 5}, {3, 1, 0}, {0, 0, 5}, {0, 0, 0}}) {
      OwnedProblem p = Numbered(n, std::max<int64_t>(v, 1), h, layout);
      p.weight = HostTensor::Zeros(DType::kBf16, {v, h});
      Placement placement(p);
      EXPECT_NE(placement.problem().hidden.data, nullptr);
      EXPECT_NE(placement.results().grad_weight->data, nullptr);
      EXPECT_THAT(placement.Inspect(), ::testing::IsEmpty());
      static_cast<std::byte*>(placement.results().grad_weight->data)[0] ^= std::byte{1};
      EXPECT_EQ(Lines(placement, Kind::kGuardBand).size(), v * h == 0 ? 1u : 0u);
    }
  }
}

bool IsNaN(DType dtype, uint64_t bits) {
  if (dtype == DType::kBf16)
    return std::isnan(kernel::ToFloat(kernel::BFloat16{static_cast<uint16_t>(bits)}));
  if (dtype == DType::kF16)
    return std::isnan(kernel::ToFloat(kernel::Float16{static_cast<uint16_t>(bits)}));
  return std::isnan(std::bit_cast<float>(static_cast<uint32_t>(bits)));
}

// Out-of-bounds reads find NaN in every float dtype, before, behind and between rows. Fails if a band
// is short, or a pattern reads as a number in one dtype.
TEST(Placement, OutOfBoundsReadsFindNaN) {
  for (const DType dtype : {DType::kBf16, DType::kF16, DType::kF32}) {
    OwnedProblem p = Numbered(3, 4, 5, {false, 2, 0, 0, 2});
    p.hidden = HostTensor::Zeros(dtype, {3, 5});
    p.weight = HostTensor::Zeros(dtype, {4, 5});
    const Placement placement(p);
    const auto size = static_cast<int64_t>(kernel::SizeOf(dtype));
    ConstTensor flat = placement.problem().hidden;
    flat.rank = 1;
    flat.stride[0] = 1;
    const int64_t end = 2 * 7 + 5;
    for (int64_t i = -kBand / size; i < end + kBand / size; ++i) {
      const bool element = i >= 0 && i < end && i % 7 < 5;
      EXPECT_EQ(IsNaN(dtype, BitsAt(flat, i)), !element) << kernel::Name(dtype) << " at " << i;
    }
    ConstTensor gradient = *placement.problem().grad_logprob;
    gradient.stride[0] = 1;
    EXPECT_TRUE(IsNaN(DType::kF32, BitsAt(gradient, 1)));
    EXPECT_TRUE(IsNaN(DType::kF32, BitsAt(gradient, -1)));
  }
}

// Fails if a label read out of bounds is valid: it must never be in a vocabulary, and never the one
// that is ignored.
TEST(Placement, OutOfBoundsLabelsAreInvalid) {
  const int64_t narrow = 0x7f7f7f7f, wide = 0x7f7f7f7f7f7f7f7f;
  for (const DType dtype : {DType::kI32, DType::kI64}) {
    for (const int64_t ignore_index : {int64_t{-100}, narrow, wide}) {
      OwnedProblem p = Numbered(3, 4, 5, {});
      p.labels = HostTensor::Zeros(dtype, {3});
      p.ignore_index = ignore_index;
      const Placement placement(p);
      for (const int64_t i : {-2, -1, 3, 4}) {
        const uint64_t bits = BitsAt(placement.problem().labels, i);
        const int64_t label = dtype == DType::kI32 ? static_cast<int32_t>(static_cast<uint32_t>(bits))
                                                   : static_cast<int64_t>(bits);
        EXPECT_GT(label, int64_t{1} << 30);
        EXPECT_NE(label, ignore_index);
      }
    }
  }
}

// Fails if a poison reads as a number, shares a byte with the other (an element that is written in part
// would then look unwritten, or written), or is a value that first_invalid_row may have.
TEST(Placement, PoisonIsNaNAndDiffersInEveryByte) {
  for (const DType dtype : {DType::kBf16, DType::kF16, DType::kF32}) {
    OwnedProblem p = Numbered(2, 3, 4, {true, 1, 1, 0, 1});
    p.hidden = HostTensor::Zeros(dtype, {2, 4});
    p.weight = HostTensor::Zeros(dtype, {3, 4});
    Placement placement(p);
    placement.Poison(0);
    const OutputBits first = CopyBits(placement.results());
    placement.Poison(1);
    const OutputBits second = CopyBits(placement.results());
    const std::vector<size_t> sizes = {2, 0, 2, 2, 8, 12, 1};
    for (size_t o = 0; o < 7; ++o) {
      ASSERT_EQ(first.outputs[o].size(), sizes[o]) << "output " << o;
      const DType output = o == 6 ? DType::kI64 : o >= 4 ? dtype : DType::kF32;
      for (size_t e = 0; e < sizes[o]; ++e) {
        EXPECT_EQ(first.outputs[o][e], PoisonBits(0, kernel::SizeOf(output)));
        EXPECT_EQ(second.outputs[o][e], PoisonBits(1, kernel::SizeOf(output)));
        for (const uint64_t bits : {first.outputs[o][e], second.outputs[o][e]}) {
          if (output == DType::kI64) {
            // first_invalid_row is -1 or the index of a row; a poison is near neither.
            EXPECT_GT(std::abs(static_cast<double>(static_cast<int64_t>(bits))), 0x1p40);
          } else {
            EXPECT_TRUE(IsNaN(output, bits));
          }
        }
        for (size_t byte = 0; byte < kernel::SizeOf(output); ++byte) {
          EXPECT_NE((first.outputs[o][e] >> (8 * byte)) & 0xff,
                    (second.outputs[o][e] >> (8 * byte)) & 0xff);
        }
      }
    }
  }
}

// Changes one byte, anywhere a target must not write. Fails if a stretch of band or padding is not
// checked, if the wrong tensor is named, or if Poison leaves the damage for the next run.
TEST(Placement, EveryForbiddenByteIsSeen) {
  for (const Layout& layout : Layouts()) {
    const OwnedProblem p = Numbered(3, 4, 5, layout);
    Placement placement(p);
    const kernel::Tensor& g = *placement.results().grad_weight;
    auto* data = static_cast<std::byte*>(g.data);
    std::set<int64_t> own;
    int64_t end = 0;
    for (int64_t i = 0; i < 4; ++i) {
      for (int64_t j = 0; j < 5; ++j) {
        for (int64_t b = 0; b < 2; ++b) {
          own.insert((i * g.stride[0] + j * g.stride[1]) * 2 + b);
          end = std::max(end, *own.rbegin() + 1);
        }
      }
    }
    for (int64_t at = -kBand; at < end + kBand; ++at) {
      data[at] ^= std::byte{0x10};
      const auto damage = placement.Inspect();
      ASSERT_EQ(damage.size(), own.count(at) == 1 ? 0u : 1u) << "byte " << at;
      if (!damage.empty()) {
        EXPECT_EQ(damage[0].kind, Kind::kGuardBand);
        EXPECT_THAT(damage[0].what, HasSubstr("grad_weight: byte " + std::string(at < 0 ? "" : "+") +
                                              std::to_string(at) + " ("));
      }
      placement.Poison(at & 1);
      ASSERT_THAT(placement.Inspect(), ::testing::IsEmpty());
    }
  }
}

// Fails if a written input is not seen, is taken for a damaged band, or survives Poison.
TEST(Placement, WrittenInputsAreSeen) {
  for (const Layout& layout : Layouts()) {
    const OwnedProblem p = Numbered(3, 4, 5, layout);
    Placement placement(p);
    const kernel::Problem& view = placement.problem();
    const struct {
      const char* name;
      const ConstTensor& tensor;
      int64_t last;  // offset of the last element, in elements
    } inputs[] = {
        {"hidden", view.hidden, 2 * view.hidden.stride[0] + 4},
        {"weight", view.weight, 3 * view.weight.stride[0] + 4 * view.weight.stride[1]},
        {"labels", view.labels, 2},
        {"temperature", *view.temperature, 2},
        {"grad_logprob", *view.grad_logprob, 2 * layout.grad_stride},
        {"grad_entropy", *view.grad_entropy, 2 * layout.grad_stride},
    };
    for (const auto& input : inputs) {
      const auto size = static_cast<int64_t>(kernel::SizeOf(input.tensor.dtype));
      for (const int64_t at : {int64_t{0}, (input.last + 1) * size - 1}) {
        Bytes(input.tensor.data)[at] ^= std::byte{0x80};
        EXPECT_THAT(Lines(placement, Kind::kInputWritten), ::testing::ElementsAre(HasSubstr(input.name)));
        EXPECT_THAT(Lines(placement, Kind::kGuardBand), ::testing::IsEmpty());
        placement.Poison(0);
      }
      for (const int64_t at : {int64_t{-1}, (input.last + 1) * size}) {
        Bytes(input.tensor.data)[at] ^= std::byte{0x80};
        EXPECT_THAT(Lines(placement, Kind::kGuardBand), ::testing::ElementsAre(HasSubstr(input.name)));
        EXPECT_THAT(Lines(placement, Kind::kInputWritten), ::testing::IsEmpty());
        placement.Poison(1);
      }
      ExpectSame(view.hidden, p.hidden);
    }
  }
}

// Fails if the line does not say what was there and what is: "weight: byte +3 (line 0) holds 0x.., was
// 0x..".
TEST(Placement, DamageNamesTheByte) {
  Placement placement(Numbered(2, 3, 4, {}));
  auto* hidden = Bytes(placement.problem().hidden.data);
  hidden[1] = std::byte{0x77};
  EXPECT_THAT(Lines(placement, Kind::kInputWritten),
              ::testing::ElementsAre("hidden: byte +1 (line 0) holds 0x77, was 0x3f"));  // 1.0 is 0x3f80
  // Both kinds at once, one line each.
  hidden[-2] = std::byte{0x77};
  EXPECT_THAT(Lines(placement, Kind::kInputWritten), ::testing::SizeIs(1));
  EXPECT_THAT(
      Lines(placement, Kind::kGuardBand),
      ::testing::ElementsAre(HasSubstr("hidden: byte -2 (2 bytes before its first element) holds 0x77")));
}

}  // namespace
}  // namespace plumbline::fuzz
