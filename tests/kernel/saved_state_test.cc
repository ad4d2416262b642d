// SPDX-License-Identifier: Apache-2.0
//
// The saved state says what it is (kernel/saved_header.h). Backward on the host, given a state that is
// not what Forward leaves for the same problem. The same on a device is in cuda/foreign_state_test.cc.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "kernel/linear_cross_entropy.h"
#include "kernel/saved_header.h"
#include "tests/kernel/test_problem.h"

namespace plumbline::kernel {
namespace {

// Memory of exactly this size, so that a sanitizer sees what is read beyond.
struct Memory {
  struct Free {
    void operator()(std::byte* p) const { ::operator delete (p, std::align_val_t{64}); }
  };
  explicit Memory(size_t bytes)
      : size(bytes),
        data(static_cast<std::byte*>(
            ::operator new (std::max<size_t>(bytes, 1), std::align_val_t{64}))) {
    std::memset(data.get(), 0x42, bytes);
  }
  size_t size;
  std::unique_ptr<std::byte, Free> data;
};

Sizes SizesFor(PlacedProblem& placed) {
  Sizes sizes;
  EXPECT_TRUE(GetSizes(placed.problem(), placed.results(), {}, &sizes).ok());
  return sizes;
}

Memory Saved(const TestValues& values) {
  PlacedProblem placed(values);
  const Sizes sizes = SizesFor(placed);
  const Memory workspace(sizes.workspace);
  Memory saved(sizes.saved);
  EXPECT_TRUE(
      Forward(placed.problem(), placed.results(), {}, workspace.data.get(), saved.data.get()).ok());
  return saved;
}

// Returns the gradients that Backward writes over zeros.
TestOutputs Gradients(const TestValues& values, const Memory& saved) {
  PlacedProblem placed(values);
  Results results;
  for (const auto gradient : {&Results::grad_hidden, &Results::grad_weight}) {
    const Tensor& tensor = *(results.*gradient = placed.results().*gradient);
    const auto elements = static_cast<size_t>(tensor.shape[0] * tensor.shape[1]);
    std::memset(tensor.data, 0, elements * SizeOf(tensor.dtype));
  }
  const Memory workspace(SizesFor(placed).workspace);
  const Status status = Backward(placed.problem(), results, {}, workspace.data.get(), saved.data.get());
  EXPECT_TRUE(status.ok()) << status.message;
  return placed.Outputs();
}

bool AllNaN(const std::vector<uint32_t>& bits) {
  return std::ranges::all_of(bits, [](uint32_t x) { return std::isnan(TestOutputs::Float(x)); });
}

void ExpectNaN(const TestValues& values, const Memory& saved, const std::string& what) {
  const TestOutputs found = Gradients(values, saved);
  EXPECT_TRUE(AllNaN(found.grad_hidden)) << what;
  EXPECT_TRUE(AllNaN(found.grad_weight)) << what;
}

TestValues OfRows(int64_t n, DType dtype = DType::kF32, int64_t v = 70, int64_t h = 9) {
  TestValues values = TestValues::Random(dtype, n, v, h, 1);
  values.labels[0] = values.ignore_index;
  return values;
}

// Fails if a byte of the header is not compared, if more of a foreign state is read, or if an element
// of a gradient keeps what it held: that of an ignored row, say.
TEST(SavedState, WithAnyOtherHeaderMakesEveryGradientNaN) {
  const TestValues values = OfRows(12);
  const Memory own = Saved(values);
  for (size_t at = 0; at < sizeof(SavedHeader); ++at) {
    const Memory other(sizeof(SavedHeader));
    std::memcpy(other.data.get(), own.data.get(), other.size);
    other.data.get()[at] ^= std::byte{1};
    ExpectNaN(values, other, "byte " + std::to_string(at));
  }
  for (const int fill : {0x00, 0x42, 0xff}) {
    const Memory other(sizeof(SavedHeader));
    std::memset(other.data.get(), fill, other.size);
    ExpectNaN(values, other, "filled with " + std::to_string(fill));
  }
}

// Fails if the flag is ignored on the host, also where a row is invalid, or if it is taken for granted.
TEST(SavedState, ThatIsConsumedServesOnce) {
  const TestValues values = OfRows(12);
  for (const bool consumed : {false, true}) {
    for (const bool invalid : {false, true}) {
      const Memory saved = Saved(values);
      TestValues called = values;
      if (invalid) called.labels[1] = called.v;
      PlacedProblem placed(called);
      const Memory workspace(SizesFor(placed).workspace);
      const Status status =
          Backward(placed.problem(), placed.results(), {.saved_is_consumed = consumed},
                   workspace.data.get(), saved.data.get());
      ASSERT_EQ(status.code, invalid ? Code::kInvalidData : Code::kOk) << status.message;
      const TestOutputs found = placed.Outputs();
      EXPECT_FALSE(AllNaN(found.grad_hidden));
      EXPECT_EQ(AllNaN(found.grad_weight), invalid);
      EXPECT_EQ(AllNaN(Gradients(values, saved).grad_hidden), consumed) << invalid;
    }
  }
}

// Fails if a header leaves out a size or the dtype, or if the right state is refused.
TEST(SavedState, OfAnotherProblemMakesEveryGradientNaN) {
  const TestValues values = OfRows(12);
  ExpectNaN(values, Saved(OfRows(2)), "fewer rows");
  ExpectNaN(values, Saved(OfRows(12, DType::kBf16)), "another dtype");
  ExpectNaN(values, Saved(OfRows(12, DType::kF32, 71)), "more columns");
  ExpectNaN(values, Saved(OfRows(12, DType::kF32, 70, 8)), "another hidden size");
  const TestOutputs want = Computed(values), found = Gradients(values, Saved(values));
  EXPECT_TRUE(found.grad_hidden == want.grad_hidden);
  EXPECT_TRUE(found.grad_weight == want.grad_weight);
}

// Fails if Forward writes a saved state where no gradient is asked for, and so none has a size.
TEST(SavedState, IsNotWrittenWithoutAGradient) {
  TestValues values = OfRows(12);
  values.want_backward = false;
  PlacedProblem placed(values);
  const Sizes sizes = SizesFor(placed);
  ASSERT_EQ(sizes.saved, 0u);
  const Memory workspace(sizes.workspace), memory(64);
  ASSERT_TRUE(
      Forward(placed.problem(), placed.results(), {}, workspace.data.get(), memory.data.get()).ok());
  EXPECT_TRUE(std::all_of(memory.data.get(), memory.data.get() + 64,
                          [](std::byte byte) { return byte == std::byte{0x42}; }));
}

}  // namespace
}  // namespace plumbline::kernel
