// SPDX-License-Identifier: Apache-2.0

#include "tests/fuzz/honest/products.h"

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

namespace honest {
namespace {

constexpr int kMostBlock = 16;

// hi, mid and lo of an fp32 number; an infinity or NaN is its own hi.
std::array<float, 3> PlanesOf(float x) {
  if (!std::isfinite(x)) return {x, 0, 0};
  float hi = ToBf16(x);
  if (std::isinf(hi)) hi = std::copysign(0x1.fep127f, x);
  const float mid = ToBf16(x - hi);
  return {hi, mid, ToBf16((x - hi) - mid)};
}

// The exponent with which a number is aligned: a subnormal one has that of its format.
int ExponentOf(float x, int least) {
  return std::max(static_cast<int>(Bits(x) >> 23 & 255) - 127, least);
}
double PowerOfTwo(int n) { return std::bit_cast<double>(static_cast<uint64_t>(n + 1023) << 52); }

}  // namespace

// One block on a tensor core: exact products are aligned with the accumulator to the largest exponent,
// truncated there, added exactly, and the sum is truncated to fp32.
float Products::Block(const float* a, const float* b, int64_t n, float acc) const {
  std::array<double, kMostBlock> product;
  int top = ExponentOf(acc, -126);
  bool finite = std::isfinite(acc);
  // d_logits in fp32 are no numbers of the 16-bit format: both operands are then in TF32.
  const int least = fp32_ || k_.d_logits_fp32 ? -126 : least_;
  for (int64_t i = 0; i < n; ++i) {
    product[static_cast<size_t>(i)] = static_cast<double>(a[i]) * b[i];
    finite = finite && std::isfinite(a[i]) && std::isfinite(b[i]);
    if (a[i] == 0 || b[i] == 0 || !finite) continue;
    top = std::max(top, ExponentOf(a[i], least) + ExponentOf(b[i], least));
  }
  if (!finite) {
    double sum = acc;
    for (int64_t i = 0; i < n; ++i) sum += product[static_cast<size_t>(i)];
    return static_cast<float>(sum);
  }
  const int step = top - 23 - k_.extra_bits;
  const double down = PowerOfTwo(-step), up = PowerOfTwo(step);
  double sum = std::trunc(acc * down);
  for (int64_t i = 0; i < n; ++i) sum += std::trunc(product[static_cast<size_t>(i)] * down);
  return TowardZero(sum * up, 0);
}

float Products::Blocks(Operands a, Operands b, int64_t n, float acc) const {
  std::array<float, kMostBlock> x, y;
  for (int64_t first = 0; first < n; first += k_.block) {
    const int64_t count = std::min<int64_t>(k_.block, n - first);
    for (int64_t i = 0; i < count; ++i) {
      x[static_cast<size_t>(i)] = Operand(a[first + i]);
      y[static_cast<size_t>(i)] = Operand(b[first + i]);
    }
    acc = Block(x.data(), y.data(), count, acc);
  }
  return acc;
}

// Six passes over all n products, those of the smallest planes first.
float Products::Planes(Operands a, Operands b, int64_t n, float acc) const {
  thread_local std::array<std::vector<float>, 3> x, y;
  for (size_t p = 0; p < 3; ++p) {
    x[p].clear();
    y[p].clear();
  }
  for (int64_t i = 0; i < n; ++i) {
    std::array<float, 3> of_a = PlanesOf(a[i]), of_b = PlanesOf(b[i]);
    // Infinity times a plane of 0 is no product of the two numbers: a plane of the other that is 0
    // where the number is not takes no part.
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) {
      of_a = {a[i], 0, 0};
      of_b = {b[i], 0, 0};
    }
    for (size_t p = 0; p < 3; ++p) {
      x[p].push_back(of_a[p]);
      y[p].push_back(of_b[p]);
    }
  }
  constexpr std::array<std::array<size_t, 2>, 6> kPasses = {
      {{2, 0}, {0, 2}, {1, 1}, {1, 0}, {0, 1}, {0, 0}}};
  for (const auto& [of_a, of_b] : kPasses) {
    // Blocks of zeros leave the sum as it is, unless 0 meets an infinity: that is in the last pass.
    const auto is_zero = [](float plane) { return plane == 0; };
    if (of_a + of_b != 0 && (std::all_of(x[of_a].begin(), x[of_a].end(), is_zero) ||
                             std::all_of(y[of_b].begin(), y[of_b].end(), is_zero))) {
      continue;
    }
    for (int64_t first = 0; first < n; first += k_.block) {
      float block_a[kMostBlock], block_b[kMostBlock];
      const int64_t count = std::min<int64_t>(k_.block, n - first);
      for (int64_t i = 0; i < count; ++i) {
        block_a[i] = x[of_a][static_cast<size_t>(first + i)];
        block_b[i] = y[of_b][static_cast<size_t>(first + i)];
        // A smaller plane beside an infinity: 0 times it is left out.
        if (!(std::isfinite(block_a[i]) && std::isfinite(block_b[i])) && of_a + of_b != 0) {
          block_a[i] = block_b[i] = 0;
        }
      }
      acc = Block(block_a, block_b, count, acc);
    }
  }
  return acc;
}

