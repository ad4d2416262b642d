// SPDX-License-Identifier: Apache-2.0
//
// The Hopper path's main loop on a device, with every kind of product that uses it.

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "fuzz/builtin/mutants/table.h"
#include "kernel/dtype.h"
#include "kernel/host/simd.h"
#include "kernel/host/tensor_core.h"
#include "tests/kernel/cuda/support/product_runner.h"

namespace plumbline::kernel::cuda {
namespace {

constexpr std::array kLoops = {Loop::kLogits, Loop::kGradHidden, Loop::kGradWeight,
                               Loop::kFewRowsLogits};

class GpuHopperProducts : public testing::Test {
 protected:
  void SetUp() override {
    const std::string why = WhyNoDevice();
    if (!why.empty()) GTEST_SKIP() << why;
  }
};

// Reports the case and the first wrong element. It reports few cases, so that a broken kernel does not
// flood the log.
class Expectation {
 public:
  void Exact(const ProductCase& c) {
    if (failures_ >= 8) return;
    const Outcome outcome = RunProduct(c);
    ++runs_;
    if (outcome.error.empty() && outcome.wrong == 0) return;
    ++failures_;
    ADD_FAILURE() << Describe(c) << ": "
                  << (outcome.error.empty()
                          ? std::to_string(outcome.wrong) + " wrong, first [" +
                                std::to_string(outcome.row) + ", " + std::to_string(outcome.column) +
                                "] is " + std::to_string(outcome.got) + ", not " +
                                std::to_string(outcome.want)
                          : outcome.error);
  }
  int runs() const { return runs_; }

