// SPDX-License-Identifier: Apache-2.0

#include "kernel/cuda/stages/list_rows.h"

#include <algorithm>

#include "kernel/cuda/product/fragment.cuh"
#include "kernel/cuda/support/launch.h"
#include "kernel/cuda/support/overlap.cuh"

namespace plumbline::kernel::cuda {
namespace {

constexpr int kThreads = 1024;
constexpr int kWarps = kThreads / 32;
constexpr float kLog2E = 1.44269504088896340736f;
constexpr float kLargest = 3.402823466e38f;

enum class Kind { kNormal, kIgnored, kInvalid };

struct RowView {
  Kind kind;
  int64_t label;
  float temperature;
};

__device__ float FloatAt(const VectorView& view, int64_t i, float absent) {
  return view.data == nullptr ? absent : static_cast<const float*>(view.data)[i * view.stride];
}

__device__ int64_t LabelAt(const RowInputs& inputs, int64_t i) {
  const int64_t at = i * inputs.labels.stride;
  return inputs.labels_64 ? static_cast<const int64_t*>(inputs.labels.data)[at]
                          : static_cast<const int32_t*>(inputs.labels.data)[at];
}

// ignore_index is tested first, even for a label inside of the vocabulary.
__device__ RowView Look(const RowInputs& inputs, int64_t i) {
  const int64_t label = LabelAt(inputs, i);
  if (label == inputs.ignore_index) return {Kind::kIgnored, -1, 1};
  const float temperature = FloatAt(inputs.temperature, i, 1);
  const bool valid = label >= 0 && label < inputs.vocab && temperature > 0 && isfinite(temperature);
  return {valid ? Kind::kNormal : Kind::kInvalid, valid ? label : -1, temperature};
}

struct Counts {
  int64_t counted, first_invalid;
};

// Counts over all rows of the problem; every thread gets the result.
__device__ Counts CountRows(const RowInputs& inputs) {
  __shared__ unsigned long long counted, first;
  constexpr unsigned long long kNone = ~0ull;
  if (threadIdx.x == 0) {
    counted = 0;
    first = kNone;
  }
  __syncthreads();
  unsigned long long of_warp = 0, lowest = kNone;
#pragma unroll 4
  for (int64_t base = 0; base < inputs.all; base += kThreads) {
    const int64_t i = base + threadIdx.x;
    const Kind kind = i < inputs.all ? Look(inputs, i - inputs.first).kind : Kind::kIgnored;
    of_warp += __popc(__ballot_sync(kAllLanes, kind != Kind::kIgnored));
    if (kind == Kind::kInvalid && lowest == kNone) lowest = static_cast<unsigned long long>(i);
  }
  // These are integers, so the order of the atomics does not change the result.
  if (threadIdx.x % 32 == 0 && of_warp > 0) atomicAdd(&counted, of_warp);
  if (lowest != kNone) atomicMin(&first, lowest);
  __syncthreads();
  return {static_cast<int64_t>(counted), first == kNone ? -1 : static_cast<int64_t>(first)};
}

// Returns how many rows `list` takes, of all rows (x) and of those before `end` (y). Every thread gets
// the result.
template <class List>
__device__ int2 CountTaken(const RowInputs& inputs, List list, const Counts& counts, int64_t end) {
  __shared__ int all, before;
  if (threadIdx.x == 0) all = before = 0;
  __syncthreads();
  int all_of_warp = 0, before_of_warp = 0;
#pragma unroll 4
  for (int64_t base = 0; base < inputs.rows; base += kThreads) {
    const int64_t i = base + threadIdx.x;
    const bool taken = i < inputs.rows && list.Takes(i, Look(inputs, i), counts);
    const int votes = __popc(__ballot_sync(kAllLanes, taken));
    all_of_warp += votes;
    if (base < end) before_of_warp += votes;
  }
  if (threadIdx.x % 32 == 0) {
    atomicAdd(&all, all_of_warp);
    atomicAdd(&before, before_of_warp);
  }
  __syncthreads();
  return {all, before};
}

// Returns the place of this thread's row among the taken rows of a round of kThreads, in the order of
// the threads. *in_round becomes their number.
__device__ int PlaceInRound(bool taken, int (&of_warps)[kWarps], int* in_round) {
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  const unsigned votes = __ballot_sync(kAllLanes, taken);
  if (lane == 0) of_warps[warp] = __popc(votes);
  __syncthreads();
  int before = 0;
  *in_round = 0;
  for (int w = 0; w < kWarps; ++w) {
    before += w < warp ? of_warps[w] : 0;
    *in_round += of_warps[w];
  }
  __syncthreads();
  return before + __popc(votes & ((1u << lane) - 1));
}

// Lists the rows that `list` takes, in their order. Each block counts the rows before its own and then
// lists its own, in rounds of kThreads. A single block took 80 us for 8192 rows, because too few loads
// were in flight. All threads of the grid call; List has
//   bool Takes(int64_t i, const RowView& row, const Counts& counts)   whether row i is on the list
//   void Put(int64_t i, const RowView& row, int64_t place)            of every row; -1: it is not
template <class List>
__device__ Counts ListRows(const RowInputs& inputs, List list, Census* census) {
  __shared__ int of_warps[kWarps];
  const int64_t rounds = (inputs.rows + kThreads - 1) / kThreads;
  const int64_t of_block = (rounds + gridDim.x - 1) / gridDim.x * kThreads;
  const int64_t first = blockIdx.x * of_block, end = min(first + of_block, inputs.rows);
  const Counts counts = CountRows(inputs);
  const int2 taken_rows = CountTaken(inputs, list, counts, first);
  int64_t next = taken_rows.y;
  for (int64_t base = first; base < end; base += kThreads) {
    const int64_t i = base + threadIdx.x;
    const bool there = i < end;
    const RowView row = there ? Look(inputs, i) : RowView{Kind::kIgnored, -1, 1};
    const bool taken = there && list.Takes(i, row, counts);
    int in_round = 0;
    const int place = PlaceInRound(taken, of_warps, &in_round);
    if (there) list.Put(i, row, taken ? next + place : -1);
    next += in_round;
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    *census = {
        taken_rows.x, taken_rows.x != inputs.rows ? 1 : 0, counts.counted, counts.first_invalid, 0, 0};
  }
  return counts;
}

int64_t Blocks(int64_t rows) {
  constexpr int64_t kMost = 128;
  return std::clamp<int64_t>((rows + kThreads - 1) / kThreads, 1, kMost);
}

struct ForwardRows {
  const ForwardList& list;
  const ForwardOutputs& outputs;

