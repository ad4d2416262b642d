// SPDX-License-Identifier: Apache-2.0
//
// Values of an fp32 output that all lie on the grid of a 16-bit dtype were stored in it; labels' logits
// that do were rounded to it (CONSISTENCY.md, "Grids").

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "fuzz/base/text.h"
#include "fuzz/consistency/context.h"
#include "oracle/numeric/pack.h"
#include "oracle/verdict/verdict.h"

namespace plumbline::fuzz {
namespace {

struct Grid {
  kernel::DType dtype;
  int bits;         // fraction bits
  double smallest;  // the least normal number
};
constexpr Grid kGrids[] = {{kernel::DType::kBf16, 7, 0x1p-126}, {kernel::DType::kF16, 10, 0x1p-14}};

// The distance between neighbours at |x|.
double Step(const Grid& grid, double x) {
  const double magnitude = std::max(std::fabs(x), grid.smallest);
  return std::ldexp(1.0, std::ilogb(magnitude) - grid.bits);
}

bool IsOn(const Grid& grid, double x) {
  if (std::fabs(x) > oracle::RoundingOf(grid.dtype).largest) return false;
  const double steps = x / Step(grid, x);
  return steps == std::nearbyint(steps);
}

// Values of an output, as far as needed: whether all lie on the grid, and how many have another
// significand than any before, the power of two left out.
class Seen {
 public:
  explicit Seen(const Grid& grid) : grid_(grid) {}
  void Add(double x) {
    if (x == 0 || !std::isfinite(x) || off_ > 0) return;
    ++values_;
    if (!IsOn(grid_, x)) {
      ++off_;
      return;
    }
    int exponent = 0;
    const double fraction = std::fabs(std::frexp(x, &exponent));
    if (fraction != 0.5) significands_.insert(fraction);
  }
  bool off() const { return off_ > 0; }
  int64_t values() const { return values_; }
  // log2 of the chance that as many fp32 values of uniform last bits all lie on the grid.
  double LogChance() const { return -static_cast<double>(significands_.size()) * (23 - grid_.bits); }

