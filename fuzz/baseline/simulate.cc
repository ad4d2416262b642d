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

void RoundTo(DType dtype, std::span<float> values) {
  for (float& value : values) {
    if (dtype == DType::kBf16) value = kernel::ToFloat(kernel::ToBFloat16(value));
    if (dtype == DType::kF16) value = kernel::ToFloat(kernel::ToFloat16(value));
  }
}

class Simulation {
 public:
  Simulation(const kernel::Problem& problem, const oracle::Inputs& inputs, const Family& family,
             const Places& places, const SimulationOptions& options)
      : problem_(problem), inputs_(inputs), family_(family), places_(places), options_(options) {
    const size_t h = static_cast<size_t>(problem_.hidden_size());
    hidden_.resize(places_.rows.size() * h);
    for (size_t r = 0; r < places_.rows.size(); ++r) {
      ReadRow(problem_.hidden, places_.rows[r], std::span(hidden_).subspan(r * h, h));
    }
  }

  std::vector<Simulated> Run();

 private:
  struct Logits {
    Dot dot;
    int operand_bits;
    std::vector<float> z;  // [rows][V]
  };
  int64_t rows() const { return static_cast<int64_t>(places_.rows.size()); }
  bool Interrupted() const {
    return options_.interrupt != nullptr && options_.interrupt->load(std::memory_order_relaxed);
  }
  RowScalars ScalarsOf(size_t r) const;
  const std::vector<float>& LogitsOf(const Baseline& baseline);
  std::vector<float> Forward(const Baseline& baseline, Simulated* out);
  void Hidden(const std::vector<std::vector<float>>& d, std::vector<Simulated>* all) const;
  void Weight(const Baseline& baseline, const std::vector<float>& d, Simulated* out) const;

  const kernel::Problem& problem_;
  const oracle::Inputs& inputs_;
  const Family& family_;
  const Places& places_;
  const SimulationOptions& options_;
  std::vector<float> hidden_;     // [rows][H]
  std::optional<Logits> logits_;  // of the newest; a family has those of one dot product together
};

RowScalars Simulation::ScalarsOf(size_t r) const {
  const auto i = static_cast<size_t>(places_.rows[r]);
  return {inputs_.label[i], static_cast<float>(inputs_.temperature[i]),
          static_cast<float>(inputs_.g[i]), static_cast<float>(inputs_.k[i])};
}

const std::vector<float>& Simulation::LogitsOf(const Baseline& baseline) {
  if (logits_ && logits_->dot == baseline.dot && logits_->operand_bits == baseline.operand_bits) {
    return logits_->z;
  }
  const int64_t v = problem_.vocab(), h = problem_.hidden_size();
  std::vector<float> a = hidden_;
  KeepBits(baseline.operand_bits, a);
  std::vector<float> z(static_cast<size_t>(rows() * v));
  oracle::ParallelRanges(
      options_.threads, (v + kPanelColumns - 1) / kPanelColumns, [&](int, int64_t begin, int64_t end) {
        std::vector<float> line(static_cast<size_t>(h)), panel(static_cast<size_t>(h * kPanelColumns));
        std::vector<float> sums(static_cast<size_t>(rows() * kPanelColumns));
        for (int64_t p = begin; p < end && !Interrupted(); ++p) {
          const int64_t first = p * kPanelColumns, width = std::min(kPanelColumns, v - first);
          for (int64_t j = 0; j < width; ++j) {
            ReadRow(problem_.weight, first + j, line);
            KeepBits(baseline.operand_bits, line);
            for (int64_t k = 0; k < h; ++k)
              panel[static_cast<size_t>(k * kPanelColumns + j)] = line[static_cast<size_t>(k)];
          }
          Multiply(baseline.dot,
                   {a.data(), h, panel.data(), h, rows(), sums.data(), kPanelColumns, false});
          for (int64_t r = 0; r < rows(); ++r) {
            std::copy_n(sums.data() + r * kPanelColumns, width, z.data() + r * v + first);
          }
        }
      });
  logits_ = Logits{baseline.dot, baseline.operand_bits, std::move(z)};
  return logits_->z;
}

// Returns d_logits, [rows][V]; empty if no gradient is wanted.
std::vector<float> Simulation::Forward(const Baseline& baseline, Simulated* out) {
  const auto v = static_cast<size_t>(problem_.vocab());
  const std::vector<float>& z = LogitsOf(baseline);
  const bool backward = options_.grad_hidden || options_.grad_weight;
  std::vector<float> d(backward ? z.size() : 0);
  out->forward.resize(places_.rows.size());
  oracle::ParallelRanges(options_.threads, rows(), [&](int, int64_t begin, int64_t end) {
    for (auto r = static_cast<size_t>(begin); r < static_cast<size_t>(end); ++r) {
      const std::span row = std::span(z).subspan(r * v, v);
      const RowScalars scalars = ScalarsOf(r);
      out->forward[r] = ForwardOf(baseline, row, scalars);
      if (backward) DLogits(baseline, row, scalars, out->forward[r], std::span(d).subspan(r * v, v));
    }
  });
  return d;
}

