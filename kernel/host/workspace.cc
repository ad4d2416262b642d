// SPDX-License-Identifier: Apache-2.0

#include "kernel/host/workspace.h"

#include <algorithm>
#include <initializer_list>

#include "kernel/checks.h"
#include "kernel/host/parallel.h"
#include "kernel/stretches.h"

namespace plumbline::kernel::host {
namespace {

// Hands out consecutive aligned regions; with a null base it only adds up their sizes.
class Arena {
 public:
  explicit Arena(void* base) : base_(static_cast<std::byte*>(base)) {}

  // Takes product(extents) elements of T.
  template <class T>
  T* Take(std::initializer_list<int64_t> extents) {
    int64_t bytes = static_cast<int64_t>(sizeof(T));
    for (int64_t extent : extents) overflow_ |= __builtin_mul_overflow(bytes, extent, &bytes);
    overflow_ |= __builtin_add_overflow(bytes, int64_t{kMemoryAlignment - 1}, &bytes);
    bytes &= ~int64_t{kMemoryAlignment - 1};
    T* const region = base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + used_);
    overflow_ |= __builtin_add_overflow(used_, bytes, &used_);
    return region;
  }

  int64_t used() const { return used_; }
  bool overflow() const { return overflow_; }

 private:
  std::byte* base_;
  int64_t used_ = 0;
  bool overflow_ = false;
};

Scratch TakeScratch(Arena& arena, const Plan& plan) {
  return {.rows = arena.Take<float>({kRowBlock, std::max(plan.h, kDepthBlock)}),
          .panels = arena.Take<float>({kDepthBlock, kTile}),
          .product = arena.Take<float>({kRowBlock, kColumnGroup})};
}

ForwardMemory TakeForward(Arena& arena, const Plan& plan) {
  return {.rows = arena.Take<int64_t>({plan.n}),
          .label_logit = arena.Take<float>({plan.n}),
          .logprob = arena.Take<float>({plan.n}),
          .states = arena.Take<SoftmaxState>({plan.tiling.splits, plan.n})};
}

BackwardMemory TakeBackward(Arena& arena, const Plan& plan) {
  return {.rows = arena.Take<int64_t>({plan.n}),
          .g = arena.Take<float>({plan.n}),
          .k = arena.Take<float>({plan.n}),
          .d_logits = arena.Take<float>({plan.n, plan.chunk}),
          .grad_hidden =
              plan.with_grad_hidden ? arena.Take<float>({plan.n, RoundUp(plan.h, kTile)}) : nullptr,
          .totals = plan.with_grad_hidden && plan.stretch > 0
                        ? arena.Take<float>({plan.n, RoundUp(plan.h, kTile)})
                        : nullptr};
}

template <class Float>
SavedRows<Float> TakeSaved(Arena& arena, int64_t n) {
  arena.Take<SavedHeader>({1});
  return {.m = arena.Take<float>({n}),
          .s = arena.Take<float>({n}),
          .log_s = arena.Take<float>({n}),
          .entropy = arena.Take<float>({n})};
}

}  // namespace

Scratch Plan::ScratchOf(void* workspace, int worker) const {
  Arena arena(static_cast<std::byte*>(workspace) + static_cast<size_t>(worker) * scratch_bytes);
  return TakeScratch(arena, *this);
}

ForwardMemory Plan::Forward(void* workspace) const {
  Arena arena(static_cast<std::byte*>(workspace) + static_cast<size_t>(threads) * scratch_bytes);
  return TakeForward(arena, *this);
}

BackwardMemory Plan::Backward(void* workspace) const {
  Arena arena(static_cast<std::byte*>(workspace) + static_cast<size_t>(threads) * scratch_bytes);
  return TakeBackward(arena, *this);
}

SavedRows<float> Plan::Saved(void* saved) const {
  Arena arena(saved);
  return TakeSaved<float>(arena, n);
}

SavedRows<const float> Plan::Saved(const void* saved) const {
  // The arena only computes addresses; what comes back is const.
  Arena arena(const_cast<void*>(saved));
  return TakeSaved<const float>(arena, n);
}

std::optional<Plan> MakePlan(const Problem& problem, const Results& results, int threads,
                             bool stretches) {
  Plan plan;
  plan.n = problem.rows();
  plan.v = problem.vocab();
  plan.h = problem.hidden_size();
  constexpr int64_t kLargest = int64_t{1} << 62;
  if (plan.v > kLargest || plan.h > kLargest) return std::nullopt;
  plan.tiling = VocabTiling(plan.v);
  plan.chunk = std::min(stretches ? kStretchUnit : kChunkColumns, RoundUp(plan.v, kTile));
  plan.stretch = stretches ? StretchOf(plan.v) : 0;
  const bool backward = results.grad_hidden || results.grad_weight;
  plan.with_grad_hidden = results.grad_hidden.has_value();
  plan.saved_header = SavedHeaderOf(problem);
  if (plan.n == 0) return plan;

  // The exponential costs about as much as 32 multiply-adds.
  plan.threads = ThreadsFor(threads, static_cast<double>(plan.n) * static_cast<double>(plan.v) *
                                         (static_cast<double>(plan.h) + 32));
  Arena scratch(nullptr);
  TakeScratch(scratch, plan);
  Arena forward_arena(nullptr);
  TakeForward(forward_arena, plan);
  Arena backward_arena(nullptr);
  if (backward) TakeBackward(backward_arena, plan);
  Arena saved(nullptr);
  if (backward) TakeSaved<float>(saved, plan.n);

  int64_t total = 0;
  bool overflow = scratch.overflow() || forward_arena.overflow() || backward_arena.overflow() ||
                  saved.overflow() ||
                  __builtin_mul_overflow(scratch.used(), int64_t{plan.threads}, &total);
  overflow |=
      __builtin_add_overflow(total, std::max(forward_arena.used(), backward_arena.used()), &total);
  if (overflow || total > kLargest) return std::nullopt;
  plan.scratch_bytes = static_cast<size_t>(scratch.used());
  plan.workspace_bytes = static_cast<size_t>(total);
  plan.saved_bytes = static_cast<size_t>(saved.used());
  return plan;
}

}  // namespace plumbline::kernel::host
