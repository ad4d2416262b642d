// SPDX-License-Identifier: Apache-2.0

#include "kernel/cuda/layout/row_blocks.h"

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <optional>
#include <type_traits>

#include "kernel/cuda/layout/workspace.h"
#include "kernel/cuda/support/regions.h"

namespace plumbline::kernel::cuda {
namespace {

// A block costs its sums of grad_weight, 8 V H bytes. In that time an H100 or H200 multiplies for the
// logits of 800 to 1080 rows, 2 V H operations each.
constexpr int64_t kRowsOfSums = 1080;
constexpr int64_t kLeastRows = 256;  // of a block, and what its rows are a multiple of

// Returns the bytes that a block's row takes at most beside the start of d_logits in place: exponents,
// offsets, hidden packed, two sums of grad_hidden, and the row's numbers.
int64_t BytesOfRow(int64_t h, int64_t v) {
  const int64_t padded = RoundUp(v, kExponentGroup), ld = RoundUp(h, 8);
  return 2 * padded + 4 * (CeilDiv(v, kPartialColumns[0]) + 1) + 10 * ld + 128;
}

// Returns what blocks of any size take beside their rows: sums of grad_weight, the start of d_logits in
// place, partial sums of forward and a packed weight.
int64_t BytesOfBlocks(int64_t h, int64_t v, bool weight) {
  const int64_t ld = RoundUp(h, 8), sums = weight ? HeldProduct(HeldProduct(v, ld), 4) : 0;
  return sums + 2 * kInPlaceWork / std::max<int64_t>(ld, 1) + (int64_t{96} << 20);
}

// Returns the rows of as many blocks of as many rows each as fit in the limit, if they cost less than
// multiplying again for logits that are not kept; else all rows.
int64_t Chosen(const Problem& problem, const Results& results, size_t limit) {
  const int64_t n = problem.rows(), h = problem.hidden_size(), v = problem.vocab();
  const auto bytes = static_cast<int64_t>(std::min(limit, kMostBytes));
  const int64_t kept_rows = bytes / std::max<int64_t>(2 * RoundUp(v, kExponentGroup), 1);
  if (n <= kept_rows) return n;
  const int64_t left = bytes - BytesOfBlocks(h, v, results.grad_weight.has_value());
  const int64_t most = std::max<int64_t>(left, 0) / BytesOfRow(h, v) / kLeastRows * kLeastRows;
  if (most == 0) return n;
  const int64_t blocks = CeilDiv(n, most);
  if (n - kept_rows <= kRowsOfSums * (blocks - 1)) return n;
  return std::min(RoundUp(CeilDiv(n, blocks), kLeastRows), n);
}

template <class Void>
BasicTensor<Void> From(const BasicTensor<Void>& tensor, int64_t first, int64_t rows) {
  using Byte = std::conditional_t<std::is_const_v<Void>, const std::byte, std::byte>;
  if (tensor.rank == 0) return tensor;
  BasicTensor<Void> block = tensor;
  block.shape[0] = rows;
  if (tensor.data != nullptr) {
    block.data = static_cast<Byte*>(tensor.data) +
                 first * tensor.stride[0] * static_cast<int64_t>(SizeOf(tensor.dtype));
  }
  return block;
}

template <class Void>
void Take(std::initializer_list<std::optional<BasicTensor<Void>>*> tensors, int64_t first,
          int64_t rows) {
  for (std::optional<BasicTensor<Void>>* const tensor : tensors) {
    if (*tensor) *tensor = From(**tensor, first, rows);
  }
}

}  // namespace

int64_t RowsOfBlock(const Problem& problem, const Results& results, const Execution& execution) {
  const int64_t n = problem.rows();
  const bool gradients = results.grad_hidden || results.grad_weight;
  if (!gradients || !KeptAsExponents(problem.hidden.dtype, execution.kept_form)) return n;
  if (execution.block_rows <= 0) return Chosen(problem, results, execution.kept_logits_bytes);
  return execution.block_rows < n ? std::min(RoundUp(execution.block_rows, kRowBlockStep), n) : n;
}

Problem RowsOf(const Problem& problem, int64_t first, int64_t rows) {
  Problem block = problem;
  block.hidden = From(problem.hidden, first, rows);
  block.labels = From(problem.labels, first, rows);
  Take<const void>({&block.temperature, &block.grad_logprob, &block.grad_entropy}, first, rows);
  return block;
}

Results RowsOf(const Results& results, int64_t first, int64_t rows) {
  Results block = results;
  Take<void>({&block.logprob, &block.entropy, &block.lse, &block.grad_hidden}, first, rows);
  return block;
}

}  // namespace plumbline::kernel::cuda
