// SPDX-License-Identifier: Apache-2.0

#include "fuzz/check/kept_columns.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>

#include "oracle/numeric/threads.h"

namespace plumbline::fuzz {

KeptColumns::KeptColumns(const RolloutRows& rows, int threads)
    : rows_(rows), sums_(rows.at.size()), rank_(rows.at.size()), below_(rows.at.size()) {
  for (std::vector<double>& sums : sums_) sums.resize(static_cast<size_t>(rows.logits->vocab()));
  oracle::ParallelRanges(
      threads, static_cast<int64_t>(rows.at.size()), [&](int /*worker*/, int64_t begin, int64_t end) {
        for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
          const std::span<const double> z = rows.logits->of(rows.at[i]);
          std::vector<double>& sums = sums_[i];
          std::ranges::copy(z, sums.begin());
          std::ranges::sort(sums, std::ranges::greater());
          const double own = z[static_cast<size_t>(rows.label[i])], most = sums.front();
          below_[i] = (most - own) / rows.temperature[i];
          rank_[i] = std::ranges::lower_bound(sums, own, std::ranges::greater()) - sums.begin();
          double sum = 0;
          for (double& value : sums) {
            sum += std::exp((value - most) / rows.temperature[i]);
            value = sum;
          }
        }
      });
}

double KeptColumns::SumOf(size_t row, int64_t columns) const {
  const double sum = sums_[row][static_cast<size_t>(columns - 1)];
  return rank_[row] < columns ? sum : sum + std::exp(-below_[row]);
}

double KeptColumns::TopK(size_t row, int64_t k) const { return -below_[row] - std::log(SumOf(row, k)); }

double KeptColumns::TopP(size_t row, double p) const {
  const std::vector<double>& sums = sums_[row];
  const auto last = std::ranges::lower_bound(sums, p * sums.back());
  const int64_t columns = std::min<int64_t>(last - sums.begin() + 1, std::ssize(sums));
  return -below_[row] - std::log(SumOf(row, columns));
}

int64_t KeptColumns::FittedK(const std::vector<size_t>& fitted) const {
  std::vector<double> misfit(static_cast<size_t>(rows_.logits->vocab()));
  for (const size_t i : fitted) {
    for (size_t k = 0; k < misfit.size(); ++k) {
      const double left = rows_.given[i] - TopK(i, static_cast<int64_t>(k) + 1);
      misfit[k] += left * left;
    }
  }
  return std::ranges::min_element(misfit) - misfit.begin() + 1;
}

double KeptColumns::FittedP(const std::vector<size_t>& fitted) const {
  std::vector<double> tried;
  for (int percent = 1; percent < 100; ++percent) tried.push_back(percent / 100.0);
  tried.insert(tried.end(), {0.995, 0.999});
  for (const size_t i : fitted) {
    // Rounding must not put the share above the mass of the very columns that make it.
    const double mass = std::exp(rows_.exact[i] - rows_.given[i]) * (1 - 1e-6);
    if (mass > 0 && mass < 1) tried.push_back(mass);
  }
  double best = 1, least = HUGE_VAL;
  for (const double p : tried) {
    double misfit = 0;
    for (const size_t i : fitted) {
      const double left = rows_.given[i] - TopP(i, p);
      misfit += left * left;
    }
    if (misfit < least) {
      least = misfit;
      best = p;
    }
  }
  return best;
}

}  // namespace plumbline::fuzz
