// SPDX-License-Identifier: Apache-2.0
//
// The loss is the negated sum or mean of the logprobs of the same call (CONSISTENCY.md, "Loss").

#include <cmath>

#include "fuzz/base/text.h"
#include "fuzz/consistency/context.h"

namespace plumbline::fuzz {

void CheckLossSum(ConsistencyContext* context) {
  ConsistencyContext& c = *context;
  constexpr std::string_view kName = "loss-sum";
  if (!c.results.loss || !c.results.logprob) return;
  const oracle::Arithmetic& a = c.arithmetic.any;
  const bool mean = c.problem.reduction == kernel::Reduction::kMean;
  if (c.in().counted == 0) return c.LeaveOut(kName, "no row counts");
  double sum = 0, magnitude = 0, errors = 0, stored = 0;
  for (int64_t i = 0; i < c.problem.rows(); ++i) {
    const auto at = static_cast<size_t>(i);
    if (c.in().kind[at] == oracle::RowKind::kIgnored) continue;
    const RowErrors& e = c.rows[at];
    const double logprob = c.Value(c.results.logprob, i);
    if (!e.forward || !std::isfinite(logprob)) {
      return c.LeaveOut(kName, Text("nothing can be said of row %lld", c.NameOf(i)));
    }
    sum -= logprob;
    magnitude += std::fabs(logprob);
    // Both the loss and these logprobs may come of a pass of their own.
    errors += 2 * (e.logprob + e.logprob_slope * std::fabs(logprob));
    stored += c.Stored(oracle::Output::kLogprob, logprob);
  }
  const double loss = c.Value(c.results.loss, 0);
  if (!std::isfinite(loss)) return c.LeaveOut(kName, "the loss is no number");
  const double n = mean ? static_cast<double>(c.in().counted) : 1;
  const double additions = oracle::Gamma(static_cast<double>(c.in().n), a.u);
  const double output = (mean ? a.loss_division : 0) * std::fabs(loss) + 2 * a.u * std::fabs(loss) +
                        a.result_underflow + c.Stored(oracle::Output::kLoss, loss);
  const double rest = stored + 0x1p-50 * magnitude;
  const double tolerance = (errors + additions * (magnitude + errors) + rest) / n + output;
  // Where the loss is made of these very logprobs, each is rounded once to the dtype of its output.
  const double usual = ((additions + a.u) * magnitude + rest) / n + output;
  ConsistencyCheck check{.name = kName, .output = oracle::Output::kLoss};
  Compare(std::fabs(loss - sum / n), tolerance * (1 + 0x1p-20),
          c.options.statistical ? usual : std::numeric_limits<double>::infinity(),
          std::fabs(loss) + magnitude / n, -1, -1, &check);
  if (IsBroken(check)) {
    check.what = "the loss is " + Number(loss) + ", and minus the " + (mean ? "mean" : "sum") +
                 " of its logprobs " + Number(sum / n);
    const double near = std::min(check.usual, check.tolerance);
    const double all = sum / static_cast<double>(c.in().n);
    if (mean && c.in().counted != c.in().n && std::fabs(loss - all) <= near) {
      check.what += "; as if it were divided by the number of all rows, ignored ones too";
    }
    if (mean && std::fabs(loss - sum) <= near * n) check.what += "; it is their sum";
  }
  c.report.checks.push_back(std::move(check));
}

}  // namespace plumbline::fuzz
