// SPDX-License-Identifier: Apache-2.0
#include "fuzz/baseline/simulate.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "fuzz/baseline/rounding.h"
#include "fuzz/problem/narrow.h"
#include "oracle/numeric/threads.h"

namespace plumbline::fuzz {
namespace {

using kernel::ConstTensor, kernel::DType;

constexpr int64_t kPanelColumns = kProductColumns;
constexpr int64_t kBlockRows = 1024;  // of hidden, as operands

// The shortcut's accumulator, or the contract's.
const Accumulator& Chosen(const Accumulator& shortcut, const Accumulator& contract) {
  return shortcut.chunk > 0 || shortcut.parts > 0 ? shortcut : contract;
}

// A tensor core adds parts as it adds products: it truncates.
float TruncatedSum(float a, float b) {
  const double exact = static_cast<double>(a) + static_cast<double>(b);
  const auto near = static_cast<float>(exact);
  return std::abs(static_cast<double>(near)) > std::abs(exact) ? std::nextafter(near, 0.0f) : near;
}
double TruncatedSum(double a, double b) { return a + b; }

}  // namespace

std::vector<int64_t> Spread(const std::vector<int64_t>& from, int64_t count) {
  const auto all = static_cast<int64_t>(from.size());
  if (count >= all) return from;
  std::vector<int64_t> to;
  for (int64_t i = 0; i < count; ++i) to.push_back(from[static_cast<size_t>(i * all / count)]);
  return to;
}

void ReadRow(const ConstTensor& matrix, int64_t i, std::span<float> to, int64_t first) {
  if (matrix.stride[1] == 1) {
    const auto* const data = static_cast<const std::byte*>(matrix.data);
    const auto at = static_cast<size_t>(i * matrix.stride[0] + first);
    return Widen(data + at * kernel::SizeOf(matrix.dtype), matrix.dtype, to);
  }
  for (size_t j = 0; j < to.size(); ++j) {
    to[j] = static_cast<float>(oracle::ReadElement(matrix, i, first + static_cast<int64_t>(j)));
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
  if (given()) {
    const auto at = std::ranges::lower_bound(places_.weight_rows, scalars.label);
    const bool among = at != places_.weight_rows.end() && *at == scalars.label;
    scalars.label = among ? at - places_.weight_rows.begin() : -1;
    scalars.upstream = inputs_.g[i] - inputs_.k[i] * (1 - options_.given[r].entropy);
  }
  scalars.temperature = static_cast<float>(inputs_.temperature[i]);
  scalars.g = static_cast<float>(inputs_.g[i]);
  scalars.k = static_cast<float>(inputs_.k[i]);
  return scalars;
}

template <class Real>
const std::vector<Real>& Simulation<Real>::LogitsOf(const Baseline& baseline) {
  for (const auto& known : logits_) {
    if (known->dot == baseline.dot && known->operand_bits == baseline.operand_bits &&
        known->hidden_bits == baseline.hidden_bits && known->sum == baseline.logit_sum) {
      return known->z;
    }
  }
  const int64_t h = problem_.hidden_size();
  std::vector<Real> z(static_cast<size_t>(rows() * columns()));
  std::vector<Real> a;
  for (int64_t first = 0; first < rows(); first += kBlockRows) {
    const int64_t count = std::min(kBlockRows, rows() - first);
    std::vector<float> operands(hidden_.begin() + first * h, hidden_.begin() + (first + count) * h);
    KeepBits(baseline.operand_bits, operands);
    KeepBits(baseline.hidden_bits, operands);
    for (int64_t r = 0; r < count && baseline.dot.reversed; ++r) {
      std::reverse(operands.begin() + r * h, operands.begin() + (r + 1) * h);
    }
    a.assign(operands.begin(), operands.end());
    BlockLogits(baseline, a, std::span(z).subspan(static_cast<size_t>(first * columns())));
  }
  logits_.push_back(std::make_unique<Logits>(baseline.dot, baseline.operand_bits, baseline.hidden_bits,
                                             baseline.logit_sum, std::move(z)));
  return logits_.back()->z;
}

template <class Real>
void Simulation<Real>::BlockLogits(const Baseline& baseline, const std::vector<Real>& a,
                                   std::span<Real> z) const {
  const int64_t v = columns(), h = problem_.hidden_size();
  const auto count = static_cast<int64_t>(a.size()) / h;
  oracle::ParallelRanges(
      options_.threads, (v + kPanelColumns - 1) / kPanelColumns, [&](int, int64_t begin, int64_t end) {
        std::vector<float> lines(static_cast<size_t>(h * kPanelColumns)), panel(lines.size());
        std::vector<Real> sums(static_cast<size_t>(count * kPanelColumns));
        for (int64_t p = begin; p < end && !Interrupted(); ++p) {
          const int64_t first = p * kPanelColumns, width = std::min(kPanelColumns, v - first);
          for (int64_t j = 0; j < width; ++j) {
            const int64_t column = first + j;
            const auto line =
                std::span(lines).subspan(static_cast<size_t>(j * h), static_cast<size_t>(h));
            ReadRow(problem_.weight,
                    given() ? places_.weight_rows[static_cast<size_t>(column)] : column, line);
            KeepBits(baseline.operand_bits, line);
            if (baseline.dot.reversed) std::ranges::reverse(line);
          }
          MakePanel(lines.data(), h, width, panel.data());
          Product(baseline, baseline.logit_sum, false,
                  ProductBlock<Real>{a.data(), h, panel.data(), h, count, sums.data(), kPanelColumns,
                                     false});
          for (int64_t r = 0; r < count; ++r) {
            std::copy_n(sums.data() + r * kPanelColumns, width, z.data() + r * v + first);
          }
        }
      });
}

// A row's forward results, and its probabilities in the rows of grad_weight.
template <class Real>
void Simulation<Real>::ForwardRow(const Baseline& baseline, std::span<const Real> z,
                                  const RowScalars& scalars, size_t r, Simulated<Real>* out) const {
  out->forward[r] =
      given() ? ForwardFrom<Real>(baseline, options_.given[r].lse, options_.given[r].entropy, scalars)
              : ForwardOf(baseline, z, scalars);
  out->top[r] = std::ranges::max_element(z) - z.begin();
  const size_t count = options_.grad_weight ? places_.weight_rows.size() : 0;
  for (size_t c = 0; c < count; ++c) {
    const Real x = z[ColumnOf(c)] / scalars.temperature;
    out->probability[r * count + c] =
        static_cast<float>(std::exp(std::min<Real>(x - out->forward[r].lse, 0)));
  }
}

template <class Real>
std::span<const Real> Simulation<Real>::WithGivenLabel(size_t r, std::span<const Real> z, int64_t label,
                                                       std::vector<Real>* memory) const {
  if (!given() || label < 0 || !options_.given[r].logprob) return z;
  if (z.data() != memory->data()) memory->assign(z.begin(), z.end());
  const GivenForward& forward = options_.given[r];
  (*memory)[static_cast<size_t>(label)] = static_cast<Real>(
      (forward.lse + *forward.logprob) * inputs_.temperature[static_cast<size_t>(places_.rows[r])]);
  return *memory;
}

// Returns d_logits, [rows][columns]; empty if no gradient is wanted.
template <class Real>
std::vector<Real> Simulation<Real>::Forward(const Baseline& baseline, Simulated<Real>* out) {
  const auto v = static_cast<size_t>(columns());
  const std::vector<Real>& z = LogitsOf(baseline);
  Baseline second = baseline;
  second.dot = baseline.Apart();
  const bool two = baseline.label_apart || baseline.recomputed;
  const std::vector<Real>& apart = two ? LogitsOf(second) : z;
  const bool backward = options_.grad_hidden || options_.grad_weight;
  std::vector<Real> d(backward ? z.size() : 0);
  out->forward.resize(places_.rows.size());
  out->top.resize(places_.rows.size());
  out->probability.resize(options_.grad_weight ? places_.rows.size() * places_.weight_rows.size() : 0);
  oracle::ParallelRanges(options_.threads, rows(), [&](int, int64_t begin, int64_t end) {
    std::vector<Real> memory, apart_memory;
    for (auto r = static_cast<size_t>(begin); r < static_cast<size_t>(end); ++r) {
      RowScalars scalars = ScalarsOf(r);
      const auto logits = [&](const std::vector<Real>& all, std::vector<Real>* room) {
        return ShortcutLogits(baseline.shortcuts, std::span<const Real>(all).subspan(r * v, v),
                              scalars.temperature, room);
      };
      const std::span<const Real> row = WithGivenLabel(r, logits(z, &memory), scalars.label, &memory);
      const std::span<const Real> other = logits(apart, &apart_memory);
      if (baseline.label_apart && !given()) {
        scalars.label_logit = static_cast<double>(other[static_cast<size_t>(scalars.label)]);
      }
      ForwardRow(baseline, row, scalars, r, out);
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
void Simulation<Real>::Product(const Baseline& baseline, const Accumulator& sum, bool rows,
                               ProductBlock<Real> block) const {
  const int64_t depth = block.depth;
  const int64_t chunk =
      sum.chunk > 0 || sum.parts == 0 ? sum.chunk : (depth + sum.parts - 1) / sum.parts;
  if (chunk <= 0) return Multiply(baseline.dot, block);
  Real* const total = block.c;
  const auto elements = static_cast<size_t>(block.rows * kPanelColumns);
  std::vector<Real> part(elements);
  block.c = part.data();
  block.c_stride = kPanelColumns;
  std::fill_n(total, elements, Real{0});
  const bool truncates = baseline.dot.kind == Dot::Kind::kAligned && sum.dtype == DType::kF32;
  const auto chunk_of = [&](int64_t k) {
    return (rows && sum.of_all_rows ? places_.rows[static_cast<size_t>(k)] : k) / chunk;
  };
  for (int64_t first = 0, end = 0; first < depth; first = end) {
    while (end < depth && chunk_of(end) == chunk_of(first)) ++end;
    block.depth = end - first;
    Multiply(baseline.dot, block);
    for (size_t i = 0; i < elements; ++i) {
      const Real each = sum.rounds_parts ? RoundTo(sum.dtype, part[i]) : part[i];
      total[i] = truncates ? TruncatedSum(total[i], each) : RoundTo(sum.dtype, total[i] + each);
    }
    block.a += block.depth;
    block.b += block.depth * kPanelColumns;
  }
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
      // Panels are groups of neighbours.
      const int64_t column = places_.hidden_columns[static_cast<size_t>(first)];
      for (int64_t c = 0; c < v; ++c) {
        ReadRow(problem_.weight, c,
                std::span(panel).subspan(static_cast<size_t>(c * kPanelColumns),
                                         static_cast<size_t>(width)),
                column);
      }
      KeepBits(bits, panel);
      for (size_t b = 0; b < all->size(); ++b) {
        const Baseline& baseline = baselines[b];
        Product(baseline, Chosen(baseline.shortcuts.hidden_sum, baseline.hidden_sum), false,
                {d[b].data(), v, panel.data(), v, rows(), sums.data(), kPanelColumns, false});
        for (int64_t r = 0; r < rows(); ++r) {
          std::copy_n(sums.data() + r * kPanelColumns, width,
                      (*all)[b].grad_hidden.data() + r * columns + first);
        }
      }
    }
  });
}

template <class Real>
void Simulation<Real>::Weight(const Baseline& baseline, const std::vector<Real>& d,
                              Simulated<Real>* out) const {
  const int64_t v = columns(), h = problem_.hidden_size(), n = rows();
  const int64_t elements = places_.weight_elements > 0 ? std::min(h, places_.weight_elements) : h;
  const auto count = static_cast<int64_t>(places_.weight_rows.size());
  std::vector<Real> a(static_cast<size_t>(count * n));
  for (int64_t c = 0; c < count; ++c) {
    for (int64_t r = 0; r < n; ++r) {
      a[static_cast<size_t>(c * n + r)] =
          d[static_cast<size_t>(r * v) + ColumnOf(static_cast<size_t>(c))];
    }
  }
  out->grad_weight.resize(static_cast<size_t>(count * elements));
  KeepBits(baseline.operand_bits, std::span<Real>(a));
  oracle::ParallelRanges(
      options_.threads, (elements + kPanelColumns - 1) / kPanelColumns,
      [&](int, int64_t begin, int64_t end) {
        std::vector<float> panel(static_cast<size_t>(n * kPanelColumns));
        std::vector<Real> sums(static_cast<size_t>(count * kPanelColumns));
        for (int64_t p = begin; p < end && !Interrupted(); ++p) {
          const int64_t first = p * kPanelColumns, width = std::min(kPanelColumns, elements - first);
          for (int64_t r = 0; r < n; ++r) {
            std::copy_n(hidden_.data() + r * h + first, width, panel.data() + r * kPanelColumns);
          }
          KeepBits(baseline.operand_bits, panel);
          Product(baseline, Chosen(baseline.shortcuts.weight_sum, baseline.weight_sum), true,
                  {a.data(), n, panel.data(), n, count, sums.data(), kPanelColumns, false});
          for (int64_t c = 0; c < count; ++c) {
            std::copy_n(sums.data() + c * kPanelColumns, width,
                        out->grad_weight.data() + c * elements + first);
          }
        }
      });
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

template <class Real>
std::vector<Simulated<Real>> Simulation<Real>::RunFamily(const std::vector<Baseline>& baselines) {
  std::vector<Simulated<Real>> all = Run(baselines);
  if (!all.empty()) all.front().spread = SpreadOf(this, baselines, all.front());
  return all;
}

template class Simulation<float>;
template class Simulation<double>;

}  // namespace plumbline::fuzz