  __device__ bool Takes(int64_t, const RowView& row, const Counts&) const {
    return row.kind == Kind::kNormal;
  }
  __device__ void Put(int64_t i, const RowView& row, int64_t place) const {
    if (list.slot != nullptr) list.slot[i] = static_cast<int32_t>(place);
    if (place >= 0) {
      list.source[place] = static_cast<int32_t>(i);
      list.label[place] = row.label;
      list.scale[place] = fminf(kLog2E / row.temperature, kLargest);
      list.temperature[place] = row.temperature;
      return;
    }
    const float value = row.kind == Kind::kIgnored ? 0.0f : QuietNaN();
    if (outputs.logprob != nullptr) outputs.logprob[i * outputs.logprob_stride] = value;
    if (outputs.entropy != nullptr) outputs.entropy[i * outputs.entropy_stride] = value;
    if (outputs.lse != nullptr) outputs.lse[i * outputs.lse_stride] = value;
    if (outputs.row_logprob != nullptr) outputs.row_logprob[i] = value;
    if (outputs.row_entropy != nullptr) outputs.row_entropy[i] = value;
    if (outputs.row_lse != nullptr) outputs.row_lse[i] = value;
  }
};

__global__ void __launch_bounds__(kThreads)
    ListForwardKernel(const RowInputs inputs, const ForwardList list, const ForwardOutputs outputs,
                      const SavedState saved) {
  AwaitPreviousGrid();
  AllowNextGrid();
  const Counts counts = ListRows(inputs, ForwardRows{list, outputs}, list.census);
  if (blockIdx.x != 0 || threadIdx.x != 0) return;
  if (outputs.first_invalid_row != nullptr) *outputs.first_invalid_row = counts.first_invalid;
  if (saved.header != nullptr) *saved.header = saved.expected;
}

// Returns g of a row. Under a reduction it is the negated share of the loss's gradient (OPERATION.md,
// "Inputs").
__device__ float GradLogprob(const RowInputs& inputs, int64_t i, int64_t counted) {
  const float g = FloatAt(inputs.grad_logprob, inputs.reduction == Reduction::kNone ? i : 0, 0);
  switch (inputs.reduction) {
    case Reduction::kNone:
      return g;
    case Reduction::kSum:
      return -g;
    case Reduction::kMean:
      break;
  }
  return static_cast<float>(-static_cast<double>(g) / static_cast<double>(counted));
}

// Computes a row's numbers by the formulas of kernel/cuda/epilogue/d_logits.cuh.
__device__ RowGradient GradientOf(const RowView& row, const SavedRow& was, float g, float k) {
  constexpr float kLn2 = 0.693147180559945309f;
  const float scale = fminf(kLog2E / row.temperature, kLargest);
  const float inverse_temperature = 1.0f / row.temperature, inverse_sum = 1.0f / was.sum;
  const float g_t = g * inverse_temperature, k_t = k * inverse_temperature;
  // unit is a power of two, so divisions by it are exact. With it nothing of p (level + slope y) passes
  // the largest float, because y is at least -400.
  const float unit = fmaxf(fabsf(g_t), fabsf(k_t)) > 0x1p60f ? 0x1p64f : 1.0f;
  const float level = -fmaf(k_t / unit, was.mean_gap, g_t / unit), slope = -(k_t / unit) * kLn2;
  const float y = Exponent(was.label_logit, was.max, scale), p = Exp2(y) * inverse_sum;
  // At a label of -infinity y is -200 and p is 0, so what follows is g / T (OPERATION.md, decision 5).
  const float of_logprob = g * (1.0f - p), of_entropy = k * (p * fmaf(y, kLn2, was.mean_gap));
  return {was.max,
          scale,
          inverse_sum * unit,
          level,
          slope,
          (of_logprob - of_entropy) * inverse_temperature,
          static_cast<int32_t>(row.label)};
}

struct BackwardRows {
  const RowInputs& inputs;
  const SavedRow* saved;  // null: the state does not fit
  const BackwardList& list;
  float g = 0, k = 0;  // of the row of the last call of Takes

