// SPDX-License-Identifier: Apache-2.0
#include "fuzz/baseline/simulate.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <span>

#include "fuzz/problem/narrow.h"
#include "oracle/numeric/threads.h"

namespace plumbline::fuzz {
namespace {

using kernel::ConstTensor, kernel::DType;

constexpr int64_t kPanelColumns = kProductColumns;

// Rounds to `bits` significant bits, to nearest, ties away from zero.
void KeepBits(int bits, std::span<float> values) {
  if (bits <= 0 || bits >= 24) return;
  const uint32_t half = uint32_t{1} << (23 - bits), mask = ~((half << 1) - 1);
  for (float& value : values) {
    value = std::bit_cast<float>((std::bit_cast<uint32_t>(value) + half) & mask);
  }
}

// What is exact beside fp32 stays so.
void KeepBits(int, std::span<double>) {}
void RoundTo(DType, std::span<double>) {}
void RoundTo(DType dtype, std::span<float> values) {
  for (float& value : values) {
    if (dtype == DType::kBf16) value = kernel::ToFloat(kernel::ToBFloat16(value));
    if (dtype == DType::kF16) value = kernel::ToFloat(kernel::ToFloat16(value));
  }
}

}  // namespace

std::vector<int64_t> Spread(const std::vector<int64_t>& from, int64_t count) {
  const auto all = static_cast<int64_t>(from.size());
  if (count >= all) return from;
  std::vector<int64_t> to;
  for (int64_t i = 0; i < count; ++i) to.push_back(from[static_cast<size_t>(i * all / count)]);
  return to;
}

void ReadRow(const ConstTensor& matrix, int64_t i, std::span<float> to) {
  if (matrix.stride[1] == 1) {
    const auto* const data = static_cast<const std::byte*>(matrix.data);
    Widen(data + static_cast<size_t>(i * matrix.stride[0]) * kernel::SizeOf(matrix.dtype), matrix.dtype,
          to);
    return;
  }
  for (size_t j = 0; j < to.size(); ++j) {
    to[j] = static_cast<float>(oracle::ReadElement(matrix, i, static_cast<int64_t>(j)));
  }
}

template <class Real>
Simulation<Real>::Simulation(const kernel::Problem& problem, const oracle::Inputs& inputs,
                             const Places& places, const SimulationOptions& options)
    : problem_(problem), inputs_(inputs), places_(places), options_(options) {
  const auto h = static_cast<size_t>(problem_.hidden_size());
  hidden_.resize(places_.rows.size() * h);
  for (size_t r = 0; r < places_.rows.size(); ++r) {
    ReadRow(problem_.hidden, places_.rows[r], std::span(hidden_).subspan(r * h, h));
  }
}

template <class Real>
RowScalars Simulation<Real>::ScalarsOf(size_t r) const {
  const auto i = static_cast<size_t>(places_.rows[r]);
  RowScalars scalars;
  scalars.label = inputs_.label[i];
  scalars.temperature = static_cast<float>(inputs_.temperature[i]);
  scalars.g = static_cast<float>(inputs_.g[i]);
  scalars.k = static_cast<float>(inputs_.k[i]);
  return scalars;
}

template <class Real>
const std::vector<Real>& Simulation<Real>::LogitsOf(const Baseline& baseline) {
  for (const auto& known : logits_) {
    if (known->dot == baseline.dot && known->operand_bits == baseline.operand_bits) return known->z;
  }
  const int64_t v = problem_.vocab(), h = problem_.hidden_size();
  std::vector<float> operands = hidden_;
  KeepBits(baseline.operand_bits, operands);
  const bool reversed = baseline.dot.reversed;
  if (reversed) {
    for (int64_t r = 0; r < rows(); ++r) {
      std::reverse(operands.begin() + r * h, operands.begin() + (r + 1) * h);
    }
  }
  const std::vector<Real> a(operands.begin(), operands.end());
  std::vector<Real> z(static_cast<size_t>(rows() * v));
  oracle::ParallelRanges(
      options_.threads, (v + kPanelColumns - 1) / kPanelColumns, [&](int, int64_t begin, int64_t end) {
        std::vector<float> line(static_cast<size_t>(h)), panel(static_cast<size_t>(h * kPanelColumns));
        std::vector<Real> sums(static_cast<size_t>(rows() * kPanelColumns));
        for (int64_t p = begin; p < end && !Interrupted(); ++p) {
          const int64_t first = p * kPanelColumns, width = std::min(kPanelColumns, v - first);
          for (int64_t j = 0; j < width; ++j) {
            ReadRow(problem_.weight, first + j, line);
            KeepBits(baseline.operand_bits, line);
            if (reversed) std::ranges::reverse(line);
            for (int64_t k = 0; k < h; ++k)
              panel[static_cast<size_t>(k * kPanelColumns + j)] = line[static_cast<size_t>(k)];
          }
          Multiply(baseline.dot, ProductBlock<Real>{a.data(), h, panel.data(), h, rows(), sums.data(),
                                                    kPanelColumns, false});
          for (int64_t r = 0; r < rows(); ++r) {
            std::copy_n(sums.data() + r * kPanelColumns, width, z.data() + r * v + first);
          }
        }
      });
  logits_.push_back(std::make_unique<Logits>(baseline.dot, baseline.operand_bits, std::move(z)));
  return logits_.back()->z;
}

// Returns d_logits, [rows][V]; empty if no gradient is wanted.
template <class Real>
std::vector<Real> Simulation<Real>::Forward(const Baseline& baseline, Simulated<Real>* out) {
  const auto v = static_cast<size_t>(problem_.vocab());
  const std::vector<Real>& z = LogitsOf(baseline);
  Baseline second = baseline;
  second.dot = baseline.Apart();
  const bool two = baseline.label_apart || baseline.recomputed;
  const std::vector<Real>& apart = two ? LogitsOf(second) : z;
  const bool backward = options_.grad_hidden || options_.grad_weight;
  std::vector<Real> d(backward ? z.size() : 0);
  out->forward.resize(places_.rows.size());
  out->top.resize(places_.rows.size());
  oracle::ParallelRanges(options_.threads, rows(), [&](int, int64_t begin, int64_t end) {
    std::vector<Real> memory, apart_memory;
    for (auto r = static_cast<size_t>(begin); r < static_cast<size_t>(end); ++r) {
      RowScalars scalars = ScalarsOf(r);
      const auto logits = [&](const std::vector<Real>& all, std::vector<Real>* room) {
        return ShortcutLogits(baseline.shortcuts, std::span<const Real>(all).subspan(r * v, v),
                              scalars.temperature, room);
      };
      const std::span<const Real> row = logits(z, &memory);
      const std::span<const Real> other = logits(apart, &apart_memory);
      if (baseline.label_apart) {
        scalars.label_logit = static_cast<double>(other[static_cast<size_t>(scalars.label)]);
      }
      out->forward[r] = ForwardOf(baseline, row, scalars);
      out->top[r] = std::ranges::max_element(row) - row.begin();
      if (backward) {
        DLogits(baseline, baseline.recomputed ? other : row, scalars, out->forward[r],
                std::span(d).subspan(r * v, v));
      }
      RoundOutputs(baseline.shortcuts, &out->forward[r]);
    }
  });
  return d;
}

template <class Real>
void Simulation<Real>::Hidden(const std::vector<Baseline>& baselines,
                              const std::vector<std::vector<Real>>& d,
                              std::vector<Simulated<Real>>* all) const {
  const int64_t v = problem_.vocab();
  const auto columns = static_cast<int64_t>(places_.hidden_columns.size());
  for (Simulated<Real>& each : *all) each.grad_hidden.resize(static_cast<size_t>(rows() * columns));
  const int64_t groups = (columns + kPanelColumns - 1) / kPanelColumns;
  const int bits = baselines.front().operand_bits;  // a contract's, the same for all
  oracle::ParallelRanges(options_.threads, groups, [&](int, int64_t begin, int64_t end) {
    std::vector<float> panel(static_cast<size_t>(v * kPanelColumns));
    std::vector<Real> sums(static_cast<size_t>(rows() * kPanelColumns));
    for (int64_t group = begin; group < end && !Interrupted(); ++group) {
      const int64_t first = group * kPanelColumns, width = std::min(kPanelColumns, columns - first);
      for (int64_t c = 0; c < v; ++c) {
        for (int64_t j = 0; j < width; ++j) {
          panel[static_cast<size_t>(c * kPanelColumns + j)] = static_cast<float>(oracle::ReadElement(
              problem_.weight, c, places_.hidden_columns[static_cast<size_t>(first + j)]));
        }
      }
      KeepBits(bits, panel);
      for (size_t b = 0; b < all->size(); ++b) {
        Multiply(baselines[b].dot, ProductBlock<Real>{d[b].data(), v, panel.data(), v, rows(),
                                                      sums.data(), kPanelColumns, false});
        for (int64_t r = 0; r < rows(); ++r) {
          std::copy_n(sums.data() + r * kPanelColumns, width,
                      (*all)[b].grad_hidden.data() + r * columns + first);
        }
      }
    }
  });
  for (Simulated<Real>& each : *all) RoundTo(*options_.grad_hidden, std::span<Real>(each.grad_hidden));
}

template <class Real>
void Simulation<Real>::Weight(const Baseline& baseline, const std::vector<Real>& d,
                              Simulated<Real>* out) const {
  const int64_t v = problem_.vocab(), h = problem_.hidden_size(), n = rows();
  const auto count = static_cast<int64_t>(places_.weight_rows.size());
  std::vector<Real> a(static_cast<size_t>(count * n));
  for (int64_t c = 0; c < count; ++c) {
    for (int64_t r = 0; r < n; ++r) {
      a[static_cast<size_t>(c * n + r)] =
          d[static_cast<size_t>(r * v + places_.weight_rows[static_cast<size_t>(c)])];
    }
  }
  out->grad_weight.resize(static_cast<size_t>(count * h));
  KeepBits(baseline.operand_bits, std::span<Real>(a));
  oracle::ParallelRanges(
      options_.threads, (h + kPanelColumns - 1) / kPanelColumns, [&](int, int64_t begin, int64_t end) {
        std::vector<float> panel(static_cast<size_t>(n * kPanelColumns));
        std::vector<Real> sums(static_cast<size_t>(count * kPanelColumns));
        for (int64_t p = begin; p < end; ++p) {
          const int64_t first = p * kPanelColumns, width = std::min(kPanelColumns, h - first);
          for (int64_t r = 0; r < n; ++r) {
            std::copy_n(hidden_.data() + r * h + first, width, panel.data() + r * kPanelColumns);
          }
          KeepBits(baseline.operand_bits, panel);
          Multiply(baseline.dot, ProductBlock<Real>{a.data(), n, panel.data(), n, count, sums.data(),
                                                    kPanelColumns, false});
          for (int64_t c = 0; c < count; ++c) {
            std::copy_n(sums.data() + c * kPanelColumns, width,
                        out->grad_weight.data() + c * h + first);
          }
        }
      });
  RoundTo(*options_.grad_weight, std::span<Real>(out->grad_weight));
}

template <class Real>
std::vector<Simulated<Real>> Simulation<Real>::Run(const std::vector<Baseline>& baselines) {
  std::vector<Simulated<Real>> all(baselines.size());
  std::vector<std::vector<Real>> d(all.size());
  for (size_t b = 0; b < all.size() && !Interrupted(); ++b) {
    d[b] = Forward(baselines[b], &all[b]);
    KeepBits(baselines[b].operand_bits, std::span<Real>(d[b]));
    if (options_.grad_weight) Weight(baselines[b], d[b], &all[b]);
  }
  if (Interrupted()) return {};
  if (options_.grad_hidden) Hidden(baselines, d, &all);
  if (Interrupted()) return {};
  return all;
}

template class Simulation<float>;
template class Simulation<double>;

}  // namespace plumbline::fuzz