float Products::Chain(Order order, Operands a, Operands b, int64_t n, float acc) const {
  const bool plain = k_.flush == Flush::kNone && !k_.tf32;
  if (order == Order::kFused && plain) {
    for (int64_t i = 0; i < n; ++i) acc = std::fma(a[i], b[i], acc);
    return acc;
  }
  for (int64_t k = 0; k < n; ++k) {
    const int64_t i = order == Order::kReversed ? n - 1 - k : k;
    const float x = Operand(a[i]), y = Operand(b[i]);
    acc = order == Order::kUnfused     ? fp_.Add(acc, fp_.Mul(x, y))
          : order == Order::kTruncated ? fp_.Out(TruncatedFma(x, y, fp_.In(acc)))
                                       : fp_.Fma(x, y, acc);
  }
  return acc;
}

float Products::Sum(Order order, Operands a, Operands b, int64_t n, float acc) const {
  if (order != Order::kBlocks) return Chain(order, a, b, n, acc);
  if (InPlanes()) return Planes(a, b, n, acc);
  if (fp32_ && !k_.tf32) return Chain(Order::kFused, a, b, n, acc);
  return Blocks(a, b, n, acc);
}

float Products::Logit(Order order, const float* hidden, const float* weight, int64_t n) const {
  if (k_.split == 1) return Sum(order, {hidden, 1}, {weight, 1}, n, 0);
  const int64_t each = (n + k_.split - 1) / k_.split;
  float all = 0;
  for (int64_t first = 0; first < n; first += each) {
    const int64_t count = std::min(each, n - first);
    const float sum = Sum(order, {hidden + first, 1}, {weight + first, 1}, count, 0);
    const float part = ToNarrow(sum, k_.partials);
    // A tensor core adds parts as it adds products: it truncates.
    all = first == 0 ? part : order == Order::kBlocks ? TruncatedAdd(all, part) : fp_.Add(all, part);
    all = ToNarrow(all, k_.partials);
  }
  return all;
}

int64_t Products::StretchOf(int64_t vocab) const {
  const int64_t all = (vocab + k_.stretch - 1) / k_.stretch;
  return std::max<int64_t>((all + k_.stretches - 1) / k_.stretches, 1) * k_.stretch;
}

float Products::GradHidden(Operands dz, Operands weight, int64_t vocab) const {
  const Order order = k_.gradient_order;
  const bool narrow = k_.accumulator != Narrow::kFp32;
  const int64_t chunk = InPlanes()       ? 2 * k_.block
                        : k_.stretch > 0 ? StretchOf(vocab)
                        : narrow         ? k_.vocab_chunk
                                         : vocab;
  float sum = 0;
  for (int64_t v = 0; v < vocab; v += chunk) {
    const int64_t count = std::min(chunk, vocab - v);
    if (InPlanes()) {
      sum = Sum(order, dz.From(v), weight.From(v), count, sum);
      continue;
    }
    const float part = ToNarrow(Sum(order, dz.From(v), weight.From(v), count, 0), k_.accumulator);
    sum = v == 0 ? part : ToNarrow(fp_.Add(sum, part), k_.accumulator);
  }
  return sum;
}

}  // namespace honest
