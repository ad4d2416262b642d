// SPDX-License-Identifier: Apache-2.0

#include "kernel/cuda/layout/row_blocks.h"

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <optional>
#include <type_traits>

#include "kernel/cuda/layout/workspace.h"
#include "kernel/cuda/support/regions.h"
#include "kernel/stretches.h"

namespace plumbline::kernel::cuda {
namespace {

// A block costs its sums of grad_weight, 8 V H bytes. In that time an H100 or H200 multiplies for the
// logits of 800 to 1080 rows, 2 V H operations each.
constexpr int64_t kRowsOfSums = 1080;
constexpr int64_t kLeastRows = 256;  // of a block, and what its rows are a multiple of
// Each chunk of grad_weight reads hidden, and its d_logits have the same memory whatever N: that makes
// bytes grow with N^2. From three blocks of 8192 rows on, or of 64 MiB of hidden if these are more
// rows, the sums cost fewer. 32768 x 4096 x 131072 takes 176 ms on an H100 in blocks of 8192, 187 to
// 192 in blocks of 16384 and 198 in one (bench/NOTES.md, 38).
constexpr int64_t kBlockRows = 8192, kBlockElements = int64_t{8192} * 4096;
constexpr int64_t kLeastBlocks = 3;

// Returns the bytes that a block's row takes at most beside the start of d_logits in place: exponents,
// offsets, hidden packed, two sums of grad_hidden, and the row's numbers.
int64_t BytesOfRow(int64_t h, int64_t v) {
  const int64_t padded = RoundUp(v, kExponentGroup), ld = RoundUp(h, 8);
  return 2 * padded + 4 * (CeilDiv(v, kPartialColumns[0]) + 1) + 10 * ld + 128;
}

// Returns what blocks of any size take beside their rows: sums of grad_weight, also where it is not
// asked for, so that the division is the same for either gradient; the start of d_logits in place, with
// stretches at once unless totals of grad_hidden lie there; partial sums of forward or a stretch of
// packed weight; of each of all n rows its logprob for the loss, and what forward alone has in the
// workspace.
int64_t BytesOfBlocks(int64_t n, int64_t h, int64_t v) {
  constexpr int64_t kForward = int64_t{96} << 20;
  const int64_t ld = RoundUp(h, 8), sums = HeldProduct(HeldProduct(v, ld), 4);
  const int64_t start =
      std::max(2 * InPlaceElements(ld, false) + kStretchesBytes, 2 * InPlaceElements(ld, true));
  const int64_t packed = HeldProduct(2 * ld, StretchOf(v));
  return sums + start + std::max(kForward, packed) + 40 * n;
}

// Returns the most rows of a block: the start of d_logits in place is no longer than kTileStep columns
// of them.
int64_t MostRows(int64_t h) {
  const int64_t ld = RoundUp(h, 8);
  const int64_t best = std::max(kBlockRows, kBlockElements / std::max<int64_t>(ld, 1));
  return std::min(best, InPlaceElements(ld, false) / kTileStep);
}

// Returns the rows of blocks that fit in the limit, if they cost less than one block, which multiplies
// again for logits that are not kept; else all rows.
int64_t Chosen(const Problem& problem, size_t limit) {
  const int64_t n = problem.rows(), h = problem.hidden_size(), v = problem.vocab();
  const auto bytes = static_cast<int64_t>(std::min(limit, kMostBytes));
  const int64_t kept_rows = bytes / std::max<int64_t>(2 * RoundUp(v, kExponentGroup), 1);
  const int64_t best = MostRows(h), left = bytes - BytesOfBlocks(n, h, v);
  const int64_t fit = std::max<int64_t>(left, 0) / BytesOfRow(h, v);
  const int64_t most = std::min(best, fit) / kLeastRows * kLeastRows;
  if (n == 0 || v == 0 || most == 0) return n;
  const int64_t blocks = CeilDiv(n, most);
  const bool fewer_bytes = blocks >= kLeastBlocks && fit >= best;
  const bool less_work = n > kept_rows && n - kept_rows > kRowsOfSums * (blocks - 1);
  if (!fewer_bytes && !less_work) return n;
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
  if (execution.block_rows <= 0) return Chosen(problem, execution.kept_logits_bytes);
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
