// SPDX-License-Identifier: Apache-2.0
//
// Addresses of elements: strides of any size and sign that kernel/OPERATION.md allows change no bit.
// Huge distances need no huge memory, because a reserved range of addresses costs only the pages that
// are touched. Offsets exceed 2^31 and 2^32 elements, so that arithmetic in 32 bits leaves the range or
// reads zeros.

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "kernel/linear_cross_entropy.h"
#include "tests/kernel/test_problem.h"

namespace plumbline::kernel {
namespace {

// A range of addresses for `count` elements of a dtype, backed by memory where they are touched.
class Range {
 public:
  Range(int64_t count, DType dtype) : bytes_(static_cast<size_t>(count) * SizeOf(dtype)) {
    data_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                 -1, 0);
  }
  ~Range() {
    if (ok()) munmap(data_, bytes_);
  }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;
  bool ok() const { return data_ != MAP_FAILED; }
  std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  size_t bytes_;
  void* data_;
};

// Moves the tensors of a placed problem to ranges of their own. Each range has the stride of one
// dimension.
class Moved {
 public:
  explicit Moved(PlacedProblem* placed) : placed_(placed) {}

  // Copies inputs. A negative stride starts at the end of its range.
  template <class AnyTensor>
  void Move(AnyTensor* tensor, int dimension, int64_t stride) {
    const AnyTensor from = *tensor;
    tensor->stride[dimension] = stride;
    const int64_t columns = from.rank > 1 ? from.shape[1] : 1;
    const int64_t other = from.rank > 1 ? from.shape[1 - dimension] : 1;
    const int64_t steps = from.shape[dimension] - 1;
    const int64_t span = (stride < 0 ? -stride : stride) * steps + other;
    ranges_.push_back(std::make_unique<Range>(span, from.dtype));
    if (!ranges_.back()->ok()) {
      failed_ = true;
      *tensor = from;
      return;
    }
    const auto size = static_cast<int64_t>(SizeOf(from.dtype));
    std::byte* const start = ranges_.back()->data() + (stride < 0 ? -stride * steps * size : 0);
    for (int64_t i = 0; i < from.shape[0]; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        const auto at = [&](const AnyTensor& t) { return (i * t.stride[0] + j * t.stride[1]) * size; };
        std::memcpy(start + at(*tensor), static_cast<const std::byte*>(from.data) + at(from),
                    static_cast<size_t>(size));
      }
    }
    tensor->data = start;
  }

  // Moves everything that has rows; weight is moved along its leading dimension.
  void MoveAll(int64_t stride, bool hidden_major) {
    Problem& p = placed_->problem();
    Results& r = placed_->results();
    const int leading = hidden_major ? 1 : 0;
    Move(&p.hidden, 0, stride);
    Move(&p.weight, leading, stride);
    Move(&p.labels, 0, stride);
    Move(&*p.temperature, 0, stride);
    Move(&*p.grad_logprob, 0, stride);
    Move(&*p.grad_entropy, 0, stride);
    Move(&*r.logprob, 0, stride);
    Move(&*r.entropy, 0, stride);
    Move(&*r.lse, 0, stride);
    Move(&*r.grad_hidden, 0, stride);
    Move(&*r.grad_weight, leading, stride);
  }
  bool failed() const { return failed_; }

 private:
  PlacedProblem* placed_;
  std::vector<std::unique_ptr<Range>> ranges_;
  bool failed_ = false;
};

// Three rows, one of them ignored, and a ragged second tile.
TestValues Values(DType dtype) {
  TestValues values = TestValues::Random(dtype, 4, 70, 5, 31);
  values.temperature = {1, 0.5f, 2, 1.25f};
  values.labels[1] = values.ignore_index;
  return values;
}

struct Distance {
  const char* name;
  int64_t stride;
};
void PrintTo(const Distance& distance, std::ostream* out) { *out << distance.name; }

class Addresses : public testing::TestWithParam<Distance> {};

// Fails if any offset, of any input or output in any stage, is formed in 32 bits, signed or not, or if
// a stride is taken to be positive. One tensor at a time would not find more: they share no arithmetic.
TEST_P(Addresses, ChangeNoBit) {
  const int64_t stride = GetParam().stride;
  for (const DType dtype : {DType::kBf16, DType::kF32}) {
    const TestValues values = Values(dtype);
    const TestOutputs dense = Computed(values);
    for (const bool hidden_major : {false, true}) {
      for (const DType labels : {DType::kI32, DType::kI64}) {
        PlacedProblem placed(values, {.hidden_major = hidden_major, .label_dtype = labels});
        Moved moved(&placed);
        moved.MoveAll(stride, hidden_major);
        if (moved.failed()) GTEST_SKIP() << "addresses could not be reserved: " << std::strerror(errno);
        ASSERT_TRUE(Compute(placed).ok());
        EXPECT_TRUE(placed.Outputs() == dense) << Name(dtype) << hidden_major << Name(labels);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernel, Addresses,
                         testing::Values(Distance{"PastTwoToThe31", (int64_t{1} << 31) + 7},
                                         Distance{"PastTwoToThe32", (int64_t{1} << 32) + 6},
                                         Distance{"BytesPastTwoToThe32", (int64_t{1} << 30) + 9},
                                         Distance{"Backwards", -73},
                                         Distance{"FarBackwards", -(int64_t{1} << 32) - 6}),
                         [](const testing::TestParamInfo<Distance>& distance) {
                           return distance.param.name;
                         });

// A stride of zero in an input means one row, label or temperature for all. Fails if 0 is taken for
// "dense".
TEST(AddressesTest, ZeroStridesRepeat) {
  TestValues values = Values(DType::kF32);
  values.labels[1] = 3;
  const TestValues repeated = [&] {
    TestValues all = values;
    for (int64_t i = 0; i < all.n; ++i) {
      all.labels[static_cast<size_t>(i)] = values.labels[0];
      all.temperature[static_cast<size_t>(i)] = values.temperature[0];
      for (int64_t d = 0; d < all.h; ++d) all.Hidden(i, d) = values.Hidden(0, d);
    }
    for (int64_t v = 0; v < all.v; ++v) {
      for (int64_t d = 0; d < all.h; ++d) all.Weight(v, d) = values.Weight(0, d);
    }
    return all;
  }();
  PlacedProblem placed(values);
  placed.problem().hidden.stride[0] = placed.problem().weight.stride[0] = 0;
  placed.problem().labels.stride[0] = placed.problem().temperature->stride[0] = 0;
  ASSERT_TRUE(Compute(placed).ok());
  EXPECT_TRUE(placed.Outputs() == Computed(repeated));
}

// Labels may lie at every address that their own size allows. The buffer is aligned to more. Fails if
// labels are assumed to have more alignment.
TEST(AddressesTest, LabelsNeedTheirOwnAlignmentOnly) {
  const TestValues values = Values(DType::kBf16);
  const TestOutputs dense = Computed(values);
  for (const DType dtype : {DType::kI32, DType::kI64}) {
    for (int64_t offset = 0; offset < 8; ++offset) {
      EXPECT_TRUE(Computed(values, {.label_offset = offset, .label_dtype = dtype}) == dense) << offset;
    }
  }
}

}  // namespace
}  // namespace plumbline::kernel
