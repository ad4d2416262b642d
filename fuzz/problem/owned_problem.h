// SPDX-License-Identifier: Apache-2.0
//
// A problem that owns its bits: dense tensors, plus the layout that they are to have in memory. Cases
// are generated, stored and shrunk in this form. fuzz/examine/placement.h turns it into the strided
// views that a target sees.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/base/fields.h"
#include "kernel/problem.h"

namespace plumbline::fuzz {

// A dense, row-major tensor. A scalar has an empty shape.
struct HostTensor {
  kernel::DType dtype = kernel::DType::kF32;
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;

  int64_t size() const;  // elements
  static HostTensor Zeros(kernel::DType dtype, std::vector<int64_t> shape);

  // Read or write element i in row-major order. GetFloat widens exactly, SetFloat rounds to nearest
  // even.
  float GetFloat(int64_t i) const;
  void SetFloat(int64_t i, float value);
  int64_t GetInt(int64_t i) const;
  void SetInt(int64_t i, int64_t value);
  // The element's bits, zero-extended.
  uint64_t GetBits(int64_t i) const;
  void SetBits(int64_t i, uint64_t bits);

  kernel::ConstTensor View() const;  // dense
  bool operator==(const HostTensor&) const = default;
};

// Layout says how the dense tensors lie in memory when a target sees them. Values never depend on it,
// with one exception: a broadcast tensor has the value of its element or row 0 throughout.
inline constexpr int64_t kMaxStride = int64_t{1} << 33;  // limit for labels, gradients and padding

struct Layout {
  bool weight_hidden_major = false;  // weight stored [H, V]; grad_weight likewise
  int64_t hidden_padding = 0;        // elements between rows of hidden, and of grad_hidden
  int64_t weight_padding = 0;        // elements between rows (or columns) of weight, and of grad_weight
  int64_t label_offset = 0;          // elements by which labels start past an aligned address
  int64_t grad_stride = 1;           // grad_logprob's and grad_entropy's [N]; 0: broadcast element 0
  int64_t label_stride = 1;          // 0: broadcast label 0
  int64_t offset = 0;  // elements by which hidden, weight, upstream gradients and outputs start past an
                       // aligned address
  bool reversed = false;  // rows of all these lie last to first, weight's columns if hidden-major:
                          // strides are negative
  bool hidden_broadcast = false;   // hidden has stride 0: row 0 for all
  int64_t temperature_stride = 1;  // of a temperature [N]; never reversed
  int64_t output_stride = 1;       // of logprob, entropy and lse; never reversed
  // From one element of grad_hidden or grad_weight to its neighbour. Above 1 they are dense along
  // neither dimension, have no padding and are never reversed.
  int64_t gradient_step = 1;
  // The stride of every dimension of hidden and weight that has one element, where it means nothing.
  int64_t single_stride = 1;
  bool operator==(const Layout&) const = default;
};

// The outputs that are asked for, beside logprob (or loss).
struct Wanted {
  bool entropy = true;
  bool lse = true;
  bool grad_hidden = true;
  bool grad_weight = true;
  bool fp32_grads = false;
  bool first_invalid_row = true;  // false for a target that does not have it; no file says so
  bool operator==(const Wanted&) const = default;
};

struct OwnedProblem {
  HostTensor hidden;                       // [N, H]
  HostTensor weight;                       // [V, H], always vocab-major here
  HostTensor labels;                       // [N]
  std::optional<HostTensor> temperature;   // [] or [N]
  std::optional<HostTensor> grad_logprob;  // [N], or [] where reduction is not none
  std::optional<HostTensor> grad_entropy;  // [N]
  int64_t ignore_index = -100;
  kernel::Reduction reduction = kernel::Reduction::kNone;
  Layout layout;
  Wanted wanted;

  int64_t rows() const { return hidden.shape[0]; }
  int64_t hidden_size() const { return hidden.shape[1]; }
  int64_t vocab() const { return weight.shape[0]; }
  // True if the label is an entry of the vocabulary and its rows count.
  bool IsClass(int64_t label) const { return label != ignore_index && label >= 0 && label < vocab(); }
  bool operator==(const OwnedProblem&) const = default;
};

inline constexpr std::array<std::string_view, 3> kReductionNames = {"none", "sum", "mean"};

struct RequiredTensor {
  std::string_view name;
  HostTensor OwnedProblem::* tensor;
};
struct OptionalTensor {
  std::string_view name;
  std::optional<HostTensor> OwnedProblem::* tensor;
};
inline constexpr std::array kRequiredTensors = {RequiredTensor{"hidden", &OwnedProblem::hidden},
                                                RequiredTensor{"weight", &OwnedProblem::weight},
                                                RequiredTensor{"labels", &OwnedProblem::labels}};
inline constexpr std::array kOptionalTensors = {
    OptionalTensor{"temperature", &OwnedProblem::temperature},
    OptionalTensor{"grad_logprob", &OwnedProblem::grad_logprob},
    OptionalTensor{"grad_entropy", &OwnedProblem::grad_entropy}};

// Calls visit(name, tensor) for each of the six. The tensor is null if it is absent.
template <class Problem, class Visit>
void ForEachTensor(Problem& problem, const Visit& visit) {
  for (const RequiredTensor& member : kRequiredTensors) visit(member.name, &(problem.*member.tensor));
  for (const OptionalTensor& member : kOptionalTensors) {
    auto& tensor = problem.*member.tensor;
    visit(member.name, tensor ? &*tensor : nullptr);
  }
}

void Fields(FieldVisitor& io, OwnedProblem& problem);  // all but the tensors

// The number of values: N*H + V*H + N (labels) + the elements of every other tensor that is present.
// Shrinking makes it small.
int64_t ValueCount(const OwnedProblem& problem);

// Dense views, which the oracle reads: the layout is ignored, except that broadcast tensors have stride
// 0, as a target sees them. The problem must outlive the views.
kernel::Problem DenseView(const OwnedProblem& problem);

// Returns the reason why the problem is inconsistent, naming the tensor and its value: shapes that
// disagree, a wrong dtype, sizes that do not match. nullopt if it is consistent. Problems from files
// and command lines are checked here before anything runs.
std::optional<std::string> Inconsistency(const OwnedProblem& problem);

// Copies rows of a tensor whose last dimension is contiguous, in the order given. A scalar is the value
// of every row.
HostTensor GatherRows(const kernel::ConstTensor& from, const std::vector<int64_t>& rows);

// The problem made of some rows alone, in the order given: same weight, same options, and the labels,
// temperature and gradients of those rows. A scalar temperature or upstream gradient stays as it is.
OwnedProblem SelectRows(const OwnedProblem& problem, const std::vector<int64_t>& rows);

}  // namespace plumbline::fuzz
