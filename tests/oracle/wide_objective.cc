// SPDX-License-Identifier: Apache-2.0

#include "tests/oracle/wide_objective.h"

#include <boost/multiprecision/cpp_bin_float.hpp>

namespace plumbline::oracle {
namespace {

using Wide = boost::multiprecision::number<
    boost::multiprecision::cpp_bin_float<256, boost::multiprecision::digit_base_2>,
    boost::multiprecision::et_off>;

struct RowValue {
  Wide logprob = 0, entropy = 0;
};

RowValue Row(const WideInputs& in, const std::vector<Wide>& hidden, const std::vector<Wide>& weight,
             size_t i) {
  const auto v = static_cast<size_t>(in.v), h = static_cast<size_t>(in.h);
  std::vector<Wide> x(v);
  Wide s = 0, mean = 0;
  for (size_t c = 0; c < v; ++c) {
    for (size_t d = 0; d < h; ++d) x[c] += hidden[i * h + d] * weight[c * h + d];
    x[c] /= in.temperature[i];
    const Wide e = exp(x[c]);
    s += e;
    mean += e * x[c];
  }
  const Wide lse = log(s);
  return {x[static_cast<size_t>(in.label[i])] - lse, lse - mean / s};
}

Wide Objective(const WideInputs& in, const std::vector<Wide>& hidden, const std::vector<Wide>& weight) {
  Wide sum = 0, logprobs = 0;
  int counted = 0;
  for (size_t i = 0; i < in.label.size(); ++i) {
    if (in.label[i] < 0) continue;
    ++counted;
    const RowValue row = Row(in, hidden, weight, i);
    if (in.reduction == kernel::Reduction::kNone) sum += in.grad_logprob[i] * row.logprob;
    logprobs += row.logprob;
    sum += in.grad_entropy[i] * row.entropy;
  }
  if (in.reduction == kernel::Reduction::kSum) sum -= in.grad_logprob[0] * logprobs;
  if (in.reduction == kernel::Reduction::kMean) sum -= in.grad_logprob[0] * logprobs / counted;
  return sum;
}

std::vector<Wide> Moved(const std::vector<double>& from, const std::vector<double>& direction,
                        const Wide& step) {
  std::vector<Wide> to;
  for (size_t e = 0; e < from.size(); ++e) to.push_back(from[e] + step * direction[e]);
  return to;
}

}  // namespace

double DirectionalDerivative(const WideInputs& in, const std::vector<double>& hidden_direction,
                             const std::vector<double>& weight_direction) {
  const auto slope = [&](int exponent) {
    const Wide step = ldexp(Wide(1), exponent), back = -step;
    const Wide up = Objective(in, Moved(in.hidden, hidden_direction, step),
                              Moved(in.weight, weight_direction, step));
    const Wide down = Objective(in, Moved(in.hidden, hidden_direction, back),
                                Moved(in.weight, weight_direction, back));
    return Wide((up - down) / (2 * step));
  };
  const Wide coarse = slope(-40), fine = slope(-41);
  return static_cast<double>(Wide((4 * fine - coarse) / 3));
}

}  // namespace plumbline::oracle
