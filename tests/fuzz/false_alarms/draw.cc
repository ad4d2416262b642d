// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/false_alarms/draw.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "fuzz/base/mix.h"
#include "fuzz/problem/narrow.h"

namespace plumbline::false_alarms {
namespace {

using fuzz::HostTensor, fuzz::Mix, kernel::DType;

constexpr double kMultiplyAdds = 1e6;
constexpr float kLogitSpread = 2.56F, kHidden = 2;
constexpr size_t kQuantiles = 65536;

// The normal distribution at (i + 1/2) / 65536, by bisection of erfc: 2 ms.
std::vector<float> NormalQuantiles() {
  std::vector<float> to(kQuantiles);
  double x = -6;
  for (size_t i = 0; i < kQuantiles; ++i) {
    const double p = (static_cast<double>(i) + 0.5) / static_cast<double>(kQuantiles);
    // Newton's method from the quantile before, which lies near.
    for (int step = 0; step < 60; ++step) {
      const double density = std::exp(-x * x / 2) / std::sqrt(2 * 3.14159265358979323846);
      const double move = (std::erfc(-x / std::sqrt(2.0)) / 2 - p) / density;
      x -= std::clamp(move, -0.5, 0.5);
      if (std::abs(move) < 1e-9) break;
    }
    to[i] = static_cast<float>(x);
  }
  return to;
}

// The sum of two quantiles over the root of 2: standard normal, |x| < 5.9.
float NormalOf(uint32_t bits) {
  static const std::vector<float> quantiles = NormalQuantiles();
  return (quantiles[bits & 0xffff] + quantiles[bits >> 16]) * 0.70710678F;
}

class Random {
 public:
  explicit Random(uint64_t seed) : seed_(seed) {}
  uint64_t Bits() { return Mix(seed_, at_++); }
  double Unit() { return static_cast<double>(Bits() >> 11) * 0x1p-53; }
  int64_t Below(int64_t bound) { return static_cast<int64_t>(Bits() % static_cast<uint64_t>(bound)); }
  float Normal() { return NormalOf(static_cast<uint32_t>(Bits())); }
  double LogUniform(double from, double to) { return from * std::pow(to / from, Unit()); }
  bool OneIn(int64_t n) { return Below(n) == 0; }

