// SPDX-License-Identifier: Apache-2.0
//
// The public operator: logprob and entropy of every row, and their gradients, from hidden, weight and
// labels, without the tokens x vocabulary matrix in memory. kernel/OPERATION.md specifies the formulas,
// the special values and the promises.
//
//   Sizes sizes;
//   Status s = GetSizes(problem, results, execution, &sizes);   // host arithmetic only
//   s = Forward(problem, results, execution, workspace, saved); // saved: kept for Backward
//   s = Backward(problem, results, execution, workspace, saved);
//
// Sizes are the worst case over everything that the data may hold. They depend on shapes, dtypes, the
// results asked for and the execution alone. workspace and saved are aligned to 64 bytes and may be
// null where their size is 0. workspace may be reused as soon as a call is complete. Backward reads
// saved and never writes it, so one forward serves any number of backward passes, unless the execution
// says that the state is consumed. ForwardBackward does both passes in one call, on a CUDA device with
// less work.
//
// On a CUDA device every tensor, workspace and saved are device memory. The device is the calling
// thread's current one.

#pragma once

#include <cstddef>
#include <cstdint>

#include "kernel/problem.h"
#include "kernel/status.h"

namespace plumbline::kernel {

enum class Device : uint8_t { kHost, kCuda };

// Selects the kernels that run on a CUDA device. The choice changes bits; every promise holds for each.
enum class CudaPath : uint8_t {
  kBest,      // the fastest that the device has: wgmma on compute capability 9.0, else kPortable
  kPortable,  // mma.sync, compute capability 8.0 or higher, else kSimt
  kSimt,  // fused multiply-adds, compute capability 7.5 or higher: slow, and no tensor core's rounding
};

// Selects what a CUDA device keeps of logits for backward (kernel/OPERATION.md, "Kept exponents").
enum class KeptForm : uint8_t {
  kDefault,  // exponents in fp16 where hidden is bf16, half the memory; logits otherwise
  kLogits,   // logits in fp32
};

struct Execution {
  Device device = Device::kHost;
  // Host: the largest number of threads to use; 0 means one per hardware thread. Changes no bit.
  int threads = 0;
  // CUDA: a cudaStream_t. Work is enqueued there and need not have finished on return.
  void* stream = nullptr;
  CudaPath path = CudaPath::kBest;
  // CUDA, ForwardBackward: the most bytes in which forward's logits are kept for backward, 2 each where
  // they are exponents, else 4. Changes no bit, unless it decides about blocks of rows. Offsets of
  // exponents, a 64th, are beside it, and the start of d_logits, which then lie in place of exponents:
  // an eighth of the columns at most, or 192, and rows up to a multiple of 64. d_logits of kept logits
  // add up to a quarter to the workspace, at most 1 GiB. Where it decides about blocks, it is
  // the most bytes of the whole workspace.
  size_t kept_logits_bytes = size_t{8} << 30;
  // CUDA, ForwardBackward, where exponents are what is kept: the rows that go through both passes at a
  // time, up to a multiple of 64, whatever memory the sums of grad_weight take then. 0: all rows, or,
  // where rows are many, blocks that fit in kept_logits_bytes (kernel/OPERATION.md, "Blocks of rows").
  // Not negative. Changes bits of grad_weight where rows take no part, and no others.
  int64_t block_rows = 0;
  // CUDA, GetSizes, Forward and Backward: the most bytes of `saved` in which forward's logits are kept,
  // so that Backward need not compute them again. Changes no bit. d_logits of kept columns add up to a
  // quarter to the workspace, of exponents up to a half, at most 1 GiB. This limit and `path` must be
  // the same in all three calls.
  size_t saved_logits_bytes = 0;
  // GetSizes, Forward and Backward, the same in all three: Backward may write over `saved`, which needs
  // the size that GetSizes gives, whatever state it holds. It then serves one backward pass, and any
  // further one makes every gradient NaN. The workspace on CUDA is smaller where exponents are kept,
  // because d_logits lie in their place, unless rows are few (OPERATION.md, "d_logits in place").
  // Changes no bit. In ForwardBackward this is always so.
  bool saved_is_consumed = false;
  // CUDA: what is kept. Backward's exponents of all columns take this form, kept or not, so the
  // gradients of the two forms differ where hidden is bf16, and nothing else does. It must be the same
  // in GetSizes, Forward and Backward.
  KeptForm kept_form = KeptForm::kDefault;
};

struct Sizes {
  size_t workspace = 0;  // bytes on the execution's device, enough for Forward and for Backward
  size_t saved = 0;      // bytes that Forward leaves for Backward
};

// Every function below refuses a bad argument with kInvalidArgument, naming the argument and its value,
// before anything is written. On CUDA it may also return kUnsupported (a build without CUDA, compute
// capability below 7.5, or N, H or V above 2^31 - 1) and kFailed with CUDA's words.
Status GetSizes(const Problem& problem, const Results& results, const Execution& execution,
                Sizes* sizes);

// Writes logprob or loss, entropy, lse and first_invalid_row, those that are present, and saved. The
// gradients among the results are not written; their presence decides whether there is a saved state.
// On the host, kInvalidData reports the first invalid row after everything has been written.
Status Forward(const Problem& problem, const Results& results, const Execution& execution,
               void* workspace, void* saved);

// Writes grad_hidden and grad_weight, those that are present, from what Forward saved for the same
// problem. The upstream gradients may differ from call to call. Every gradient is NaN where Forward
// saved for another shape, dtype, path, limit or form; no more than 64 bytes of such a state are read,
// and only where it is to be consumed is it written over.
Status Backward(const Problem& problem, const Results& results, const Execution& execution,
                void* workspace, const void* saved);

// A block of rows whose forward results are there, as the function of upstream gradients gets it. The
// pointers are valid on CUDA for work enqueued on `stream`, on the host until the function returns.
struct RowBlock {
  int64_t first = 0, rows = 0;  // of the problem; at least one row
  // [rows], dense, with the values of the outputs: +0 for ignored rows, NaN for invalid ones.
  const float *logprob = nullptr, *entropy = nullptr, *lse = nullptr;
  // [rows], dense: d objective / d logprob and d objective / d entropy of each row, +0 when the
  // function is called. What is written for an ignored row has no effect.
  float *grad_logprob = nullptr, *grad_entropy = nullptr;
  void* stream = nullptr;  // CUDA: the execution's cudaStream_t
};

// The source of the upstream gradients. Without a function they are the problem's grad_logprob and
// grad_entropy.
//
// A function is called on the calling thread after forward of a block of rows has been computed or
// enqueued, once for each block, in ascending order; all rows may be one block. It writes grad_logprob
// and grad_entropy, or enqueues the writing. It must not wait, because the call may be captured in a
// graph. If it returns an error, the call returns that error and writes no gradients but those of
// hidden of blocks before.
struct UpstreamGradients {
  Status (*function)(void* context, const RowBlock& block) = nullptr;
  void* context = nullptr;
};

// Gradients in forward: Forward and Backward in one call, with the same bits, but those of grad_weight
// where block_rows says. On a CUDA device it takes three quarters of the work, because forward's
// logits, one of four products, need not be computed twice where there is memory to keep them. Those of
// the last columns of the vocabulary that fit in kept_logits_bytes are kept in the workspace, as
// kept_form says; the others are computed again, or rows are taken in blocks. The host keeps none and
// computes as much as two calls do.
//
// Without a gradient among the results it is Forward, and the function is not called. With a function
// the problem must have reduction none and no upstream gradients of its own.
Status GetForwardBackwardSize(const Problem& problem, const Results& results,
                              const Execution& execution, size_t* workspace);
Status ForwardBackward(const Problem& problem, const Results& results, const Execution& execution,
                       const UpstreamGradients& upstream, void* workspace);

// Runs Forward and, where a gradient is present, Backward, with memory that it allocates. Host only:
// kUnsupported on CUDA.
Status Run(const Problem& problem, const Results& results, const Execution& execution = {});

}  // namespace plumbline::kernel
