// SPDX-License-Identifier: Apache-2.0
//
// Fano's inequality: a distribution that gives the label p has an entropy of at least that of (p, 1 -
// p), and of at most (1 - p) ln(V - 1) more (CONSISTENCY.md, "Entropy range").

#include <algorithm>
#include <cmath>

#include "fuzz/base/text.h"
#include "fuzz/consistency/context.h"

namespace plumbline::fuzz {
namespace {

// -p ln p - (1 - p) ln(1 - p) of p = e^logprob.
double BinaryEntropy(double logprob) {
  if (logprob >= 0) return 0;
  const double rest = -std::expm1(logprob);
  return -std::exp(logprob) * logprob - (rest > 0 ? rest * std::log(rest) : 0);
}

double MostEntropy(double logprob, int64_t vocab) {
  const double others = vocab > 1 ? std::log(static_cast<double>(vocab - 1)) : 0;
  return BinaryEntropy(logprob) - (logprob < 0 ? std::expm1(logprob) : 0) * others;
}

// The entropies of logprobs within `error`. The least of a unimodal function lies at an end; the most
// is ln V at p = 1/V, else at an end.
double Least(double logprob, double error) {
  return std::min(BinaryEntropy(logprob - error), BinaryEntropy(logprob + error));
}
double Most(double logprob, double error, int64_t vocab) {
  const double uniform = -std::log(static_cast<double>(vocab));
  if (logprob - error <= uniform && uniform <= logprob + error) return -uniform;
  return std::max(MostEntropy(logprob - error, vocab), MostEntropy(logprob + error, vocab));
}

struct Errors {
  double logprob = 0, entropy = 0;
};

// How far the entropy is outside of what the logprob allows, and what the errors allow of that.
struct Outside {
  double left = 0, allowed = 0;
};
// Without a logprob, which is then NaN, the entropy is between 0 and ln V.
Outside OutsideOf(double logprob, double entropy, const Errors& errors, int64_t vocab) {
  if (std::isnan(logprob)) {
    const double most = std::log(static_cast<double>(vocab));
    return {std::max({0.0, -entropy, entropy - most}), errors.entropy};
  }
  const double least = Least(logprob, 0), most = Most(logprob, 0, vocab);
  const double below = least - Least(logprob, errors.logprob);
  const double above = Most(logprob, errors.logprob, vocab) - most;
  if (entropy < least) return {least - entropy, below + errors.entropy};
  return {std::max(0.0, entropy - most), above + errors.entropy};
}

}  // namespace

void CheckEntropyRange(ConsistencyContext* context) {
  ConsistencyContext& c = *context;
  if (!c.results.entropy) return;
  const int64_t v = c.problem.vocab();
  ConsistencyCheck check{.name = "entropy-range", .output = oracle::Output::kEntropy};
  for (int64_t i = 0; i < c.problem.rows(); ++i) {
    const auto at = static_cast<size_t>(i);
    const RowErrors& e = c.rows[at];
    if (c.in().kind[at] != oracle::RowKind::kNormal || !e.forward) continue;
    const double entropy = c.Value(c.results.entropy, i);
    if (!std::isfinite(entropy)) continue;
    const double logprob = c.Value(c.results.logprob, i);
    if (c.results.logprob && !std::isfinite(logprob)) continue;
    const double evaluated = 0x1p-45 * (1 + std::fabs(entropy));
    const double of_logprob = c.results.logprob ? c.Stored(oracle::Output::kLogprob, logprob) : 0,
                 of_entropy = c.Stored(oracle::Output::kEntropy, entropy) + evaluated;
    const Errors most = {e.logprob + e.logprob_slope * std::fabs(logprob) + of_logprob,
                         e.entropy + of_entropy};
    const Outside outside = OutsideOf(logprob, entropy, most, v);
    double usual = std::numeric_limits<double>::infinity();
    if (c.statistical()) {
      const UsualRow& u = c.usual[at];
      const bool apart = e.moved > 0 || c.At(i).label_logit_separate;
      const double moved =
          apart ? TailFactor(c.problem.rows()) * 2 * u.dot_error / c.in().temperature[at] : 0;
      usual = OutsideOf(
                  logprob, entropy,
                  {u.errors.logprob + u.errors.logprob_slope * std::fabs(logprob) + moved + of_logprob,
                   u.errors.entropy + of_entropy},
                  v)
                  .allowed;
    }
    Compare(outside.left, outside.allowed, usual, std::max(0.5, std::log(static_cast<double>(v))), i,
            -1, &check);
    if (check.row != i) continue;
    check.what =
        c.results.logprob
            ? Text("logprob[%lld] = ", c.NameOf(i)) + Number(logprob) +
                  Text(" and entropy[%lld] = ", c.NameOf(i)) + Number(entropy) +
                  " are of no one distribution: with that logprob the entropy lies between " +
                  Number(Least(logprob, 0)) + " and " + Number(Most(logprob, 0, v))
            : Text("entropy[%lld] = ", c.NameOf(i)) + Number(entropy) + " is not between 0 and ln V";
  }
  if (!IsBroken(check)) check.what.clear();
  c.report.checks.push_back(std::move(check));
}

}  // namespace plumbline::fuzz