 private:
  int failures_ = 0, runs_ = 0;
};

// Sizes around those of a tile, a box, a fragment and a block of the depth.
constexpr std::array<int64_t, 14> kSizes = {1,   7,   63,  64,  65,  127, 128,
                                            129, 192, 193, 255, 256, 257, 1000};

// Every pair of sizes in every two dimensions, each with newly drawn options: padding, live rows, an
// alternative operand, passes, sums to add to. Fails on any tail, stride, plane or bound that is
// handled wrongly.
TEST_F(GpuHopperProducts, EveryPairOfSizesIsExact) {
  Expectation expect;
  for (const Loop loop : kLoops) {
    std::mt19937 random(1 + static_cast<unsigned>(loop));
    const auto draw = [&random](uint32_t n) { return int64_t(random() % n); };
    for (size_t i = 0; i < kSizes.size(); ++i) {
      for (size_t j = 0; j < kSizes.size(); ++j) {
        ProductCase c;
        c.loop = loop;
        c.half = (i + j) % 3 == 1;
        c.m = kSizes[i];
        c.n = kSizes[j];
        c.k = kSizes[(i + 3 * j) % kSizes.size()];
        c.a_pad = std::array{0, 0, 8, 24}[size_t(draw(4))];
        c.b_pad = std::array{0, 0, 8, 40}[size_t(draw(4))];
        c.passes = draw(3) == 0 ? 6 : 1;
        c.accumulate = IsGradHidden(loop) && draw(2) == 0;
        const int64_t bound = loop == Loop::kGradWeight ? c.k : c.m;
        c.live =
            std::array<int64_t, 8>{-1, -1, 0, 1, 100, bound / 2, bound, bound + 300}[size_t(draw(8))];
        c.live_first = draw(3) == 0 ? 50 : 0;
        c.alternative =
            std::array{ProductCase::kNone, ProductCase::kNotUsed, ProductCase::kUsed}[size_t(draw(3))];
        const int64_t which = draw(3);
        c.a_has_alternative = which != 1;
        c.b_has_alternative = which != 2;
        c.seed = random();
        expect.Exact(c);
      }
    }
  }
  EXPECT_EQ(expect.runs(), int64_t{kLoops.size()} * 14 * 14);
}

// A depth of 0 stores zeros, or the sums that were there before. Fails if nothing is stored, or if
// earlier sums are lost.
TEST_F(GpuHopperProducts, NoDepthStoresZeros) {
  Expectation expect;
  for (const Loop loop : kLoops) {
    for (const bool accumulate : {false, true}) {
      ProductCase c;
      c.loop = loop;
      c.m = 300;
      c.n = 200;
      c.k = 0;
      c.accumulate = accumulate && IsGradHidden(loop);
      expect.Exact(c);
      c.k = 200;
      c.live = 0;
      expect.Exact(c);
    }
  }
}

// Stretches of the depth, of which the last one is shorter, or the only one, together or in turn; a
// cluster has one tile, two, or an odd number. Fails if a stretch is left out or counted twice, if it
// goes past its end, if the warpgroups disagree about the stages of one, or if one of a tile is
// added before the stretch before it.
TEST_F(GpuHopperProducts, OfStretchesTheyAreExact) {
  Expectation expect;
  uint64_t seed = 1;
  for (const int64_t m : {1, 100, 385, 3000, 9000}) {
    for (const int64_t n : {128, 300, 1000}) {
      for (const int64_t k : {64, 100, 640, 1337, 5000}) {
        for (const int64_t stretch : {64, 192, 768}) {
          ProductCase c;
          c.loop = Loop::kGradHidden;
          c.half = seed % 3 == 0;
          c.m = m;
          c.n = n;
          c.k = k;
          c.stretch = stretch;
          c.in_turn = seed % 3 != 1;
          c.passes = seed % 5 == 0 ? 6 : 1;
          c.accumulate = seed % 2 == 0;
          c.live = seed % 4 == 0 ? m / 2 : -1;
          c.seed = seed++;
          expect.Exact(c);
        }
      }
    }
  }
}

// Many tiles a block, an odd number of them below each other, and many rounds of the ring. Fails if the
// ring's parity is lost.
TEST_F(GpuHopperProducts, ManyTilesAreExact) {
  Expectation expect;
  for (const Loop loop : kLoops) {
    for (const int64_t live : {int64_t{-1}, int64_t{2077}}) {
      ProductCase c;
      c.loop = loop;
      c.m = 256 * 13 - 3;
      c.n = 192 * 41 + 5;
      c.k = 1337;
      c.live = loop == Loop::kGradWeight && live >= 0 ? 1111 : live;
      expect.Exact(c);
      c.half = true;
      c.m = 8448;
      c.n = 2304;
      c.k = 776;
      expect.Exact(c);
    }
  }
}

// Fails if a tile of a head is dealt again, or one is left out, by the thread that fetches or by either
// warpgroup, which must all agree. With all rows and 132 multiprocessors the heads are 9 clusters of 7
// rounds and 60 of 19, and twice more than the 1281 tiles there are; without a depth there are none.
TEST_F(GpuHopperProducts, DealtUnevenlyTheyAreExact) {
  Expectation expect;
  ProductCase c;
  c.loop = Loop::kGradWeight;
  c.m = 192 * 61;
  c.n = 256 * 21;
  c.k = 2100;
  for (const auto& [rows, columns] : {std::pair{256, 256}, {90, 1900}, {700, 4000}, {2100, 5376}}) {
    c.unit_rows = rows;
    c.unit_columns = columns;
    for (const int64_t live : {2100, 1050, 0}) {
      c.live = live;
      expect.Exact(c);
    }
  }
}

// With a counter that is too low every cluster polls as often as it may, with one that is too high none
// polls. Fails if a wait has no end, or if a result depends on the counter.
TEST_F(GpuHopperProducts, AWrongCounterChangesNoBit) {
  Expectation expect;
  for (const Loop loop : kLoops) {
    for (const int32_t begun : {-1'000'000, -1, 1, 1'000'000}) {
      ProductCase c;
      c.loop = loop;
      c.m = 256 * 13 - 3;
      c.n = 192 * 41 + 5;
      c.k = 333;
      c.begun = begun;
      expect.Exact(c);
    }
  }
}

// An operand of more than 2^31 elements, with a row whose offset is past 2^32 bytes.
ProductCase Huge() {
  ProductCase c;
  c.m = 70000;
  c.n = 8;
  c.k = 32768;
  return c;
}

// Fails if an element or an offset of such an operand is indexed in 31 or 32 bits.
TEST_F(GpuHopperProducts, MoreThan31BitsOfElementsAreExact) {
  Expectation expect;
  expect.Exact(Huge());
}

ProductCase Sized(Loop loop, int64_t m, int64_t n, int64_t k) {
  ProductCase c;
  c.loop = loop;
  c.m = m;
  c.n = n;
  c.k = k;
  return c;
}

// Fails if these tests could not see one of the mutants of this main loop, with operands of either
// major order. A hook of the path itself is not in a main loop.
TEST_F(GpuHopperProducts, EveryMutantShows) {
  for (size_t row = 0; row < fuzz::kMutants.size(); ++row) {
    const fuzz::MutantRow& mutant = fuzz::kMutants[row];
    if (mutant.path != fuzz::MutantPath::kCudaHopper || mutant.hook.starts_with("Path::")) continue;
    for (const Loop loop : {Loop::kLogits, Loop::kGradWeight}) {
      ProductCase c = Sized(loop, 256 * 26, 192 * 16, 777);
      if (mutant.hook == "RowCoordinate") {
        if (loop != Loop::kLogits) continue;
        c = Sized(loop, 70000, 8, 64);
      }
      c.mutant = static_cast<int>(row);
      const Outcome outcome = RunProduct(c);
      EXPECT_EQ(outcome.error, "") << mutant.name << " " << Describe(c);
      EXPECT_GT(outcome.wrong, 0) << mutant.name << " " << Describe(c);
    }
  }
}

// Draws finite floats of a wide range of exponents, so that the order of additions shows in the last
// bits.
std::vector<float> Wide(std::mt19937* random, int64_t count, DType dtype) {
  std::vector<float> values(static_cast<size_t>(count));
  for (float& x : values) {
    const auto draw = [random] { return static_cast<uint32_t>((*random)()); };
    const uint32_t exponent = 127 - 8 + draw() % 16;
    x = std::bit_cast<float>((draw() & 0x807fffff) | exponent << 23);
    if (dtype == DType::kBf16) x = ToFloat(ToBFloat16(x));
    if (dtype == DType::kF16) x = ToFloat(ToFloat16(x));
  }
  return values;
}

// Returns the operand's bits, [planes][rows, depth]: hi = bf16(x), mid, lo, and hi once more as the raw
// plane.
std::vector<uint16_t> Bits(const std::vector<float>& values, DType dtype) {
  std::vector<uint16_t> bits;
  if (dtype == DType::kF16) {
    for (const float x : values) bits.push_back(std::bit_cast<uint16_t>(ToFloat16(x)));
    return bits;
  }
  if (dtype == DType::kBf16) {
    for (const float x : values) bits.push_back(std::bit_cast<uint16_t>(ToBFloat16(x)));
    return bits;
  }
  std::array<std::vector<uint16_t>, 3> planes;
  for (const float x : values) {
    const float hi = ToFloat(ToBFloat16(x)), mid = ToFloat(ToBFloat16(x - hi));
    planes[2].push_back(std::bit_cast<uint16_t>(ToBFloat16(x)));
    planes[1].push_back(std::bit_cast<uint16_t>(ToBFloat16(x - hi)));
    planes[0].push_back(std::bit_cast<uint16_t>(ToBFloat16(x - hi - mid)));
  }
  for (const int plane : {0, 1, 2, 2}) {
    bits.insert(bits.end(), planes[size_t(plane)].begin(), planes[size_t(plane)].end());
  }
  return bits;
}

// Returns A B^T as the host's model of the tensor cores computes it, starting from `before`.
std::vector<float> Model(const std::vector<float>& a, const std::vector<float>& b, int64_t m, int64_t n,
                         int64_t k, DType dtype, const std::vector<float>& before) {
  const int64_t panels = (n + host::kPanel - 1) / host::kPanel, width = panels * host::kPanel;
  std::vector<float> storage(size_t(width * k) + 16, 0.0f), c(size_t(m * width), 0.0f);
  float* packed = storage.data();
  while (reinterpret_cast<uintptr_t>(packed) % 64 != 0) ++packed;
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t i = 0; i < k; ++i)
      packed[(j / host::kPanel * k + i) * host::kPanel + j % host::kPanel] = b[size_t(j * k + i)];
  }
  for (int64_t i = 0; i < m && !before.empty(); ++i) {
    for (int64_t j = 0; j < n; ++j) c[size_t(i * width + j)] = before[size_t(i * n + j)];
  }
  for (int pass = 0; pass < host::TensorCorePasses(dtype); ++pass) {
    host::TensorCoreProducts(
        {a.data(), k, packed, k, m, panels, c.data(), width, !before.empty() || pass > 0}, dtype, pass);
  }
  std::vector<float> sums;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) sums.push_back(c[size_t(i * width + j)]);
  }
  return sums;
}

