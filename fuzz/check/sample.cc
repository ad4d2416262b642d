// SPDX-License-Identifier: Apache-2.0

#include "fuzz/check/sample.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <set>
#include <utility>

#include "fuzz/base/mix.h"
#include "oracle/judge/verdict.h"

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
  bool full() const { return rows_.size() >= count_; }
  std::vector<int64_t> rows() const { return {rows_.begin(), rows_.end()}; }

 private:
  size_t count_;
  std::set<int64_t> rows_;
};

bool WrongSign(Output output, double value) {
  return (output == Output::kLogprob && value > 0) || (output == Output::kEntropy && value < 0);
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
    int64_t least = 0, most = 0;
    for (int64_t i = 1; i < dump.problem.rows(); ++i) {
      const double value = oracle::ReadElement(*dump.output(o), i, 0);
      if (value < oracle::ReadElement(*dump.output(o), least, 0)) least = i;
      if (value > oracle::ReadElement(*dump.output(o), most, 0)) most = i;
    }
    chooser->Add(least);
    chooser->Add(most);
  }
}

void AddSpecialLabels(const Dump& dump, Chooser* chooser) {
  constexpr int kFew = 3;
  const kernel::Problem& p = dump.problem;
  int ignored = 0, invalid = 0;
  for (int64_t i = 0; i < p.rows(); ++i) {
    const int64_t label = oracle::ReadInt(p.labels, i);
    if (label == p.ignore_index) {
      chooser->AddSome(i, &ignored, kFew);
      continue;
    }
    const double t = p.temperature ? oracle::ReadElement(*p.temperature, i, 0) : 1;
    if (label < 0 || label >= p.vocab() || !(t > 0) || !std::isfinite(t)) {
      chooser->AddSome(i, &invalid, kFew);
    }
  }
}

Tensor Judged(const ConstTensor& t) {
  return {
      const_cast<void*>(t.data), t.dtype, t.rank, {t.shape[0], t.shape[1]}, {t.stride[0], t.stride[1]}};
}

}  // namespace

std::vector<int64_t> ChooseRows(const Dump& dump, int64_t count, uint64_t seed) {
  const int64_t n = dump.problem.rows();
  if (count == 0 || count >= n) {
    std::vector<int64_t> all(static_cast<size_t>(n));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  Chooser chooser(static_cast<size_t>(count));
  chooser.Add(0);
  chooser.Add(n - 1);
  // Suspicious rows are at most half: a dump that is wrong everywhere must still be sampled.
  AddSuspicious(dump, static_cast<int>(std::min<int64_t>(count / 2, 1 << 20)), &chooser);
  AddExtremes(dump, &chooser);
  AddSpecialLabels(dump, &chooser);
  for (uint64_t i = 0; !chooser.full(); ++i) {
    chooser.Add(static_cast<int64_t>(Mix(seed, i) % static_cast<uint64_t>(n)));
  }
  return chooser.rows();
}

DumpSample::DumpSample(const Dump& dump, std::vector<int64_t> rows)
    : rows_(std::move(rows)),
      all_(static_cast<int64_t>(rows_.size()) == dump.problem.rows()),
      wanted_(dump.wanted),
      problem_(dump.problem) {
  problem_.hidden = Gather(dump.problem.hidden);
  problem_.labels = Gather(dump.problem.labels);
  for (auto* tensor : {&problem_.temperature, &problem_.grad_logprob, &problem_.grad_entropy}) {
    if (*tensor && (*tensor)->rank > 0) **tensor = Gather(**tensor);
  }
  TakeOutputs(dump);
}

// Returns dense rows, or the tensor itself if all rows are wanted, so that a large dump is not copied.
ConstTensor DumpSample::Gather(const ConstTensor& from) {
  if (all_) return from;
  std::vector<int64_t> shape = {static_cast<int64_t>(rows_.size())};
  if (from.rank > 1) shape.push_back(from.shape[1]);
  HostTensor& to = storage_.emplace_back(HostTensor::Zeros(from.dtype, std::move(shape)));
  const size_t element = kernel::SizeOf(from.dtype);
  const size_t row_bytes = element * static_cast<size_t>(from.rank > 1 ? from.shape[1] : 1);
  for (size_t i = 0; i < rows_.size() && row_bytes > 0; ++i) {
    const auto* source = static_cast<const std::byte*>(from.data) +
                         static_cast<size_t>(rows_[i] * from.stride[0]) * element;
    std::memcpy(to.bytes.data() + i * row_bytes, source, row_bytes);
  }
  return to.View();
}

void DumpSample::TakeOutputs(const Dump& dump) {
  const auto per_row = [&](Output o, std::optional<Tensor>* result) {
    if (!dump.output(o)) return;
    const ConstTensor rows = dump.output(o)->rank == 0 ? *dump.output(o) : Gather(*dump.output(o));
    if (rows.dtype == DType::kF32) {
      *result = Judged(rows);
      return;
    }
    std::vector<int64_t> shape(rows.shape, rows.shape + rows.rank);
    HostTensor& wide = storage_.emplace_back(HostTensor::Zeros(DType::kF32, std::move(shape)));
    for (int64_t i = 0; i < wide.size(); ++i) {
      wide.SetFloat(i, static_cast<float>(oracle::ReadElement(rows, i, 0)));
    }
    *result = Judged(wide.View());
  };
  per_row(Output::kLogprob, &given_.logprob);
  per_row(Output::kEntropy, &given_.entropy);
  per_row(Output::kLse, &given_.lse);
  if (const auto& gradient = dump.output(Output::kGradHidden))
    given_.grad_hidden = Judged(Gather(*gradient));
  if (!all_) return;
  per_row(Output::kLoss, &given_.loss);
  if (const auto& gradient = dump.output(Output::kGradWeight)) given_.grad_weight = Judged(*gradient);
}

kernel::Results DumpSample::Wanted() const {
  const auto n = static_cast<int64_t>(rows_.size()), h = problem_.hidden_size(), v = problem_.vocab();
  const DType dtype = wanted_.fp32_grads ? DType::kF32 : problem_.hidden.dtype;
  const Tensor row{nullptr, DType::kF32, 1, {n, 1}, {1, 1}};
  const int64_t stride = std::max<int64_t>(h, 1);
  kernel::Results r;
  if (problem_.reduction == kernel::Reduction::kNone) {
    r.logprob = row;
  } else {
    r.loss = Tensor{nullptr, DType::kF32, 0, {1, 1}, {1, 1}};
  }
  if (wanted_.entropy) r.entropy = row;
  if (wanted_.lse) r.lse = row;
  if (wanted_.grad_hidden) r.grad_hidden = Tensor{nullptr, dtype, 2, {n, h}, {stride, 1}};
  if (wanted_.grad_weight && all_) r.grad_weight = Tensor{nullptr, dtype, 2, {v, h}, {stride, 1}};
  return r;
}

}  // namespace plumbline::fuzz