  __device__ bool IsInvalid(const RowView& row) const {
    return saved == nullptr || row.kind == Kind::kInvalid;
  }

  __device__ bool Takes(int64_t i, const RowView& row, const Counts& counts) {
    g = GradLogprob(inputs, i, counts.counted);
    k = FloatAt(inputs.grad_entropy, i, 0);
    return IsInvalid(row) || (row.kind == Kind::kNormal && !(g == 0 && k == 0));
  }
  __device__ void Put(int64_t i, const RowView& row, int64_t place) const {
    const bool invalid = IsInvalid(row);
    if (list.forward_slot != nullptr) list.kept_slot[i] = saved != nullptr ? list.forward_slot[i] : -1;
    list.slot[i] = invalid ? kInvalidRow : place >= 0 ? static_cast<int32_t>(place) : kZeroRow;
    if (place < 0) return;
    list.source[place] = static_cast<int32_t>(i);
    list.rows[place] =
        invalid ? RowGradient{.weight = QuietNaN(), .label = -1} : GradientOf(row, saved[i], g, k);
  }
};

__global__ void __launch_bounds__(kThreads)
    ListBackwardKernel(const RowInputs inputs, const SavedState saved, const BackwardList list) {
  AwaitPreviousGrid();
  AllowNextGrid();
  const bool fits = saved.header != nullptr && *saved.header == saved.expected;
  ListRows(inputs, BackwardRows{inputs, fits ? saved.rows : nullptr, list}, list.census);
}

}  // namespace

RowInputs RowInputsOf(const Problem& problem, const RowRange& range) {
  const auto view = [](const std::optional<ConstTensor>& tensor) {
    if (!tensor) return VectorView{};
    return VectorView{tensor->data, tensor->rank == 0 ? 0 : tensor->stride[0]};
  };
  return {.rows = problem.rows(),
          .vocab = problem.vocab(),
          .ignore_index = problem.ignore_index,
          .first = range.first,
          .all = range.all,
          .labels = {problem.labels.data, problem.labels.stride[0]},
          .labels_64 = problem.labels.dtype == DType::kI64,
          .temperature = view(problem.temperature),
          .grad_logprob = view(problem.grad_logprob),
          .grad_entropy = view(problem.grad_entropy),
          .reduction = problem.reduction};
}

Status ListForward(const RowInputs& inputs, const ForwardList& list, const ForwardOutputs& outputs,
                   const SavedState& saved, cudaStream_t stream) {
  return LaunchKernel("ListForward", ListForwardKernel, Blocks(inputs.rows), kThreads, 0, stream,
                      inputs, list, outputs, saved);
}

Status ListBackward(const RowInputs& inputs, const SavedState& saved, const BackwardList& list,
                    cudaStream_t stream) {
  return LaunchKernel("ListBackward", ListBackwardKernel, Blocks(inputs.rows), kThreads, 0, stream,
                      inputs, saved, list);
}

}  // namespace plumbline::kernel::cuda
