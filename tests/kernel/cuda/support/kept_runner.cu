// SPDX-License-Identifier: Apache-2.0
#include "tests/kernel/cuda/support/kept_runner.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>

#include "kernel/cuda/hopper/launch.h"

namespace plumbline::kernel::cuda {
namespace {

// The memory of one run. It keeps the first error.
class Memory {
 public:
  ~Memory() {
    for (void* p : all_) cudaFree(p);
  }
  template <class T>
  T* Copy(const std::vector<T>& from) {
    void* p = nullptr;
    Note(cudaMalloc(&p, std::max<size_t>(from.size(), 1) * sizeof(T)), "cudaMalloc");
    all_.push_back(p);
    Note(cudaMemcpy(p, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice), "copy");
    return static_cast<T*>(p);
  }
  template <class T>
  std::vector<T> Fetch(const T* from, size_t count) {
    std::vector<T> found(count);
    Note(cudaMemcpy(found.data(), from, count * sizeof(T), cudaMemcpyDeviceToHost), "result");
    return found;
  }
  void Note(cudaError_t error, const char* what) {
    if (error != cudaSuccess && error_.empty())
      error_ = std::string(what) + ": " + cudaGetErrorString(error);
  }
  void Note(const Status& status) {
    if (!status.ok() && error_.empty()) error_ = status.message;
  }
  const std::string& error() const { return error_; }

 private:
  std::vector<void*> all_;
  std::string error_;
};

template <class Element>
KeptOutcome Run(const KeptCase& c) {
  Memory memory;
  const auto up = [](int64_t x, int64_t to) { return (x + to - 1) / to * to; };
  // Rows of ones, followed by rows of zeros up to `rows`, because those are part of a depth.
  const auto ones = [&](int64_t rows, int64_t of_ones, int64_t columns) {
    const int64_t ld = up(columns, 8);
    std::vector<Element> values(size_t(rows * ld), Element(0.0f));
    std::fill_n(values.begin(), of_ones * ld, Element(1.0f));
    return Operand{memory.Copy(values), rows, columns, ld, rows * ld, 1};
  };
  std::vector<RowGradient> rows;
  for (const KeptTestRow& row : c.list) {
    rows.push_back({.max = 0,
                    .scale = 1,
                    .weight = row.weight,
                    .level = 1,
                    .slope = 0,
                    .label_gradient = row.label_gradient,
                    .label = row.label});
  }
  const size_t made = size_t(up(c.rows, 64) * c.ld);
  uint16_t* const d_logits = memory.Copy(std::vector<uint16_t>(made, KeptOutcome::kMark));
  Product both;
  both.live_rows = memory.Copy(std::vector<int32_t>{int32_t(c.live)});
  both.kept = {.logits = memory.Copy(c.logits),
               .logits_ld = c.logits_ld,
               .slot = memory.Copy(c.slot),
               .source = memory.Copy(c.source),
               .live = both.live_rows,
               .rows = memory.Copy(rows),
               .d_logits = d_logits,
               .ld = c.ld,
               .first_column = c.first_column,
               .columns = int32_t(c.columns)};
  both.kept_parts = c.hidden && c.weight ? 2 : 1;
  both.a = ones(up(c.rows, 64), c.live, c.depth);
  const size_t of_hidden = size_t(up(c.rows, 64) * up(c.hidden_size, 8)),
               of_weight = size_t(c.depth * c.hidden_size);
  float* const sums = memory.Copy(std::vector<float>(of_hidden, -1.0f));
  float* const grads = memory.Copy(std::vector<float>(of_weight, -1.0f));
  if (c.hidden && memory.error().empty()) {
    Product product = both;
    product.b = ones(c.depth, c.depth, c.hidden_size);
    product.m = c.rows;
    product.n = c.hidden_size;
    product.k = c.depth;
    memory.Note(hopper::GradHidden<Element>(
        product, {.sums = sums, .ld = up(c.hidden_size, 8), .columns = c.hidden_size, .first = true},
        nullptr));
  }
  if (c.weight && memory.error().empty()) {
    Product product = both;
    product.b = ones(up(c.rows, 64), c.live, c.hidden_size);
    product.m = c.depth;
    product.n = c.hidden_size;
    product.k = c.rows;
    product.live_is_depth = true;
    product.beside_previous = c.hidden;
    product.kept_part = both.kept_parts - 1;
    memory.Note(hopper::GradWeight<Element>(product,
                                            {.grad_weight = grads,
                                             .stored = Stored::kF32,
                                             .row_stride = c.hidden_size,
                                             .column_stride = 1,
                                             .rows = c.depth,
                                             .columns = c.hidden_size},
                                            nullptr));
  }
  memory.Note(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  KeptOutcome outcome;
  outcome.d_logits = memory.Fetch(d_logits, made);
  const auto count_wrong = [&](const std::vector<float>& found, int64_t rows_of, int64_t ld,
                               float want) {
    for (int64_t i = 0; i < rows_of; ++i) {
      for (int64_t j = 0; j < c.hidden_size; ++j)
        outcome.wrong_sums += found[size_t(i * ld + j)] == want ? 0 : 1;
    }
  };
  if (c.hidden)
    count_wrong(memory.Fetch(sums, of_hidden), c.live, up(c.hidden_size, 8), float(c.depth));
  if (c.weight) count_wrong(memory.Fetch(grads, of_weight), c.depth, c.hidden_size, float(c.live));
  outcome.error = memory.error();
  return outcome;
}

}  // namespace

KeptOutcome RunKept(const KeptCase& c) { return c.half ? Run<__half>(c) : Run<__nv_bfloat16>(c); }

}  // namespace plumbline::kernel::cuda