 private:
  uint64_t seed_, at_ = 0;
};

struct Size {
  int64_t n = 8, v = 64, h = 4096;
};

Size SmallSize(Random* random) {
  Size size;
  size.n = static_cast<int64_t>(random->LogUniform(8, 65));
  size.h = static_cast<int64_t>(random->LogUniform(4, 257));
  const double most = std::min(4096.0, kMultiplyAdds / static_cast<double>(size.n * size.h));
  size.v = static_cast<int64_t>(random->LogUniform(8, std::max(most, 9.0)));
  return size;
}

// Two elements for each 64 bits, whose counter is the place: the order does not matter.
HostTensor Normals(DType dtype, int64_t rows, int64_t columns, float scale, uint64_t seed) {
  HostTensor to = HostTensor::Zeros(dtype, {rows, columns});
  const size_t bytes = static_cast<size_t>(columns) * kernel::SizeOf(dtype);
  std::vector<float> row(static_cast<size_t>(columns));
  for (int64_t i = 0; i < rows; ++i) {
    const uint64_t of_row = Mix(seed, static_cast<uint64_t>(i));
    for (size_t j = 0; j < row.size(); j += 2) {
      const uint64_t bits = Mix(of_row, j);
      row[j] = scale * NormalOf(static_cast<uint32_t>(bits));
      if (j + 1 < row.size()) row[j + 1] = scale * NormalOf(static_cast<uint32_t>(bits >> 32));
    }
    fuzz::Narrow(row, dtype, to.bytes.data() + static_cast<size_t>(i) * bytes);
  }
  return to;
}

// Multiplies four channels of hidden, or a quarter of a short row.
void MakeMassive(Random* random, HostTensor* hidden) {
  const int64_t n = hidden->shape[0], h = hidden->shape[1];
  for (int64_t channel = 0; channel < std::min<int64_t>(4, (h + 3) / 4); ++channel) {
    const int64_t j = random->Below(h);
    const auto factor = static_cast<float>(50 + 150 * random->Unit());
    for (int64_t i = 0; i < n; ++i) hidden->SetFloat(i * h + j, hidden->GetFloat(i * h + j) * factor);
  }
}

// Adds a multiple of the label's row of weight to each row of hidden.
void MakeConfident(Random* random, const HostTensor& weight, const HostTensor& labels,
                   HostTensor* hidden) {
  const int64_t n = hidden->shape[0], h = hidden->shape[1];
  for (int64_t i = 0; i < n; ++i) {
    const int64_t y = labels.GetInt(i) * h;
    double logit = 0, square = 0;
    for (int64_t j = 0; j < h; ++j) {
      const auto w = static_cast<double>(weight.GetFloat(y + j));
      logit += w * static_cast<double>(hidden->GetFloat(i * h + j));
      square += w * w;
    }
    if (square == 0) continue;
    const double move = (-2 + 24 * random->Unit() - logit) / square;
    for (int64_t j = 0; j < h; ++j) {
      hidden->SetFloat(i * h + j,
                       hidden->GetFloat(i * h + j) + static_cast<float>(move) * weight.GetFloat(y + j));
    }
  }
}

HostTensor Vector(int64_t n, const auto& element) {
  HostTensor to = HostTensor::Zeros(DType::kF32, {n});
  for (int64_t i = 0; i < n; ++i) to.SetFloat(i, element());
  return to;
}

void DrawScalars(Random* random, Set set, int64_t n, Drawn* to) {
  fuzz::OwnedProblem& problem = to->problem;
  const bool small = set == Set::kSmall;
  // Without g, or with one of a power of two, roundings of d_logits fall together.
  const int64_t form = small ? random->Below(4) : 0;
  const auto size =
      static_cast<float>(form == 1   ? 1.0 / static_cast<double>(n)
                         : form == 2 ? std::exp2(static_cast<double>(random->Below(20) - 10))
                                     : 1.0);
  problem.grad_logprob = Vector(n, [&] { return form == 0 ? random->Normal() : size; });
  if (const int64_t entropy = small ? random->Below(3) : 1; entropy != 0) {
    const float k = entropy == 1 ? 0.01F : 1.0F;
    problem.grad_entropy = Vector(n, [&] { return k * random->Normal(); });
  }
  float temperature = to->data == Data::kMassive ? 0.7F : 1;
  if (to->data == Data::kWide) {
    const auto draw = [&] { return static_cast<float>(random->LogUniform(0.05, 10)); };
    if (random->OneIn(3)) {
      problem.temperature = Vector(n, draw);
      return;
    }
    temperature = random->OneIn(2) ? draw() : 0.5F;
  } else if (small && to->data != Data::kMassive && random->OneIn(2)) {
    temperature = 0.7F;
  }
  if (temperature == 1) return;
  problem.temperature = HostTensor::Zeros(DType::kF32, {});
  problem.temperature->SetFloat(0, temperature);
}

// As the tier chooses: columns in groups of neighbours; the rows of labels, at most half, and others.
void ChoosePlaces(Random* random, const Size& size, int64_t most, Drawn* to) {
  constexpr int64_t kGroup = fuzz::kProductColumns;
  const int64_t groups = (size.h + kGroup - 1) / kGroup;
  std::set<int64_t> chosen, rows;
  while (std::ssize(chosen) < std::min(groups, most / kGroup)) {
    chosen.insert(most >= size.h ? std::ssize(chosen) : random->Below(groups));
  }
  for (const int64_t group : chosen) {
    for (int64_t j = group * kGroup; j < std::min(size.h, (group + 1) * kGroup); ++j) {
      to->places.hidden_columns.push_back(j);
    }
  }
  for (const int64_t i : to->places.rows) {
    if (std::ssize(rows) < most / 2) rows.insert(to->problem.labels.GetInt(i));
  }
  const int64_t wanted = std::min(size.v, most);
  for (int64_t v = 0; wanted == size.v && v < size.v; ++v) rows.insert(v);
  while (std::ssize(rows) < wanted) rows.insert(random->Below(size.v));
  to->places.weight_rows.assign(rows.begin(), rows.end());
}

}  // namespace

std::string_view Name(Data data) {
  constexpr std::string_view kNames[] = {"ordinary", "massive", "confident", "wide"};
  return kNames[static_cast<int>(data)];
}

Drawn Draw(Set set, int64_t vocab, int64_t most_places, uint64_t seed) {
  const bool small = set == Set::kSmall;
  Random random(Mix(Mix(seed, static_cast<uint64_t>(set)), static_cast<uint64_t>(vocab)));
  Drawn to;
  to.data = static_cast<Data>(seed % (small ? 4 : 3));
  const Size size = small ? SmallSize(&random) : Size{.v = vocab};
  constexpr DType kInputs[] = {DType::kBf16, DType::kBf16, DType::kF16, DType::kF32};
  const DType dtype = small ? kInputs[random.Below(4)] : DType::kBf16;
  to.gradients = random.OneIn(2) ? DType::kF32 : dtype;
  float spread = kLogitSpread;
  if (to.data == Data::kWide) spread = static_cast<float>(random.LogUniform(0.01, 20));
  const float weight = spread / (kHidden * std::sqrt(static_cast<float>(size.h)));
  fuzz::OwnedProblem& problem = to.problem;
  problem.hidden = Normals(dtype, size.n, size.h, kHidden, random.Bits());
  problem.weight = Normals(dtype, size.v, size.h, weight, random.Bits());
  problem.labels = HostTensor::Zeros(DType::kI64, {size.n});
  for (int64_t i = 0; i < size.n; ++i) problem.labels.SetInt(i, random.Below(size.v));
  if (to.data == Data::kMassive) MakeMassive(&random, &problem.hidden);
  if (to.data == Data::kConfident) {
    MakeConfident(&random, problem.weight, problem.labels, &problem.hidden);
  }
  DrawScalars(&random, set, size.n, &to);
  // Rows are ignored in one small problem of five, but for eight.
  const bool ignores = small && random.OneIn(5);
  for (int64_t i = 0, left = size.n; i < size.n; ++i) {
    if (ignores && left > 8 && random.OneIn(4)) {
      problem.labels.SetInt(i, problem.ignore_index);
      --left;
    } else {
      to.places.rows.push_back(i);
    }
  }
  ChoosePlaces(&random, size, most_places, &to);
  return to;
}

}  // namespace plumbline::false_alarms
