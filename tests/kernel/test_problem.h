// SPDX-License-Identifier: Apache-2.0
//
// A problem with memory of its own, for the kernel's tests: values drawn by a seed, laid out as asked,
// outputs poisoned. Values are also kept as floats, so that a test can compute from them without the
// operator's own decoding.

#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "kernel/dtype.h"
#include "kernel/linear_cross_entropy.h"
#include "kernel/problem.h"
#include "kernel/status.h"

namespace plumbline::kernel {

// splitmix64 (Steele, Lea and Flood 2014).
class TestRandom {
 public:
  explicit TestRandom(uint64_t seed) : state_(seed) {}
  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  // Returns a roughly normal number of variance 1.
  float Bell() {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += static_cast<double>(Next() >> 11) * 0x1p-53;
    return static_cast<float>(sum);
  }

 private:
  uint64_t state_;
};

inline float RoundTo(DType dtype, float value) {
  if (dtype == DType::kBf16) return ToFloat(ToBFloat16(value));
  if (dtype == DType::kF16) return ToFloat(ToFloat16(value));
  return value;
}

inline void PutFloat(DType dtype, float value, std::byte* to) {
  if (dtype == DType::kBf16) {
    const BFloat16 x = ToBFloat16(value);
    std::memcpy(to, &x, sizeof x);
  } else if (dtype == DType::kF16) {
    const Float16 x = ToFloat16(value);
    std::memcpy(to, &x, sizeof x);
  } else {
    std::memcpy(to, &value, sizeof value);
  }
}

inline float GetFloat(DType dtype, const std::byte* from) {
  if (dtype == DType::kBf16) {
    BFloat16 x;
    std::memcpy(&x, from, sizeof x);
    return ToFloat(x);
  }
  if (dtype == DType::kF16) {
    Float16 x;
    std::memcpy(&x, from, sizeof x);
    return ToFloat(x);
  }
  float x;
  std::memcpy(&x, from, sizeof x);
  return x;
}

struct TestLayout {
  bool hidden_major = false;
  int64_t hidden_padding = 0, weight_padding = 0;
  int64_t label_offset = 0;
  int64_t vector_stride = 1;  // stride of temperature and the upstream gradients
  DType label_dtype = DType::kI64;
};

// Values of a problem; edit them freely, then Place them.
struct TestValues {
  DType dtype = DType::kF32;
  int64_t n = 0, v = 0, h = 0;
  std::vector<float> hidden, weight;  // row-major [n][h], [v][h]
  std::vector<int64_t> labels;
  std::vector<float> temperature;  // empty: absent; one: scalar; n: a row each
  std::vector<float> g, k;         // empty: absent; g of a reduction: one element
  bool scalar_temperature = false;
  int64_t ignore_index = -100;
  Reduction reduction = Reduction::kNone;
  bool fp32_grads = false;
  bool want_backward = true;

  // Draws logits of standard deviation about `spread`, labels in range, and every gradient.
  static TestValues Random(DType dtype, int64_t n, int64_t v, int64_t h, uint64_t seed,
                           float spread = 2) {
    TestValues values;
    values.dtype = dtype;
    values.n = n;
    values.v = v;
    values.h = h;
    TestRandom random(seed);
    const float scale = spread / std::sqrt(static_cast<float>(h > 0 ? h : 1));
    for (int64_t i = 0; i < n * h; ++i) values.hidden.push_back(RoundTo(dtype, random.Bell()));
    for (int64_t i = 0; i < v * h; ++i) values.weight.push_back(RoundTo(dtype, random.Bell() * scale));
    for (int64_t i = 0; i < n; ++i) {
      values.labels.push_back(
          static_cast<int64_t>(random.Next() % static_cast<uint64_t>(v > 0 ? v : 1)));
      values.g.push_back(random.Bell());
      values.k.push_back(random.Bell());
    }
    return values;
  }

  float& Hidden(int64_t i, int64_t d) { return hidden[static_cast<size_t>(i * h + d)]; }
  float& Weight(int64_t j, int64_t d) { return weight[static_cast<size_t>(j * h + d)]; }