void Simulation::Hidden(const std::vector<std::vector<float>>& d, std::vector<Simulated>* all) const {
  const int64_t v = problem_.vocab();
  const auto columns = static_cast<int64_t>(places_.hidden_columns.size());
  for (Simulated& each : *all) each.grad_hidden.resize(static_cast<size_t>(rows() * columns));
  const int64_t groups = (columns + kPanelColumns - 1) / kPanelColumns;
  oracle::ParallelRanges(options_.threads, groups, [&](int, int64_t begin, int64_t end) {
    std::vector<float> panel(static_cast<size_t>(v * kPanelColumns));
    std::vector<float> sums(static_cast<size_t>(rows() * kPanelColumns));
    for (int64_t group = begin; group < end && !Interrupted(); ++group) {
      const int64_t first = group * kPanelColumns, width = std::min(kPanelColumns, columns - first);
      for (int64_t c = 0; c < v; ++c) {
        for (int64_t j = 0; j < width; ++j) {
          panel[static_cast<size_t>(c * kPanelColumns + j)] = static_cast<float>(oracle::ReadElement(
              problem_.weight, c, places_.hidden_columns[static_cast<size_t>(first + j)]));
        }
      }
      for (size_t b = 0; b < all->size(); ++b) {
        Multiply(family_.baselines[b].dot,
                 {d[b].data(), v, panel.data(), v, rows(), sums.data(), kPanelColumns, false});
        for (int64_t r = 0; r < rows(); ++r) {
          std::copy_n(sums.data() + r * kPanelColumns, width,
                      (*all)[b].grad_hidden.data() + r * columns + first);
        }
      }
    }
  });
  for (Simulated& each : *all) RoundTo(*options_.grad_hidden, each.grad_hidden);
}

void Simulation::Weight(const Baseline& baseline, const std::vector<float>& d, Simulated* out) const {
  const int64_t v = problem_.vocab(), h = problem_.hidden_size(), n = rows();
  const auto count = static_cast<int64_t>(places_.weight_rows.size());
  std::vector<float> a(static_cast<size_t>(count * n));
  for (int64_t c = 0; c < count; ++c) {
    for (int64_t r = 0; r < n; ++r) {
      a[static_cast<size_t>(c * n + r)] =
          d[static_cast<size_t>(r * v + places_.weight_rows[static_cast<size_t>(c)])];
    }
  }
  out->grad_weight.resize(static_cast<size_t>(count * h));
  oracle::ParallelRanges(
      options_.threads, (h + kPanelColumns - 1) / kPanelColumns, [&](int, int64_t begin, int64_t end) {
        std::vector<float> panel(static_cast<size_t>(n * kPanelColumns));
        std::vector<float> sums(static_cast<size_t>(count * kPanelColumns));
        for (int64_t p = begin; p < end; ++p) {
          const int64_t first = p * kPanelColumns, width = std::min(kPanelColumns, h - first);
          for (int64_t r = 0; r < n; ++r) {
            std::copy_n(hidden_.data() + r * h + first, width, panel.data() + r * kPanelColumns);
          }
          Multiply(baseline.dot,
                   {a.data(), n, panel.data(), n, count, sums.data(), kPanelColumns, false});
          for (int64_t c = 0; c < count; ++c) {
            std::copy_n(sums.data() + c * kPanelColumns, width,
                        out->grad_weight.data() + c * h + first);
          }
        }
      });
  RoundTo(*options_.grad_weight, out->grad_weight);
}

std::vector<Simulated> Simulation::Run() {
  std::vector<Simulated> all(family_.baselines.size());
  std::vector<std::vector<float>> d(all.size());
  for (size_t b = 0; b < all.size() && !Interrupted(); ++b) {
    d[b] = Forward(family_.baselines[b], &all[b]);
    if (options_.grad_weight) Weight(family_.baselines[b], d[b], &all[b]);
  }
  if (Interrupted()) return {};
  if (options_.grad_hidden) Hidden(d, &all);
  if (Interrupted()) return {};
  return all;
}

}  // namespace

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

std::vector<Simulated> Simulate(const kernel::Problem& problem, const oracle::Inputs& inputs,
                                const Family& family, const Places& places,
                                const SimulationOptions& options) {
  return Simulation(problem, inputs, family, places, options).Run();
}

}  // namespace plumbline::fuzz