 private:
  Grid grid_;
  int64_t values_ = 0, off_ = 0;
  std::set<double> significands_;
};

// A row whose distribution is spread: its logarithms and probabilities are no exact numbers, as those
// of a row with one weight of 1 may be.
bool IsSpread(const ConsistencyContext& c, int64_t row) {
  constexpr double kLeast = 0x1p-6;
  if (c.in().kind[static_cast<size_t>(row)] != oracle::RowKind::kNormal) return false;
  if (c.results.entropy) return c.Value(c.results.entropy, row) >= kLeast;
  // A label with more than half of the mass is the maximum, and logprob is -ln s.
  const double logprob = c.Value(c.results.logprob, row);
  return logprob <= -kLeast && logprob >= -0.69;
}

bool AlreadyNarrow(const ConsistencyContext& c, oracle::Output output, const kernel::Tensor& tensor) {
  const auto& stored = c.options.stored[static_cast<size_t>(output)];
  return tensor.dtype != kernel::DType::kF32 || (stored && *stored != kernel::DType::kF32);
}

// Returns true if all values lie on the grid.
bool Conclude(const Grid& grid, oracle::Output output, const Seen& seen, ConsistencyContext* c) {
  const double enough = std::log2(kFalseAlarm / 16);  // outputs and grids
  if (!seen.off() && seen.LogChance() > enough) return false;
  ConsistencyCheck check{.name = grid.dtype == kernel::DType::kBf16 ? "bf16-grid" : "fp16-grid",
                         .output = output};
  check.compared = seen.values();
  check.left = seen.off() ? 0 : 1;
  check.tolerance = 1;
  check.usual = 0;
  check.verdict = seen.off() ? ConsistencyVerdict::kHolds : ConsistencyVerdict::kSuspect;
  if (!seen.off()) {
    const std::string dtype(kernel::Name(grid.dtype));
    check.what = Text("all %lld values of ", static_cast<long long>(seen.values())) +
                 std::string(oracle::Name(output)) + " lie on the grid of " + dtype +
                 ": the output, or what it is made of, was stored in " + dtype +
                 Text(" (by chance: 2^%.0f)", seen.LogChance());
  }
  c->report.checks.push_back(std::move(check));
  return !seen.off();
}

bool CheckGrid(const Grid& grid, oracle::Output output, const kernel::Tensor& tensor,
               ConsistencyContext* c) {
  Seen seen(grid);
  const bool by_row = output != oracle::Output::kGradWeight;
  for (int64_t i = 0; i < tensor.shape[0] && !seen.off(); ++i) {
    if (by_row && !IsSpread(*c, i)) continue;
    for (int64_t j = 0; j < (tensor.rank > 1 ? tensor.shape[1] : 1) && !seen.off(); ++j) {
      seen.Add(oracle::ReadElement(kernel::AsConst(tensor), i, j));
    }
  }
  return Conclude(grid, output, seen, c);
}

// The lowest bit of any product of the row's hidden with its label's weight: no logit is finer.
double LowestOf(const kernel::ConstTensor& matrix, int64_t row) {
  std::vector<double> value(static_cast<size_t>(matrix.shape[1]));
  oracle::LoadRow(oracle::Matrix::Of(matrix), row, matrix.shape[1], 0, value.data(), nullptr);
  double least = std::numeric_limits<double>::infinity();
  for (const double x : value) least = std::min(least, oracle::LowestBit(x));
  return least;
}

// log2 of the chance that the label's logit of a row lies as near to the grid as it does; nullopt where
// its error is too large or the logit too coarse to say, 0 where it is off.
struct Nearness {
  bool says = false, on = false;
  double log_chance = 0;
};
Nearness NearnessOf(const ConsistencyContext& c, const Grid& grid, int64_t row, double* logit) {
  const auto at = static_cast<size_t>(row);
  const oracle::Arithmetic& a = c.At(row);
  const double t = c.in().temperature[at];
  const double logprob = c.Value(c.results.logprob, row), lse = c.Value(c.results.lse, row);
  *logit = t * (logprob + lse);
  if (!std::isfinite(*logit)) return {};
  const double of_logit = a.scale_exact ? 0 : a.scale_roundings;
  const double error = (4 * a.u + a.argument_roundings + (t == 1 ? 0 : of_logit)) * t *
                       (std::fabs(logprob) + std::fabs(lse) + std::fabs(logprob + lse));
  const double step = Step(grid, *logit);
  const double finest = LowestOf(c.problem.hidden, row) * LowestOf(c.problem.weight, c.in().label[at]);
  if (!(error < step / 4) || !(finest <= step / 64)) return {};
  const double off = std::fabs(*logit - step * std::nearbyint(*logit / step));
  return {true, off <= error, std::log2(std::min(1.0, (2 * error + finest) / step))};
}

}  // namespace

void CheckOutputGrids(ConsistencyContext* context) {
  ConsistencyContext& c = *context;
  if (!c.statistical()) return;
  for (const oracle::Output output :
       {oracle::Output::kLogprob, oracle::Output::kEntropy, oracle::Output::kLse,
        oracle::Output::kGradHidden, oracle::Output::kGradWeight}) {
    const std::optional<kernel::Tensor>& tensor = oracle::Find(c.results, output);
    if (!tensor || AlreadyNarrow(c, output, *tensor)) continue;
    const oracle::Arithmetic& a = c.arithmetic.any;
    if (output == oracle::Output::kGradHidden && a.chunks_hidden > 0) continue;
    if (output == oracle::Output::kGradWeight && a.chunks_weight > 0) continue;
    for (const Grid& grid : kGrids) {
      if (CheckGrid(grid, output, *tensor, &c))
        break;  // the next grid is finer, and has the same values
    }
  }
}

void CheckLogitGrid(ConsistencyContext* context) {
  ConsistencyContext& c = *context;
  if (!c.statistical() || !c.results.logprob || !c.results.lse) return;
  if (AlreadyNarrow(c, oracle::Output::kLogprob, *c.results.logprob) ||
      AlreadyNarrow(c, oracle::Output::kLse, *c.results.lse)) {
    return;
  }
  for (const Grid& grid : kGrids) {
    std::set<double> logits;
    double log_chance = 0;
    bool off = false;
    for (int64_t i = 0; i < c.problem.rows() && !off; ++i) {
      const auto at = static_cast<size_t>(i);
      if (c.in().kind[at] != oracle::RowKind::kNormal || !c.rows[at].forward) continue;
      double logit = 0;
      const Nearness near = NearnessOf(c, grid, i, &logit);
      if (!near.says || !logits.insert(logit).second) continue;
      off = !near.on;
      log_chance += near.log_chance;
    }
    if (!off && log_chance > std::log2(kFalseAlarm / 2)) continue;
    const std::string dtype(kernel::Name(grid.dtype));
    ConsistencyCheck check{.name = grid.dtype == kernel::DType::kBf16 ? "bf16-logits" : "fp16-logits",
                           .output = oracle::Output::kLogprob};
    check.compared = static_cast<int64_t>(logits.size());
    check.left = off ? 0 : 1;
    check.tolerance = 1;
    check.usual = 0;
    check.verdict = off ? ConsistencyVerdict::kHolds : ConsistencyVerdict::kSuspect;
    if (!off) {
      check.what = Text(
          "the label's logit, T (logprob + lse), lies on the grid of %s in each of %zu rows: "
          "logits were rounded to %s (by chance: 2^%.0f)",
          dtype.c_str(), logits.size(), dtype.c_str(), log_chance);
    }
    c.report.checks.push_back(std::move(check));
    if (!off) return;  // the next grid is finer, and has the same values
  }
}

}  // namespace plumbline::fuzz
