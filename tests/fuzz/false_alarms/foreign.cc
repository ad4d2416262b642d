// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/false_alarms/foreign.h"

#include <algorithm>
#include <vector>

#include "tests/fuzz/false_alarms/outputs.h"
#include "tests/fuzz/honest/products.h"
#include "tests/fuzz/honest/softmax.h"

namespace plumbline::false_alarms {
namespace {

using honest::Kernel, honest::Narrow, honest::Operands, honest::Order;
using kernel::DType;

class Run {
 public:
  Run(const Kernel& k, bool pairwise, const ForeignInputs& from, const kernel::Results& results)
      : k_(k),
        pairwise_(pairwise),
        from_(from),
        results_(results),
        fp_(k),
        dtype_(from.problem.hidden.dtype),
        products_(k, dtype_ == DType::kF32, LeastExponent(dtype_)),
        v_(from.problem.vocab()),
        h_(from.problem.hidden_size()) {}
  void All();

 private:
  bool Backward() const { return results_.grad_hidden || results_.grad_weight; }
  void Forward(size_t r, const std::vector<float>& z, honest::Softmax* softmax);
  void DLogits(size_t r, const std::vector<float>& z, const honest::Softmax& softmax,
               std::vector<float>* dz) const;
  void Hidden(size_t r, const std::vector<float>& dz) const;
  void Weight(const std::vector<std::vector<float>>& dz) const;
  std::vector<float> RowOf(const std::vector<float>& all, size_t r) const;

  const Kernel& k_;
  const bool pairwise_;
  const ForeignInputs& from_;
  const kernel::Results& results_;
  const honest::Fp fp_;
  const DType dtype_;
  const honest::Products products_;
  const int64_t v_, h_;
};

std::vector<float> Run::RowOf(const std::vector<float>& all, size_t r) const {
  const auto first = all.begin() + static_cast<std::ptrdiff_t>(r) * v_;
  return {first, first + v_};
}

void Run::Forward(size_t r, const std::vector<float>& z, honest::Softmax* softmax) {
  const int64_t row = from_.places.rows[r], label = from_.inputs.label[static_cast<size_t>(row)];
  const float of_label =
      k_.label_separate ? from_.sums->One(k_, k_.label_order, r, label) : z[static_cast<size_t>(label)];
  const honest::RowOutputs out = softmax->Forward(z, of_label);
  if (results_.logprob) Write(*results_.logprob, row, 0, out.logprob);
  if (results_.entropy) Write(*results_.entropy, row, 0, out.entropy);
  if (results_.lse) Write(*results_.lse, row, 0, out.lse);
}

void Run::DLogits(size_t r, const std::vector<float>& z, const honest::Softmax& softmax,
                  std::vector<float>* dz) const {
  const auto row = static_cast<size_t>(from_.places.rows[r]);
  dz->resize(static_cast<size_t>(v_));
  softmax.Backward(z, from_.inputs.label[row], static_cast<float>(from_.inputs.g[row]),
                   static_cast<float>(from_.inputs.k[row]), dz);
  if (dtype_ == DType::kF32 || k_.d_logits_fp32) return;
  const Narrow format = dtype_ == DType::kBf16 ? Narrow::kBf16 : Narrow::kFp16;
  for (float& x : *dz) x = honest::ToNarrow(x, format);
}

void Run::Hidden(size_t r, const std::vector<float>& dz) const {
  for (size_t j = 0; j < from_.places.hidden_columns.size(); ++j) {
    const float sum = products_.GradHidden({dz.data(), 1}, {from_.columns.Of(j), 1}, v_);
    Write(*results_.grad_hidden, from_.places.rows[r], from_.places.hidden_columns[j], sum);
  }
}

void Run::Weight(const std::vector<std::vector<float>>& dz) const {
  const auto rows = static_cast<int64_t>(dz.size());
  const bool narrow = k_.accumulator != Narrow::kFp32;
  // As many rows as the kernel takes into its sums at once, in the order of rows.
  const int64_t at_once = products_.InPlanes()                  ? rows
                          : narrow                              ? k_.row_chunk
                          : k_.gradient_order == Order::kBlocks ? k_.block
                                                                : 1;
  std::vector<float> hidden(static_cast<size_t>(rows * h_)), of_column(dz.size());
  for (size_t r = 0; r < dz.size(); ++r) {
    fuzz::ReadRow(from_.problem.hidden, from_.places.rows[r],
                  std::span(hidden).subspan(r * static_cast<size_t>(h_), static_cast<size_t>(h_)));
  }
  for (const int64_t v : from_.places.weight_rows) {
    for (size_t r = 0; r < dz.size(); ++r) of_column[r] = dz[r][static_cast<size_t>(v)];
    for (int64_t d = 0; d < h_; ++d) {
      float sum = 0;
      for (int64_t first = 0; first < rows; first += at_once) {
        const int64_t count = std::min(at_once, rows - first);
        const Operands a{of_column.data() + first, 1}, b{hidden.data() + first * h_ + d, h_};
        if (narrow) {
          const float part = products_.Sum(k_.gradient_order, a, b, count, 0);
          sum = honest::ToNarrow(fp_.Add(sum, part), k_.accumulator);
        } else {
          sum = products_.Sum(k_.gradient_order, a, b, count, sum);
        }
      }
      Write(*results_.grad_weight, v, d, sum);
    }
  }
}

void Run::All() {
  const std::vector<float>& z = from_.sums->Of(k_, k_.order, pairwise_);
  const bool again = k_.recompute && Backward();
  const std::vector<float>& seen = again ? from_.sums->Of(k_, k_.backward_order, false) : z;
  std::vector<std::vector<float>> dz(Backward() ? from_.places.rows.size() : 0);
  for (size_t r = 0; r < from_.places.rows.size(); ++r) {
    const auto row = static_cast<size_t>(from_.places.rows[r]);
    honest::Softmax softmax(k_, static_cast<float>(from_.inputs.temperature[row]),
                            dtype_ == DType::kBf16);
    const std::vector<float> logits = RowOf(z, r);
    Forward(r, logits, &softmax);
    if (!Backward()) continue;
    DLogits(r, again ? RowOf(seen, r) : logits, softmax, &dz[r]);
    if (results_.grad_hidden) Hidden(r, dz[r]);
  }
  if (results_.grad_weight) Weight(dz);
}

}  // namespace

WeightColumns::WeightColumns(const kernel::Problem& problem, const std::vector<int64_t>& columns)
    : v_(problem.vocab()) {
  const auto v = static_cast<size_t>(v_);
  columns_.resize(columns.size() * v);
  for (size_t i = 0; i < v; ++i) {
    for (size_t j = 0; j < columns.size(); ++j) {
      columns_[j * v + i] =
          static_cast<float>(oracle::ReadElement(problem.weight, static_cast<int64_t>(i), columns[j]));
    }
  }
}

void RunForeign(const Kernel& kernel, bool pairwise, const ForeignInputs& from,
                const kernel::Results& results) {
  Run(kernel, pairwise, from, results).All();
}

}  // namespace plumbline::false_alarms
