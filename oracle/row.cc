// SPDX-License-Identifier: Apache-2.0

#include "oracle/row.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace plumbline::oracle {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kLeastNormalFloat = 0x1p-126;

bool IsSubnormalFloat(double x) { return x != 0 && std::fabs(x) < kLeastNormalFloat; }

// z and S for every column, ascending in d; vectorised over the vocabulary by the compiler.
void DotProducts(const Inputs& in, int64_t i, double least_operand, Row* row) {
  const auto v = static_cast<size_t>(in.v), h = static_cast<size_t>(in.h);
  const double* hidden = in.hidden.data() + static_cast<size_t>(i) * h;
  row->z.assign(v, 0.0);
  row->abs_sum.assign(v, 0.0);
  for (size_t d = 0; d < h; ++d) {
    const double x = hidden[d], abs_x = Magnitude(x, least_operand);
    const double* w = in.weight_t.data() + d * v;
    for (size_t c = 0; c < v; ++c) {
      row->z[c] += x * w[c];
      row->abs_sum[c] += abs_x * Magnitude(w[c], least_operand);
    }
  }
  row->lsb.resize(v);
  const int hidden_lsb = in.hidden_lsb[static_cast<size_t>(i)];
  for (size_t c = 0; c < v; ++c) row->lsb[c] = hidden_lsb + in.weight_lsb[c];
}

void FlushableProducts(const Inputs& in, int64_t i, Row* row) {
  row->flushable.clear();
  const auto v = static_cast<size_t>(in.v), h = static_cast<size_t>(in.h);
  const double* hidden = in.hidden.data() + static_cast<size_t>(i) * h;
  const bool any = std::any_of(hidden, hidden + h, IsSubnormalFloat) ||
                   std::any_of(in.weight.begin(), in.weight.end(), IsSubnormalFloat);
  if (!any) return;
  row->flushable.assign(v, 0.0);
  for (size_t c = 0; c < v; ++c) {
    const double* w = in.weight.data() + c * h;
    for (size_t d = 0; d < h; ++d) {
      if (IsSubnormalFloat(hidden[d]) || IsSubnormalFloat(w[d])) {
        row->flushable[c] += std::fabs(hidden[d] * w[d]);
      }
    }
  }
}

RowClass Classify(const Row& row) {
  bool any_finite = false;
  const double scale = std::max(1.0, 1.0 / row.temperature);
  for (size_t c = 0; c < row.z.size(); ++c) {
    if (std::isnan(row.z[c]) || row.z[c] == kInfinity) return RowClass::kNaN;
    any_finite = any_finite || row.z[c] != -kInfinity;
  }
  if (!any_finite) return RowClass::kNaN;
  for (size_t c = 0; c < row.z.size(); ++c) {
    if (row.z[c] != -kInfinity && !(row.abs_sum[c] * scale <= 0x1p126)) return RowClass::kUnspecified;
  }
  return RowClass::kFinite;
}

}  // namespace

void ComputeRow(const Inputs& in, int64_t i, double least_operand, Row* row) {
  row->temperature = in.temperature[static_cast<size_t>(i)];
  row->label = in.label[static_cast<size_t>(i)];
  DotProducts(in, i, least_operand, row);
  FlushableProducts(in, i, row);
  row->row_class = Classify(*row);
  if (row->row_class != RowClass::kFinite) return;
  if (row->temperature < 0x1p-100 || row->temperature > 0x1p100) {
    row->row_class = RowClass::kUnspecified;
    return;
  }

  const size_t v = row->z.size();
  row->argmax = std::max_element(row->z.begin(), row->z.end()) - row->z.begin();
  const double m = row->z[static_cast<size_t>(row->argmax)];
  row->max_x = m / row->temperature;
  row->t.resize(v);
  row->p.resize(v);
  double rest = 0, weighted = 0;
  for (size_t c = 0; c < v; ++c) {
    row->t[c] = (m - row->z[c]) / row->temperature;
    row->p[c] = std::exp(-row->t[c]);
    if (static_cast<int64_t>(c) == row->argmax) continue;
    rest += row->p[c];
    if (row->p[c] > 0) weighted += row->p[c] * row->t[c];
  }
  const double s = 1 + rest;
  for (double& p : row->p) p /= s;
  row->rest = rest;
  row->log_s = std::log1p(rest);
  row->mean_t = weighted / s;
  row->lse = row->max_x + row->log_s;
  row->entropy = row->log_s + row->mean_t;
  const double t_label = row->t[static_cast<size_t>(row->label)];
  row->logprob = 0 - (t_label + row->log_s);
}

}  // namespace plumbline::oracle
