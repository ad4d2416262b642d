// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/false_alarms/sums.h"

#include <algorithm>
#include <cmath>

#include "fuzz/baseline/simulate.h"
#include "tests/fuzz/honest/arithmetic.h"
#include "tests/fuzz/honest/products.h"

namespace plumbline::false_alarms {
namespace {

using fuzz::Dot, fuzz::kProductColumns, honest::Kernel, honest::Order;

constexpr int64_t kRun = 8;  // products of a leaf of a pairwise sum

}  // namespace

int LeastExponent(kernel::DType dtype) { return dtype == kernel::DType::kF16 ? -14 : -126; }

Sums::Sums(const kernel::Problem& problem, const std::vector<int64_t>& rows)
    : problem_(problem), rows_(rows), v_(problem.vocab()), h_(problem.hidden_size()) {
  hidden_.resize(rows.size() * static_cast<size_t>(h_));
  for (size_t r = 0; r < rows.size(); ++r) {
    fuzz::ReadRow(problem.hidden, rows[r],
                  std::span(hidden_).subspan(r * static_cast<size_t>(h_), static_cast<size_t>(h_)));
  }
}

// Where products are exact, a chain that fuses has the bits of one that does not; and what a kernel
// makes of operands of 24 bits on a tensor core is left to its own code. Nothing is subnormal here.
bool Sums::HasForm(Order order) const {
  return problem_.hidden.dtype != kernel::DType::kF32 || order == Order::kFused ||
         order == Order::kReversed;
}

Sums::Form Sums::FormOf(const Kernel& kernel, Order order, bool pairwise) const {
  Form form;
  form.dot = {Dot::Kind::kChain, 1, 0, order == Order::kReversed};
  if (pairwise) {
    form.pairwise = true;
    return form;
  }
  if (order == Order::kBlocks) {
    form.dot = {Dot::Kind::kAligned, kernel.block, kernel.extra_bits, false};
    form.truncate_parts = kernel.split > 1;
  }
  if (order == Order::kTruncated) form.dot.kind = Dot::Kind::kTowardZero;
  if (kernel.split > 1) form.part = (h_ + kernel.split - 1) / kernel.split;
  return form;
}

// Adds up one panel: `a` is [rows][H], `panel` [H][kProductColumns], both reversed where the dot
// product is and it has one part; `to` is [rows][kProductColumns].
void Sums::SumPanel(const Form& form, const float* a, const float* panel, float* to) const {
  const auto rows = static_cast<int64_t>(rows_.size());
  const auto count = static_cast<size_t>(rows * kProductColumns);
  const int64_t length = form.pairwise ? kRun : form.part > 0 ? form.part : h_;
  std::vector<std::vector<float>> parts;
  for (int64_t first = 0; first < h_; first += length) {
    parts.emplace_back(count);
    fuzz::Multiply(form.dot, fuzz::ProductBlock<float>{a + first, h_, panel + first * kProductColumns,
                                                       std::min(length, h_ - first), rows,
                                                       parts.back().data(), kProductColumns, false});
  }
  const auto add = [&](const std::vector<float>& from, std::vector<float>* sum) {
    for (size_t i = 0; i < count; ++i) {
      (*sum)[i] = form.truncate_parts ? honest::TruncatedAdd((*sum)[i], from[i]) : (*sum)[i] + from[i];
    }
  };
  if (form.pairwise) {
    for (size_t width = parts.size(); width > 1; width = (width + 1) / 2) {
      for (size_t i = 0; i < width / 2; ++i) add(parts[(width + 1) / 2 + i], &parts[i]);
    }
  } else {
    for (size_t i = 1; i < parts.size(); ++i) add(parts[i], &parts[0]);
  }
  std::ranges::copy(parts[0], to);
}

std::vector<float> Sums::Vectorised(const Form& form) const {
  const auto rows = static_cast<int64_t>(rows_.size());
  const auto h = static_cast<size_t>(h_);
  // A reversed sum in parts reverses each: its parts are in the same order.
  const int64_t length = form.part > 0 ? form.part : h_;
  const auto at = [&](int64_t k) {
    if (!form.dot.reversed) return k;
    const int64_t first = k / length * length, last = std::min(h_, first + length);
    return first + last - 1 - k;
  };
  std::vector<float> a(hidden_.size());
  for (size_t r = 0; r < rows_.size(); ++r) {
    for (int64_t k = 0; k < h_; ++k) {
      a[r * h + static_cast<size_t>(k)] = hidden_[r * h + static_cast<size_t>(at(k))];
    }
  }
  std::vector<float> z(rows_.size() * static_cast<size_t>(v_));
  std::vector<float> line(h), lines(h * kProductColumns), panel(h * kProductColumns);
  std::vector<float> sums(static_cast<size_t>(rows * kProductColumns));
  for (int64_t first = 0; first < v_; first += kProductColumns) {
    const int64_t width = std::min(kProductColumns, v_ - first);
    for (int64_t j = 0; j < width; ++j) {
      fuzz::ReadRow(problem_.weight, first + j, line);
      float* const to = lines.data() + static_cast<size_t>(j) * h;
      for (int64_t k = 0; k < h_; ++k) to[k] = line[static_cast<size_t>(at(k))];
    }
    fuzz::MakePanel(lines.data(), h_, width, panel.data());
    SumPanel(form, a.data(), panel.data(), sums.data());
    for (int64_t r = 0; r < rows; ++r) {
      std::copy_n(sums.data() + r * kProductColumns, width, z.data() + r * v_ + first);
    }
  }
  return z;
}

float Sums::One(const Kernel& kernel, Order order, size_t row, int64_t column) const {
  const honest::Products products(kernel, problem_.hidden.dtype == kernel::DType::kF32,
                                  LeastExponent(problem_.hidden.dtype));
  std::vector<float> line(static_cast<size_t>(h_));
  fuzz::ReadRow(problem_.weight, column, line);
  return products.Logit(order, hidden_.data() + row * static_cast<size_t>(h_), line.data(), h_);
}

std::vector<float> Sums::Scalar(const Kernel& kernel, Order order) const {
  const honest::Products products(kernel, problem_.hidden.dtype == kernel::DType::kF32,
                                  LeastExponent(problem_.hidden.dtype));
  std::vector<float> z(rows_.size() * static_cast<size_t>(v_)), line(static_cast<size_t>(h_));
  for (int64_t v = 0; v < v_; ++v) {
    fuzz::ReadRow(problem_.weight, v, line);
    for (size_t r = 0; r < rows_.size(); ++r) {
      z[r * static_cast<size_t>(v_) + static_cast<size_t>(v)] =
          products.Logit(order, hidden_.data() + r * static_cast<size_t>(h_), line.data(), h_);
    }
  }
  return z;
}

const std::vector<float>& Sums::Of(const Kernel& kernel, Order order, bool pairwise) {
  Form form = FormOf(kernel, order, pairwise);
  const bool vectorised = pairwise || HasForm(order);
  if (!vectorised) {
    form.kernel = kernel.name;
    form.order = order;
  }
  for (const auto& known : known_) {
    if (known->form == form) return known->z;
  }
  known_.push_back(
      std::make_unique<Known>(form, vectorised ? Vectorised(form) : Scalar(kernel, order)));
  return known_.back()->z;
}

}  // namespace plumbline::false_alarms