// The contract is one chain in ascending k through one accumulator, passes in their order, and the same
// bits in every loop. Fails if a loop takes the depth in another order or in more than one accumulator.
TEST_F(GpuHopperProducts, SumsAreTheModelsBits) {
  std::mt19937 random(7);
  for (const DType dtype : {DType::kBf16, DType::kF16, DType::kF32}) {
    const int64_t m = 70, n = 201, k = 333;
    const std::vector<float> a = Wide(&random, m * k, dtype), b = Wide(&random, n * k, dtype);
    for (const Loop loop : kLoops) {
      for (const bool accumulate : {false, true}) {
        if (accumulate && !IsGradHidden(loop)) continue;
        ProductCase c = Sized(loop, m, n, k);
        c.half = dtype == DType::kF16;
        c.passes = host::TensorCorePasses(dtype);
        const std::vector<float> before =
            accumulate ? Wide(&random, m * n, DType::kF32) : std::vector<float>();
        std::vector<float> sums;
        ASSERT_EQ(Multiply(c, Bits(a, dtype), Bits(b, dtype), before, &sums), "") << Describe(c);
        const std::vector<float> want = Model(a, b, m, n, k, dtype, before);
        int64_t wrong = 0;
        for (size_t i = 0; i < want.size(); ++i)
          wrong += std::bit_cast<uint32_t>(sums[i]) != std::bit_cast<uint32_t>(want[i]) ? 1 : 0;
        EXPECT_EQ(wrong, 0) << Describe(c) << " of " << want.size();
      }
    }
  }
}

}  // namespace
}  // namespace plumbline::kernel::cuda
