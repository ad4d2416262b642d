// SPDX-License-Identifier: Apache-2.0

#include "fuzz/check/sample.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "fuzz/base/mix.h"
#include "fuzz/problem/values.h"
#include "oracle/verdict/verdict.h"

namespace plumbline::fuzz {
namespace {

using kernel::ConstTensor;
using kernel::DType;
using kernel::Tensor;
using oracle::Output;

constexpr Output kPerRow[] = {Output::kLogprob, Output::kEntropy, Output::kLse};

// Adds rows until there are enough, counting how many of a kind were added.
class Chooser {
 public:
  explicit Chooser(size_t count) : count_(count) {}
  void Add(int64_t row) {
    if (rows_.size() < count_) rows_.insert(row);
  }
  // Adds the row, unless *added has reached `most`.
  void AddSome(int64_t row, int* added, int most) {
    if (*added >= most || rows_.contains(row)) return;
    ++*added;
    Add(row);
  }
  bool Has(int64_t row) const { return rows_.contains(row); }
  bool full() const { return rows_.size() >= count_; }
  std::vector<int64_t> rows() const { return {rows_.begin(), rows_.end()}; }

 private:
  size_t count_;
  std::set<int64_t> rows_;
};

bool WrongSign(Output output, double value) {
  return (output == Output::kLogprob && value > 0) || (output == Output::kEntropy && value < 0);
}

bool IsIgnored(const Dump& dump, int64_t row) {
  return oracle::ReadInt(dump.problem.labels, row) == dump.problem.ignore_index;
}

bool HasNonFinite(const ConstTensor& tensor, int64_t row) {
  for (int64_t j = 0; j < tensor.shape[1]; ++j) {
    if (!std::isfinite(oracle::ReadElement(tensor, row, j))) return true;
  }
  return false;
}

void AddSuspicious(const Dump& dump, int most, Chooser* chooser) {
  int added = 0;
  const int64_t n = dump.problem.rows();
  for (const Output o : kPerRow) {
    if (!dump.output(o)) continue;
    for (int64_t i = 0; i < n && added < most; ++i) {
      const double value = oracle::ReadElement(*dump.output(o), i, 0);
      if (IsIgnored(dump, i)) continue;  // whatever it holds
      if (!std::isfinite(value) || WrongSign(o, value)) chooser->AddSome(i, &added, most);
    }
  }
  const auto& gradient = dump.output(Output::kGradHidden);
  for (int64_t i = 0; gradient && i < n && added < most; ++i) {
    if (HasNonFinite(*gradient, i)) chooser->AddSome(i, &added, most);
  }
}

void AddExtremes(const Dump& dump, Chooser* chooser) {
  for (const Output o : kPerRow) {
    if (!dump.output(o)) continue;
    std::pair<double, int64_t> least = {HUGE_VAL, -1}, most = {-HUGE_VAL, -1};  // of finite values
    for (int64_t i = 0; i < dump.problem.rows(); ++i) {
      const double value = oracle::ReadElement(*dump.output(o), i, 0);
      if (!std::isfinite(value) || IsIgnored(dump, i)) continue;
      if (value < least.first) least = {value, i};
      if (value > most.first) most = {value, i};
    }
    for (const int64_t row : {least.second, most.second}) {
      if (row >= 0) chooser->Add(row);
    }
  }
}

void AddSpecialLabels(const Dump& dump, Chooser* chooser) {
  constexpr int kFew = 3;
  const kernel::Problem& p = dump.problem;
  int ignored = 0, invalid = 0;
  for (int64_t i = 0; i < p.rows(); ++i) {
    const int64_t label = oracle::ReadInt(p.labels, i);
    if (IsIgnored(dump, i)) {
      chooser->AddSome(i, &ignored, kFew);
      continue;
    }
    const double t = p.temperature ? oracle::ReadElement(*p.temperature, i, 0) : 1;
    if (label < 0 || label >= p.vocab() || !(t > 0) || !std::isfinite(t)) {
      chooser->AddSome(i, &invalid, kFew);
    }
  }
}

}  // namespace

std::vector<int64_t> ChooseRows(const Dump& dump, int64_t count, uint64_t seed) {
  const int64_t n = dump.problem.rows();
  if (count == 0 || count >= n) return Iota(n);
  Chooser chooser(static_cast<size_t>(count));
  chooser.Add(0);
  chooser.Add(n - 1);
  // Suspicious rows are at most half: a dump that is wrong everywhere must still be sampled.
  AddSuspicious(dump, static_cast<int>(std::min<int64_t>(count / 2, 1 << 20)), &chooser);
  AddExtremes(dump, &chooser);
  AddSpecialLabels(dump, &chooser);
  // Ignored rows have nothing to judge: they are drawn once no others are left.
  int64_t left = dump.counted;
  for (const int64_t row : chooser.rows()) left -= !IsIgnored(dump, row);
  for (uint64_t i = 0; !chooser.full(); ++i) {
    const auto row = static_cast<int64_t>(Mix(seed, i) % static_cast<uint64_t>(n));
    const bool ignored = IsIgnored(dump, row);
    if (chooser.Has(row) || (ignored && left > 0)) continue;
    chooser.Add(row);
    left -= !ignored;
  }
  return chooser.rows();
}

DumpSample::DumpSample(const Dump& dump, std::vector<int64_t> rows)
    : dump_(dump),
      rows_(std::move(rows)),
      all_(static_cast<int64_t>(rows_.size()) == dump.problem.rows()),
      problem_(dump.problem) {
  problem_.hidden = Gather(dump.problem.hidden);
  problem_.labels = Gather(dump.problem.labels);
  for (auto* tensor : {&problem_.temperature, &problem_.grad_logprob, &problem_.grad_entropy}) {
    if (*tensor && (*tensor)->rank > 0) **tensor = Gather(**tensor);
  }
  TakeOutputs();
}

// Returns dense rows, or the tensor itself if all rows are wanted, so that a large dump is not copied.
ConstTensor DumpSample::Gather(const ConstTensor& from) {
  if (all_) return from;
  return storage_.emplace_back(GatherRows(from, rows_)).View();
}

void DumpSample::TakeOutputs() {
  for (const Output o : oracle::kOutputs) {
    const bool of_all_rows = o == Output::kLoss || o == Output::kGradWeight;
    if (!dump_.output(o) || (of_all_rows && !all_)) continue;
    ConstTensor rows = of_all_rows ? *dump_.output(o) : Gather(*dump_.output(o));
    const bool gradient = o == Output::kGradHidden || o == Output::kGradWeight;
    if (rows.dtype != DType::kF32 && !gradient) {
      std::vector<int64_t> shape(rows.shape, rows.shape + rows.rank);
      HostTensor& wide = storage_.emplace_back(HostTensor::Zeros(DType::kF32, std::move(shape)));
      for (int64_t i = 0; i < wide.size(); ++i) {
        wide.SetFloat(i, static_cast<float>(oracle::ReadElement(rows, i, 0)));
      }
      rows = wide.View();
    }
    oracle::Find(&given_, o) = AsResult(rows);
  }
}

kernel::Results DumpSample::Wanted() const {
  const auto n = static_cast<int64_t>(rows_.size()), h = problem_.hidden_size(), v = problem_.vocab();
  const DType dtype = dump_.wanted.fp32_grads ? DType::kF32 : problem_.hidden.dtype;
  const Tensor row{nullptr, DType::kF32, 1, {n, 1}, {1, 1}};
  const int64_t stride = std::max<int64_t>(h, 1);
  kernel::Results r;
  if (problem_.reduction == kernel::Reduction::kNone) {
    r.logprob = row;
  } else {
    r.loss = Tensor{nullptr, DType::kF32, 0, {1, 1}, {1, 1}};
  }
  if (dump_.wanted.entropy) r.entropy = row;
  if (dump_.wanted.lse) r.lse = row;
  if (dump_.wanted.grad_hidden) r.grad_hidden = Tensor{nullptr, dtype, 2, {n, h}, {stride, 1}};
  if (dump_.wanted.grad_weight && all_) r.grad_weight = Tensor{nullptr, dtype, 2, {v, h}, {stride, 1}};
  return r;
}

}  // namespace plumbline::fuzz