  // Returns the rows named, in that order, with the same weight.
  TestValues Rows(const std::vector<int64_t>& rows) const {
    TestValues out = *this;
    out.n = static_cast<int64_t>(rows.size());
    out.hidden.clear();
    out.labels.clear();
    const auto pick = [&](const std::vector<float>& from, std::vector<float>& to) {
      if (static_cast<int64_t>(from.size()) != n) return;
      to.clear();
      for (int64_t i : rows) to.push_back(from[static_cast<size_t>(i)]);
    };
    for (int64_t i : rows) {
      out.hidden.insert(out.hidden.end(), hidden.begin() + i * h, hidden.begin() + (i + 1) * h);
      out.labels.push_back(labels[static_cast<size_t>(i)]);
    }
    if (!scalar_temperature) pick(temperature, out.temperature);
    if (reduction == Reduction::kNone) pick(g, out.g);
    pick(k, out.k);
    return out;
  }
};

// The bits of every output, element by element in row-major order.
struct TestOutputs {
  std::vector<uint32_t> logprob, loss, entropy, lse, grad_hidden, grad_weight;
  int64_t first_invalid_row = -2;
  bool operator==(const TestOutputs&) const = default;

  static float Float(uint32_t bits) { return std::bit_cast<float>(bits); }
};

class PlacedProblem {
 public:
  explicit PlacedProblem(const TestValues& values, const TestLayout& layout = {})
      : values_(values), layout_(layout) {
    const int64_t n = values.n, v = values.v, h = values.h;
    Matrix(hidden_, values.dtype, values.hidden, n, h, false, layout.hidden_padding, problem_.hidden);
    Matrix(weight_, values.dtype, values.weight, v, h, layout.hidden_major, layout.weight_padding,
           problem_.weight);
    Labels();
    if (!values.temperature.empty()) {
      Vector(temperature_, values.temperature, values.scalar_temperature, problem_.temperature);
    }
    const bool reduced = values.reduction != Reduction::kNone;
    if (!values.g.empty()) Vector(g_, values.g, reduced, problem_.grad_logprob);
    if (!values.k.empty()) Vector(k_, values.k, false, problem_.grad_entropy);
    problem_.ignore_index = values.ignore_index;
    problem_.reduction = values.reduction;

    if (reduced) {
      results_.loss = Output(loss_, DType::kF32, {});
    } else {
      results_.logprob = Output(logprob_, DType::kF32, {n});
    }
    results_.entropy = Output(entropy_, DType::kF32, {n});
    results_.lse = Output(lse_, DType::kF32, {n});
    results_.first_invalid_row = Output(first_invalid_row_, DType::kI64, {});
    if (!values.want_backward) return;
    const DType dtype = values.fp32_grads ? DType::kF32 : values.dtype;
    results_.grad_hidden = Output(grad_hidden_, dtype, {n, h + layout.hidden_padding});
    results_.grad_hidden->shape[1] = h;
    if (layout.hidden_major) {
      results_.grad_weight = Output(grad_weight_, dtype, {h, v + layout.weight_padding});
      std::swap(results_.grad_weight->stride[0], results_.grad_weight->stride[1]);
    } else {
      results_.grad_weight = Output(grad_weight_, dtype, {v, h + layout.weight_padding});
    }
    results_.grad_weight->shape[0] = v;
    results_.grad_weight->shape[1] = h;
  }
  PlacedProblem(const PlacedProblem&) = delete;
  PlacedProblem& operator=(const PlacedProblem&) = delete;

  Problem& problem() { return problem_; }
  Results& results() { return results_; }

  TestOutputs Outputs() const {
    TestOutputs out;
    out.logprob = Read(results_.logprob);
    out.loss = Read(results_.loss);
    out.entropy = Read(results_.entropy);
    out.lse = Read(results_.lse);
    out.grad_hidden = Read(results_.grad_hidden);
    out.grad_weight = Read(results_.grad_weight);
    if (results_.first_invalid_row) {
      std::memcpy(&out.first_invalid_row, results_.first_invalid_row->data, sizeof(int64_t));
    }
    return out;
  }

 private:
  using Bytes = std::vector<std::byte>;
  static constexpr std::byte kPoison{0xff};  // NaN in every float type

