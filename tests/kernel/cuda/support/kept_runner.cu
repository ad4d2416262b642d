// SPDX-License-Identifier: Apache-2.0
#include "tests/kernel/cuda/support/kept_runner.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>

#include "kernel/cuda/hopper/launch.h"
#include "tests/kernel/cuda/support/device_memory.h"

namespace plumbline::kernel::cuda {
namespace {

int64_t RoundUp(int64_t x, int64_t to) { return (x + to - 1) / to * to; }

std::vector<uint16_t> InFp16(const std::vector<float>& floats) {
  std::vector<uint16_t> bits;
  for (const float x : floats) bits.push_back(__half_as_ushort(__float2half_rn(x)));
  return bits;
}

// A case in device memory, and where its products store.
template <class Element>
class KeptRun {
 public:
  explicit KeptRun(const KeptCase& c)
      : c_(c),
        rows_(RoundUp(c.rows, 64)),
        sums_ld_(RoundUp(c.hidden_size, 8)),
        d_logits_(memory_.Copy(std::vector<uint16_t>(size_t(rows_ * c.ld), KeptOutcome::kMark))),
        sums_(memory_.Copy(std::vector<float>(size_t(rows_ * sums_ld_), -1.0f))),
        grads_(memory_.Copy(std::vector<float>(size_t(c.depth * c.hidden_size), -1.0f))) {
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
    both_.live_rows = memory_.Copy(std::vector<int32_t>{int32_t(c.live)});
    both_.kept = {.logits = c.exponents ? nullptr : memory_.Copy(c.kept),
                  .exponents = c.exponents ? memory_.Copy(InFp16(c.kept)) : nullptr,
                  .kept_ld = c.kept_ld,
                  .offsets = {memory_.Copy(c.offsets), c.offsets_ld, c.first_tile},
                  .tile_columns = KeptCase::kTileColumns,
                  .slot = memory_.Copy(c.slot),
                  .source = memory_.Copy(c.source),
                  .live = both_.live_rows,
                  .rows = memory_.Copy(rows),
                  .d_logits = d_logits_,
                  .ld = c.ld,
                  .first_column = c.first_column,
                  .columns = int32_t(c.columns)};
    // With both, grad_weight makes two rows of three.
    both_.kept_parts = c.hidden && c.weight ? 3 : 1;
    both_.a = Ones(rows_, c.live, c.depth);
  }

  KeptOutcome Run() {
    if (c_.hidden && memory_.error().empty()) GradHidden();
    if (c_.weight && memory_.error().empty()) GradWeight();
    memory_.Note(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    KeptOutcome outcome;
    outcome.d_logits = memory_.Fetch(d_logits_, size_t(rows_ * c_.ld));
    if (c_.hidden) outcome.wrong_sums += WrongSums(sums_, c_.live, sums_ld_, float(c_.depth));
    if (c_.weight) outcome.wrong_sums += WrongSums(grads_, c_.depth, c_.hidden_size, float(c_.live));
    outcome.error = memory_.error();
    return outcome;
  }

 private:
  // Rows of ones, followed by rows of zeros up to `rows`, because those are part of a depth.
  Operand Ones(int64_t rows, int64_t of_ones, int64_t columns) {
    const int64_t ld = RoundUp(columns, 8);
    std::vector<Element> values(size_t(rows * ld), Element(0.0f));
    std::fill_n(values.begin(), of_ones * ld, Element(1.0f));
    return {memory_.Copy(values), rows, columns, ld, rows * ld, 1};
  }

  void GradHidden() {
    Product product = both_;
    product.b = Ones(c_.depth, c_.depth, c_.hidden_size);
    product.m = c_.rows;
    product.n = c_.hidden_size;
    product.k = c_.depth;
    memory_.Note(hopper::GradHidden<Element>(
        product, {.totals = sums_, .ld = sums_ld_, .columns = c_.hidden_size}, nullptr));
  }

  void GradWeight() {
    Product product = both_;
    product.b = Ones(rows_, c_.live, c_.hidden_size);
    product.m = c_.depth;
    product.n = c_.hidden_size;
    product.k = c_.rows;
    product.live_is_depth = true;
    product.beside_previous = c_.hidden;
    product.kept_part = c_.hidden ? 1 : 0;
    product.kept_count = both_.kept_parts - product.kept_part;
    memory_.Note(hopper::GradWeight<Element>(product,
                                             {.grad_weight = grads_,
                                              .stored = Stored::kF32,
                                              .row_stride = c_.hidden_size,
                                              .column_stride = 1,
                                              .rows = c_.depth,
                                              .columns = c_.hidden_size},
                                             nullptr));
  }

  int64_t WrongSums(const float* sums, int64_t rows, int64_t ld, float want) {
    const std::vector<float> found = memory_.Fetch(sums, size_t(rows * ld));
    int64_t wrong = 0;
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < c_.hidden_size; ++j) wrong += found[size_t(i * ld + j)] == want ? 0 : 1;
    }
    return wrong;
  }

  const KeptCase& c_;
  const int64_t rows_, sums_ld_;  // rows_: allocated
  DeviceMemory memory_;
  uint16_t* const d_logits_;
  float* const sums_;
  float* const grads_;
  Product both_;  // what both products have
};

}  // namespace

KeptOutcome RunKept(const KeptCase& c) {
  return c.half ? KeptRun<__half>(c).Run() : KeptRun<__nv_bfloat16>(c).Run();
}

}  // namespace plumbline::kernel::cuda
