// SPDX-License-Identifier: Apache-2.0
//
// The logits of some rows, in the order and arithmetic of a foreign kernel, vectorised where that gives
// the same bits: by fuzz/baseline/product.h.

#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "fuzz/baseline/product.h"
#include "kernel/problem.h"
#include "tests/fuzz/honest/kernel.h"

namespace plumbline::false_alarms {

class Sums {
 public:
  // What it refers to must outlive it. `rows`: of the problem.
  Sums(const kernel::Problem& problem, const std::vector<int64_t>& rows);

  // [rows][V], each in `order`, in as many parts as the kernel has; valid as long as this. `pairwise`:
  // in a tree over runs of eight products instead, each a chain.
  const std::vector<float>& Of(const honest::Kernel& kernel, honest::Order order, bool pairwise);
  // One logit, by the foreign kernel's own code.
  float One(const honest::Kernel& kernel, honest::Order order, size_t row, int64_t column) const;

 private:
  // How a sum over the depth goes.
  struct Form {
    fuzz::Dot dot;
    bool truncate_parts = false;
    int64_t part = 0;  // products of a part; 0: there is one
    bool pairwise = false;
    // Where the kernel's own code sums: whose.
    std::string_view kernel;
    honest::Order order = honest::Order::kFused;
    bool operator==(const Form&) const = default;
  };
  struct Known {
    Form form;
    std::vector<float> z;
  };
  // Whether Vectorised gives the kernel's bits.
  bool HasForm(honest::Order order) const;
  Form FormOf(const honest::Kernel& kernel, honest::Order order, bool pairwise) const;
  std::vector<float> Vectorised(const Form& form) const;
  std::vector<float> Scalar(const honest::Kernel& kernel, honest::Order order) const;
  void SumPanel(const Form& form, const float* a, const float* panel, float* to) const;

  const kernel::Problem& problem_;
  const std::vector<int64_t>& rows_;
  const int64_t v_, h_;
  std::vector<float> hidden_;  // [rows][H]
  std::vector<std::unique_ptr<Known>> known_;
};

// The exponent of the least normal number of a dtype of inputs.
int LeastExponent(kernel::DType dtype);

}  // namespace plumbline::false_alarms
