// SPDX-License-Identifier: Apache-2.0
//
// The public operator: logprob, entropy = f(hidden, weight, labels), and its gradients, without the
// tokens x vocabulary matrix in memory. Formulas, special values and promises: kernel/OPERATION.md.
//
//   Sizes sizes;
//   Status s = GetSizes(problem, results, execution, &sizes);   // host arithmetic only
//   s = Forward(problem, results, execution, workspace, saved); // saved: kept for Backward
//   s = Backward(problem, results, execution, workspace, saved);
//
// Sizes are the worst case over everything that the data may hold; they depend on shapes, dtypes, the
// results asked for and the execution alone. workspace and saved are aligned to 64 bytes and may be
// null where their size is 0. ForwardBackward does both at once, for less. On a CUDA device every
// tensor, workspace and saved are device memory; the device is the calling thread's current one.
// workspace may be reused as soon as a call is complete; saved is read, never written, by Backward, so
// one forward serves any number of backward passes.

#ifndef PLUMBLINE_KERNEL_LINEAR_CROSS_ENTROPY_H_
#define PLUMBLINE_KERNEL_LINEAR_CROSS_ENTROPY_H_

#include <cstddef>
#include <cstdint>

#include "kernel/problem.h"
#include "kernel/status.h"

namespace plumbline::kernel {

enum class Device : uint8_t { kHost, kCuda };

// Which kernels run on a CUDA device. The choice changes bits, never what is promised of them.
enum class CudaPath : uint8_t {
  kBest,      // the fastest that the device has: wgmma on compute capability 9.0, else kPortable
  kPortable,  // mma.sync, compute capability 8.0 or higher, else kSimt
  kSimt,  // fused multiply-adds, compute capability 7.5 or higher: slow, and no tensor core's rounding
};

struct Execution {
  Device device = Device::kHost;
  // Host: threads to use at most; 0 means one per hardware thread. Never changes a bit of the results.
  int threads = 0;
  // CUDA: a cudaStream_t; work is enqueued and need not have finished on return.
  void* stream = nullptr;
  CudaPath path = CudaPath::kBest;
  // CUDA, ForwardBackward: memory that forward's logits may be kept in, at most. Changes no bit. What
  // is made of them adds up to a quarter of it, and 1 GiB, to the workspace.
  size_t kept_logits_bytes = size_t{8} << 30;
  // CUDA, GetSizes, Forward and Backward: how much of `saved` forward's logits may be kept in, at most,
  // so that Backward need not multiply for them again. Changes no bit; the workspace grows likewise. It
  // and the path must be the same in all three calls, which nothing can tell: `saved` is read as they
  // say.
  size_t saved_logits_bytes = 0;
};

struct Sizes {
  size_t workspace = 0;  // bytes on the execution's device, enough for Forward and for Backward
  size_t saved = 0;      // bytes that Forward leaves for Backward
};

// All of these: kInvalidArgument names the argument and its value, before anything is written.
Status GetSizes(const Problem& problem, const Results& results, const Execution& execution,
                Sizes* sizes);

// Writes logprob or loss, entropy, lse and first_invalid_row, those that are present, and saved.
// Results' gradients are ignored. On the host, kInvalidData reports the first invalid row after
// everything has been written.
Status Forward(const Problem& problem, const Results& results, const Execution& execution,
               void* workspace, void* saved);

// Writes grad_hidden and grad_weight, those that are present, from what Forward saved for the same
// problem. The upstream gradients may differ from call to call.
Status Backward(const Problem& problem, const Results& results, const Execution& execution,
                void* workspace, const void* saved);

// One block of rows whose forward results are there, handed to whoever knows the upstream gradients.
// The pointers are valid for what is enqueued on `stream`, on the host until the function returns.
struct RowBlock {
  int64_t first = 0, rows = 0;  // of the problem; at least one row
  // [rows], dense; of ignored and invalid rows what the outputs have: +0 and NaN.
  const float *logprob = nullptr, *entropy = nullptr, *lse = nullptr;
  // [rows], dense, +0 at first: d objective / d logprob and d objective / d entropy of each row. What
  // they hold for an ignored row reaches nothing.
  float *grad_logprob = nullptr, *grad_entropy = nullptr;
  void* stream = nullptr;  // CUDA: the execution's cudaStream_t
};

// Where the upstream gradients come from. With a function, it is called on the calling thread, for each
// block of rows once, in ascending order (today all rows are one block), after forward has been
// computed or enqueued; it writes or enqueues the writing of grad_logprob and grad_entropy, and must
// not wait: the call may be captured in a graph. What it returns, unless it is ok, is what the call
// returns, and gradients are then not written. Without one, the problem's grad_logprob and grad_entropy
// hold.
struct UpstreamGradients {
  Status (*function)(void* context, const RowBlock& block) = nullptr;
  void* context = nullptr;
};

// Gradients in forward: Forward and Backward in one call, the same bits, for three quarters of the
// work on a CUDA device. Of the four products forward's logits need not be computed twice where there
// is memory to keep them: those of the last kept_logits_bytes / (4 rows) columns of the vocabulary,
// in fp32, in the workspace; the others are computed again. Host: nothing is kept, nothing is saved.
// Without a gradient among the results it is Forward, and the function is not called. With a function
// the problem must have reduction none and no upstream gradients of its own.
Status GetForwardBackwardSize(const Problem& problem, const Results& results,
                              const Execution& execution, size_t* workspace);
Status ForwardBackward(const Problem& problem, const Results& results, const Execution& execution,
                       const UpstreamGradients& upstream, void* workspace);

// Forward, and Backward where a gradient is present, with memory of its own (host only).
Status Run(const Problem& problem, const Results& results, const Execution& execution = {});

}  // namespace plumbline::kernel

#endif  // PLUMBLINE_KERNEL_LINEAR_CROSS_ENTROPY_H_