  static void Matrix(Bytes& store, DType dtype, const std::vector<float>& values, int64_t rows,
                     int64_t columns, bool transposed, int64_t padding, ConstTensor& tensor) {
    const int64_t size = static_cast<int64_t>(SizeOf(dtype));
    const int64_t leading = (transposed ? rows : columns) + padding;
    store.assign(static_cast<size_t>((transposed ? columns : rows) * leading * size), kPoison);
    tensor = {store.data(), dtype, 2, {rows, columns}, {leading, 1}};
    if (transposed) std::swap(tensor.stride[0], tensor.stride[1]);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        PutFloat(dtype, values[static_cast<size_t>(i * columns + j)],
                 store.data() + (i * tensor.stride[0] + j * tensor.stride[1]) * size);
      }
    }
  }

  void Labels() {
    const int64_t size = static_cast<int64_t>(SizeOf(layout_.label_dtype));
    const int64_t offset = layout_.label_offset;
    labels_.assign(static_cast<size_t>((values_.n + offset) * size), kPoison);
    for (int64_t i = 0; i < values_.n; ++i) {
      const int64_t label = values_.labels[static_cast<size_t>(i)];
      const int32_t narrow = static_cast<int32_t>(label);
      std::memcpy(labels_.data() + (i + offset) * size,
                  size == 4 ? static_cast<const void*>(&narrow) : &label, static_cast<size_t>(size));
    }
    problem_.labels = {labels_.data() + offset * size, layout_.label_dtype, 1, {values_.n, 1}, {1, 1}};
  }

  void Vector(std::vector<float>& store, const std::vector<float>& values, bool scalar,
              std::optional<ConstTensor>& tensor) {
    const int64_t stride = scalar ? 1 : layout_.vector_stride;
    const int64_t count = static_cast<int64_t>(values.size());
    store.assign(static_cast<size_t>(count * stride + 1), 1e30f);
    for (int64_t i = count; i-- > 0;)
      store[static_cast<size_t>(i * stride)] = values[static_cast<size_t>(i)];
    tensor = ConstTensor{store.data(), DType::kF32, scalar ? 0 : 1, {count, 1}, {stride, 1}};
  }

  static Tensor Output(Bytes& store, DType dtype, const std::vector<int64_t>& shape) {
    Tensor tensor;
    tensor.dtype = dtype;
    tensor.rank = static_cast<int>(shape.size());
    int64_t size = 1;
    for (size_t d = shape.size(); d-- > 0;) {
      tensor.shape[d] = shape[d];
      tensor.stride[d] = size;
      size *= shape[d];
    }
    store.assign(static_cast<size_t>(size) * SizeOf(dtype), kPoison);
    tensor.data = store.data();
    return tensor;
  }

  static std::vector<uint32_t> Read(const std::optional<Tensor>& tensor) {
    std::vector<uint32_t> out;
    if (!tensor) return out;
    const auto* const data = static_cast<const std::byte*>(tensor->data);
    const int64_t rows = tensor->rank > 0 ? tensor->shape[0] : 1;
    const int64_t columns = tensor->rank > 1 ? tensor->shape[1] : 1;
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        const int64_t at = (tensor->rank > 0 ? i * tensor->stride[0] : 0) +
                           (tensor->rank > 1 ? j * tensor->stride[1] : 0);
        const float value =
            GetFloat(tensor->dtype, data + at * static_cast<int64_t>(SizeOf(tensor->dtype)));
        out.push_back(std::bit_cast<uint32_t>(value));
      }
    }
    return out;
  }

  TestValues values_;
  TestLayout layout_;
  Problem problem_;
  Results results_;
  Bytes hidden_, weight_, labels_;
  std::vector<float> temperature_, g_, k_;
  Bytes logprob_, loss_, entropy_, lse_, grad_hidden_, grad_weight_, first_invalid_row_;
};

// Named Compute because inside a test Run is testing::Test's own.
inline Status Compute(PlacedProblem& placed, const Execution& execution = {}) {
  return Run(placed.problem(), placed.results(), execution);
}

// Returns the outputs of a fresh placement.
inline TestOutputs Computed(const TestValues& values, const TestLayout& layout = {},
                            const Execution& execution = {}) {
  PlacedProblem placed(values, layout);
  const Status status = Compute(placed, execution);
  EXPECT_TRUE(status.ok() || status.code == Code::kInvalidData) << status.message;
  return placed.Outputs();
}

}  // namespace plumbline::kernel
