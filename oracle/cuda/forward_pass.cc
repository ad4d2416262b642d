// SPDX-License-Identifier: Apache-2.0

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "oracle/budget/budget.h"
#include "oracle/budget/overflow.h"
#include "oracle/budget/rounded_logits.h"
#include "oracle/budget/row.h"
#include "oracle/cuda/device_sweep.h"

namespace plumbline::oracle::cuda {
void DeviceSweep::WidenWeight(int64_t first, int64_t count) {
  Widen(Matrix::Of(problem_.weight), nullptr, first, count, h_, target_.least_operand,
        Of<double>(arena_.weight), Of<double>(arena_.weight_magnitude), h_ld_);
}

Logits DeviceSweep::BlockLogits() const {
  return {Of<double>(arena_.logits), Of<double>(arena_.abs_sums), Of<double>(arena_.weight_lsb), v_,
          v_ld_};
}

void DeviceSweep::FormLogits(int64_t begin, int64_t end) {
  const int64_t rows = end - begin;
  auto* const list = Of<int64_t>(arena_.list);
  Upload(std::vector<int64_t>(normal_.begin() + begin, normal_.begin() + end), list);
  auto* const hidden = Of<double>(arena_.hidden);
  auto* const magnitude = Of<double>(arena_.hidden_magnitude);
  Widen(Matrix::Of(problem_.hidden), list, 0, rows, h_, target_.least_operand, hidden, magnitude,
        h_ld_);
  LowestBits(hidden, rows, h_, h_ld_, Of<double>(arena_.lowest));
  const std::vector<double> lowest = Download(Of<double>(arena_.lowest), rows, "widening hidden");
  for (int64_t r = 0; r < rows; ++r) {
    hidden_lsb_[static_cast<size_t>(begin + r)] = lowest[static_cast<size_t>(r)];
  }
  const auto bytes = static_cast<size_t>(rows * v_ld_) * sizeof(double);
  if (h_ == 0) {
    Check(cudaMemset(arena_.logits.data(), 0, bytes), "logits of H = 0");
    Check(cudaMemset(arena_.abs_sums.data(), 0, bytes), "logits of H = 0");
  }
  ForEachChunk([&](int64_t first, int64_t count) {
    WidenWeight(first, count);
    LowestBits(Of<double>(arena_.weight), count, h_, h_ld_, Of<double>(arena_.weight_lsb, first));
    if (h_ == 0) return;
    blas_.Multiply(rows, count, h_, {hidden, h_ld_}, {Of<double>(arena_.weight), h_ld_, true}, false,
                   Of<double>(arena_.logits, first), v_ld_);
    blas_.Multiply(rows, count, h_, {magnitude, h_ld_},
                   {Of<double>(arena_.weight_magnitude), h_ld_, true}, false,
                   Of<double>(arena_.abs_sums, first), v_ld_);
  });
  RoundBlock(begin, end);
}

// Rounds the logits of a block as the contract says. Needs hidden, widened, on the device.
void DeviceSweep::RoundBlock(int64_t begin, int64_t end) {
  if (!target_.RoundsLogits()) return;
  std::vector<RoundedRow> rows(static_cast<size_t>(end - begin));
  for (size_t r = 0; r < rows.size(); ++r) {
    const auto at = static_cast<size_t>(begin) + r, i = static_cast<size_t>(normal_[at]);
    const Arithmetic& target = by_temperature_.At(inputs_.temperature[i]);
    rows[r].terms.hidden_lsb = hidden_lsb_[at];
    rows[r].logits = UnroundedTermsOf(target, h_);
    rows[r].steps = StepsOf(target, inputs_.temperature[i]);
    rows[r].reference = ReferenceGamma(h_);
  }
  auto* const device_rows = Of<RoundedRow>(arena_.rounded);
  Upload(rows, device_rows);
  auto* const count = Of<unsigned long long>(arena_.ties);
  auto* const ties = reinterpret_cast<Tie*>(count + 1);
  Check(cudaMemset(count, 0, sizeof *count), "logits near a tie");
  RoundLogits(Of<double>(arena_.logits), Of<double>(arena_.abs_sums), Of<double>(arena_.weight_lsb), v_,
              v_ld_, device_rows, end - begin, ties, count, kMostTies);
  const uint64_t found = Download(count, 1, "rounding the logits").front();
  if (found > kMostTies) {
    throw DeviceError(std::to_string(found) +
                      " logits of one block lie too near a tie of contract.logits or "
                      "contract.scaled_logits for fp64; at most " +
                      std::to_string(kMostTies) + " are settled exactly");
  }
  for (const Tie& tie : Download(ties, static_cast<int64_t>(found), "logits near a tie")) {
    SettleTie(tie, rows[static_cast<size_t>(tie.row)]);
  }
}

// Rounds one logit by an exact sum on the host.
void DeviceSweep::SettleTie(const Tie& tie, const RoundedRow& row) {
  auto* const z = Of<double>(arena_.logits, tie.row * v_ld_ + tie.column);
  auto* const abs_sum = Of<double>(arena_.abs_sums, tie.row * v_ld_ + tie.column);
  WidenWeight(tie.column, 1);
  const std::vector<double> hidden =
      Download(Of<double>(arena_.hidden, tie.row * h_ld_), h_, "a row of hidden");
  const std::vector<double> weight = Download(Of<double>(arena_.weight), h_, "a row of weight");
  const double known = Download(z, 1, "a logit").front(), sum = Download(abs_sum, 1, "a logit").front();
  // What is asked for is not certified: an exact logit tells its side by itself.
  const double bound = row.logits.dot * sum + row.logits.underflow;
  const RoundedLogit rounded = RoundLogit(row.steps, {known, row.reference * sum, bound},
                                          [&] { return ExactDot(hidden, weight); });
  if (std::isfinite(rounded.bound)) Upload(std::vector<double>{rounded.value}, z);
  Upload(std::vector<double>{rounded.bound}, abs_sum);
}

const Arithmetic& DeviceSweep::TargetOf(int64_t r) const {
  return by_temperature_.At(rows_[static_cast<size_t>(r)].temperature);
}

RowTerms DeviceSweep::TermsOf(int64_t r) const {
  const auto at = static_cast<size_t>(r);
  return RowTermsOf(rows_[at], hidden_lsb_[at], TargetOf(r));
}

GradientTerms DeviceSweep::GradientOf(int64_t r, const Upstream& upstream) const {
  const auto at = static_cast<size_t>(r);
  return GradientTermsOf(rows_[at], budgets_[at], TargetOf(r), upstream);
}

// Computes rows_ and budgets_ of a block whose logits are formed.
void DeviceSweep::FindRows(int64_t begin, int64_t end) {
  const int64_t rows = end - begin;
  auto* const extremes = Of<Extremes>(arena_.row_results);
  FindExtremes(BlockLogits(), rows, extremes);
  const std::vector<Extremes> found = Download(extremes, rows, "the maxima of the logits");
  std::vector<int64_t> finite;  // by place in the block
  std::vector<RowTerms> terms;
  for (int64_t r = 0; r < rows; ++r) {
    const auto i = static_cast<size_t>(normal_[static_cast<size_t>(begin + r)]);
    Row& row = rows_[static_cast<size_t>(begin + r)];
    row = BeginRow(found[static_cast<size_t>(r)], v_, inputs_.temperature[i], inputs_.label[i],
                   target_.scaled_logits.has_value());
    if (row.row_class != RowClass::kFinite) continue;
    if (OutsideOfContract(row, target_)) {
      row.row_class = RowClass::kUnspecified;
      continue;
    }
    finite.push_back(r);
    terms.push_back(TermsOf(begin + r));
  }
  const auto count = static_cast<int64_t>(finite.size());
  auto* const list = Of<int64_t>(arena_.list);
  auto* const device_terms = Of<RowTerms>(arena_.terms);
  Upload(finite, list);
  Upload(terms, device_terms);
  auto* const sums = Of<RowSums>(arena_.row_results);
  SumWeights(BlockLogits(), list, device_terms, count, sums);
  const std::vector<RowSums> summed = Download(sums, count, "the sums over the vocabulary");
  for (size_t f = 0; f < finite.size(); ++f) {
    FinishRow(summed[f].weights, summed[f].label_z, &rows_[static_cast<size_t>(begin + finite[f])]);
    terms[f] = TermsOf(begin + finite[f]);
  }
  Upload(terms, device_terms);
  FindBudgets(begin, finite);
  if (Gradients()) MarkOverflows(begin, finite);
}

// Needs the list and the terms of the finite rows on the device.
void DeviceSweep::FindBudgets(int64_t begin, const std::vector<int64_t>& finite) {
  const auto count = static_cast<int64_t>(finite.size());
  auto* const changes = Of<RowChanges>(arena_.row_results);
  SumMoments(BlockLogits(), common_, Of<int64_t>(arena_.list), Of<RowTerms>(arena_.terms), count,
             changes);
  const std::vector<RowChanges> found = Download(changes, count, "the moments of the errors");
  for (size_t f = 0; f < finite.size(); ++f) {
    const auto at = static_cast<size_t>(begin + finite[f]);
    budgets_[at] = BudgetForward(rows_[at], found[f].others, found[f].max, found[f].label,
                                 TargetOf(begin + finite[f]));
  }
}

void DeviceSweep::MarkOverflows(int64_t begin, const std::vector<int64_t>& finite) {
  std::vector<int64_t> rows, doubtful;
  std::vector<RowTerms> terms;
  std::vector<GradientTerms> gradient;
  for (const int64_t r : finite) {
    const auto at = static_cast<size_t>(begin + r);
    const auto i = static_cast<size_t>(normal_[at]);
    if (!std::isfinite(inputs_.g[i]) || !std::isfinite(inputs_.k[i])) continue;
    const Upstream upstream = {inputs_.g[i], inputs_.k[i], 0};
    if (!MayBeInfinite(rows_[at], budgets_[at], TargetOf(begin + r), upstream)) continue;
    rows.push_back(r);
    terms.push_back(TermsOf(begin + r));
    gradient.push_back(GradientOf(begin + r, upstream));
  }
  const auto count = static_cast<int64_t>(rows.size());
  if (count == 0) return;
  Upload(rows, Of<int64_t>(arena_.list));
  Upload(terms, Of<RowTerms>(arena_.terms));
  Upload(gradient, Of<GradientTerms>(arena_.gradient_terms));
  FindOverflows(BlockLogits(), common_, Of<int64_t>(arena_.list), Of<RowTerms>(arena_.terms),
                Of<GradientTerms>(arena_.gradient_terms), count, Of<int>(arena_.flags));
  const std::vector<int> flags = Download(Of<int>(arena_.flags), count, "d_logits that may overflow");
  for (size_t f = 0; f < rows.size(); ++f) {
    overflows_[static_cast<size_t>(begin + rows[f])] = static_cast<char>(flags[f]);
  }
}

void DeviceSweep::Forward(int64_t begin, int64_t end) {
  FormLogits(begin, end);
  FindRows(begin, end);
  for (int64_t r = begin; r < end; ++r) {
    const auto at = static_cast<size_t>(r), i = static_cast<size_t>(normal_[at]);
    const ForwardElements e = ForwardOf(rows_[at], budgets_[at], ratios_.forward);
    for (const auto& [output, element] : {std::pair(Output::kLogprob, e.logprob),
                                          {Output::kEntropy, e.entropy},
                                          {Output::kLse, e.lse}}) {
      if (forward_[output].elements.empty()) continue;
      forward_[output].elements[i] = Written(output, element, target_);
    }
    loss_.Add(e);
  }
}

}  // namespace plumbline::oracle::cuda
