// SPDX-License-Identifier: Apache-2.0
//
// A chunk of the vocabulary in a backward pass: d_logits, and what they add to either gradient.
// Included by backward.cu alone.

#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "kernel/cuda/pass/pass.h"
#include "kernel/cuda/stages/finish.h"
#include "kernel/cuda/stages/list_rows.h"
#include "kernel/cuda/stages/operands.h"
#include "kernel/cuda/stages/path.h"
#include "kernel/cuda/support/regions.h"

namespace plumbline::kernel::cuda {

// Pointers into the workspace; `totals` may point into what is kept (BackwardLayout::totals_behind).
struct BackwardMemory {
  BackwardList list;
  float *totals, *sums, *apart;
  int64_t totals_ld;  // of totals; that of the others is the layout's packed_ld
  void *d_logits, *other_kept, *packed_hidden, *packed_weight;
};

inline const void* At(const Operand& operand, int64_t elements) {
  constexpr int64_t kElementBytes = 2;
  return static_cast<const std::byte*>(operand.data) + elements * kElementBytes;
}
// Return part of a matrix. It begins at a multiple of 16 bytes.
inline Operand Columns(const Operand& whole, int64_t first, int64_t columns) {
  Operand part = whole;
  part.data = At(whole, first);
  part.columns = columns;
  return part;
}
inline Operand Rows(const Operand& whole, int64_t first, int64_t rows) {
  Operand part = whole;
  part.data = At(whole, first * whole.ld);
  part.rows = rows;
  return part;
}

inline Stored StoredAs(DType dtype) {
  return dtype == DType::kBf16 ? Stored::kBf16 : dtype == DType::kF16 ? Stored::kF16 : Stored::kF32;
}

// Returns the most columns of a chunk that begins at column `first`. Unless its d_logits are in place,
// it is also their row stride.
inline int64_t ChunkColumns(const Call& call, int64_t first) {
  const BackwardLayout& layout = call.layout.backward;
  if (!IsPacked(call.problem.weight)) return layout.packed_chunk;
  return call.kept != nullptr && first >= call.kept->first_column ? layout.kept.most
                                                                  : layout.direct_chunk;
}

// Computes d_logits of one chunk of the vocabulary, and what it adds to either gradient.
template <class Element>
class Chunk {
 public:
  // d_logits have memory for `rows` rows, ld elements apart.
  Chunk(const Call& call, const BackwardMemory& memory, const HiddenOperand& hidden, int64_t first,
        int64_t columns, void* d_logits, int64_t rows, int64_t ld)
      : call_(call),
        layout_(call.layout),
        memory_(memory),
        hidden_(hidden),
        rows_(rows),
        ld_(ld),
        first_(first),
        columns_(columns),
        d_logits_(d_logits) {}

  // `made` says that this chunk's d_logits exist already. `next` is a chunk whose d_logits are computed
  // while this one's gradient products run; null: none.
  Status Run(bool made, const Chunk* next) {
    Status status = Weight();
    if (status.ok() && !made) status = DLogits();
    next_ = next;
    if (status.ok() && Sweeps()) return Sweep();
    if (status.ok() && call_.results.grad_hidden) status = GradHidden();
    // It may run beside the last product of grad_hidden, so sums of stretches are added behind it.
    if (status.ok() && call_.results.grad_weight) status = GradWeight(Segments());
    if (status.ok()) status = AddPending();
    return status;
  }

  // These compute less than Run. They are for d_logits in place.
  Status RunDLogits() { return DLogits(); }
  Status RunWeight(const Chunk* next) {
    next_ = next;
    return GradWeight(0);
  }
  Status RunHidden() {
    Status status = Weight();
    if (status.ok()) status = GradHidden();
    return status;
  }
  // Adds the sums of the last stretches of RunHidden; the gradient of weight of `beside` is computed
  // beside its last product.
  Status EndHidden(Chunk* beside) {
    Status status = Status::Ok();
    if (beside != nullptr) {
      beside->last_ = last_;
      status = beside->RunWeight(nullptr);
    }
    if (status.ok()) status = AddPending();
    return status;
  }

 private:
  Status Weight() {
    return MakeWeight(call_.problem.weight, first_, LogitColumns(), ChunkColumns(call_, first_),
                      layout_.packed_ld, memory_.packed_weight, call_.stream, &weight_);
  }

  // Returns what all three products share.
  Product Common() const {
    Product product;
    product.live_rows = &memory_.list.census->live;
    product.begun = &memory_.list.census->begun;
    product.passes = layout_.passes;
    return product;
  }

  // Returns the columns whose logits are computed: exponents need the maxima of whole tiles, and the
  // last tile may be one whose other columns are kept. The chunk's memory is whole tiles.
  int64_t LogitColumns() const {
    if (!layout_.exponents) return columns_;
    return std::min(RoundUp(columns_, call_.path.partial_columns), layout_.v - first_);
  }

  // Returns a gradient's product, which makes `count` of the `parts` into which the next chunk's
  // d_logits are divided, from number `part` on.
  Product Gradient(int part, int count, int parts) const {
    Product product = Common();
    product.a = StoredDLogits();
    if (next_ == nullptr) return product;
    product.kept = KeptChunkOf(*call_.kept, memory_.list, next_->Epilogue());
    product.kept_part = part;
    product.kept_count = count;
    product.kept_parts = parts;
    return product;
  }

  Operand StoredDLogits() const {
    return {d_logits_, rows_, columns_, ld_, PlaneStride(), layout_.planes};
  }
  int64_t PlaneStride() const { return rows_ * ld_; }

  DLogitsEpilogue<Element> Epilogue() const {
    DLogitsEpilogue<Element> epilogue;
    epilogue.rows = memory_.list.rows;
    epilogue.d_logits = static_cast<Element*>(d_logits_);
    epilogue.ld = ld_;
    epilogue.plane_stride = layout_.planes > 1 ? PlaneStride() : 0;
    epilogue.columns = columns_;
    epilogue.allocated_rows = rows_;
    epilogue.first_column = first_;
    epilogue.exponents = layout_.exponents;
    epilogue.vocab = layout_.v;
    return epilogue;
  }

  Status DLogits() {
    const DLogitsEpilogue<Element> epilogue = Epilogue();
    if (call_.kept != nullptr && first_ >= call_.kept->first_column) {
      return KernelsOf<Element>(call_.path)
          .kept_d_logits(*call_.kept, memory_.list, layout_.n, epilogue, call_.stream);
    }
    Product product = Common();
    product.a = hidden_.itself;
    product.a_alternative = hidden_.moved;
    product.use_alternative = hidden_.use_moved;
    product.b = weight_;
    product.m = layout_.n;
    product.n = LogitColumns();
    product.k = layout_.h;
    return KernelsOf<Element>(call_.path).d_logits(product, epilogue, call_.stream);
  }

  // Columns [first, end) of the vocabulary, for which grad_hidden has one product: a part of a stretch,
  // or some whole ones, computed in turn or together, with sums apart.
  struct Segment {
    int64_t first, end;
    int stretches;
    bool apart;
  };

  // Returns the segment that begins at a column of this chunk.
  Segment SegmentAt(int64_t first) const {
    const int64_t stretch = layout_.stretch, end = first_ + columns_;
    const bool apart = layout_.backward.at_once > 1;
    const int64_t most = !call_.path.stretches_at_once ? 1
                         : apart                       ? layout_.backward.at_once
                                                       : layout_.v;
    const int64_t whole = end == layout_.v ? CeilDiv(end - first, stretch) : (end - first) / stretch;
    const int64_t count = std::min(first % stretch == 0 ? whole : 0, most);
    if (count > 1)
      return {first, std::min(first + count * stretch, end), static_cast<int>(count), apart};
    return {first, std::min((first / stretch + 1) * stretch, end), 1, false};
  }

  // Returns the number of segments of this chunk.
  int Segments() const {
    int count = 0;
    const int64_t end = call_.results.grad_hidden ? first_ + columns_ : first_;
    for (int64_t first = first_; first < end; first = SegmentAt(first).end) ++count;
    return count;
  }

  Status GradHidden() {
    Status status = Status::Ok();
    const int segments = Segments(), parts = call_.results.grad_weight ? 2 * segments : segments;
    int64_t first = first_;
    for (int i = 0; i < segments && status.ok(); ++i) {
      status = AddPending();
      last_ = SegmentAt(first);
      first = last_.end;
      if (status.ok()) status = Multiply(last_, Gradient(i, 1, parts));
    }
    return status;
  }

  // A product for grad_hidden and its epilogue.
  struct HiddenProduct {
    Product product;
    AccumulateEpilogue epilogue;
  };

  Status Multiply(const Segment& segment, const Product& common) {
    const HiddenProduct hidden = HiddenOf(segment, common);
    return KernelsOf<Element>(call_.path).grad_hidden(hidden.product, hidden.epilogue, call_.stream);
  }

  HiddenProduct HiddenOf(const Segment& segment, Product product) const {
    const int64_t stretch = layout_.stretch, columns = segment.end - segment.first;
    product.a = Columns(product.a, segment.first - first_, columns);
    product.b = Rows(weight_, segment.first - first_, columns);
    product.m = layout_.n;
    product.n = layout_.h;
    product.k = columns;
    AccumulateEpilogue epilogue;
    epilogue.totals = memory_.totals;
    epilogue.sums = memory_.sums;
    epilogue.ld = memory_.totals_ld;
    epilogue.columns = layout_.h;
    epilogue.begins = segment.first % stretch == 0;
    epilogue.ends = segment.end % stretch == 0 || segment.end == layout_.v;
    epilogue.first = segment.first < stretch;
    if (segment.stretches > 1) {
      product.stretch = stretch;
      product.in_turn = !segment.apart;
    }
    if (segment.apart) {
      epilogue.totals = memory_.apart;
      epilogue.ld = layout_.packed_ld;
      epilogue.apart = layout_.n * layout_.packed_ld;
      epilogue.first = true;
    }
    return {product, epilogue};
  }

  // Adds the sums of the last segment to the totals, if they are apart.
  Status AddPending() {
    const Segment segment = std::exchange(last_, {});
    if (!segment.apart) return Status::Ok();
    const StretchSums sums = {memory_.apart, layout_.n * layout_.packed_ld, segment.stretches};
    return call_.path.add_stretches(sums, memory_.totals, layout_.packed_ld, layout_.h, layout_.n,
                                    memory_.list.census, segment.first < layout_.stretch, call_.stream);
  }

  // Returns the chunk's product for grad_weight.
  Product WeightOf(Product product) const {
    product.b = hidden_.itself;
    product.b_alternative = hidden_.moved;
    product.use_alternative = hidden_.use_moved;
    product.m = columns_;
    product.n = layout_.h;
    product.k = layout_.n;
    product.live_is_depth = true;
    return product;
  }

  // Returns the epilogue of grad_weight's rows from column `first` of the vocabulary to the chunk's
  // end.
  GradWeightEpilogue WeightFrom(int64_t first) const {
    const Tensor& grad = *call_.results.grad_weight;
    const int64_t offset = first * grad.stride[0];
    GradWeightEpilogue epilogue;
    epilogue.grad_weight =
        static_cast<std::byte*>(grad.data) + offset * static_cast<int64_t>(SizeOf(grad.dtype));
    epilogue.stored = StoredAs(grad.dtype);
    epilogue.row_stride = grad.stride[0];
    epilogue.column_stride = grad.stride[1];
    epilogue.rows = first_ + columns_ - first;
    epilogue.columns = layout_.h;
    return epilogue;
  }

  // Returns whether one sweep over weight computes both gradients.
  bool Sweeps() const {
    return layout_.backward.sweeps && call_.results.grad_weight &&
           KernelsOf<Element>(call_.path).both_gradients != nullptr &&
           LinesOf<Element>(WeightFrom(first_), kSweepColumns);
  }

  // Computes both gradients by a sweep over each segment's part of weight.
  Status Sweep() {
    Status status = Status::Ok();
    for (int64_t first = first_; first < first_ + columns_ && status.ok(); first = last_.end) {
      status = AddPending();
      last_ = SegmentAt(first);
      const HiddenProduct hidden = HiddenOf(last_, Gradient(0, 1, 1));
      if (status.ok()) {
        status = KernelsOf<Element>(call_.path)
                     .both_gradients(hidden.product, hidden.epilogue, WeightOf(Common()),
                                     *LinesOf<Element>(WeightFrom(first), kSweepColumns), call_.stream);
      }
    }
    if (status.ok()) status = AddPending();
    return status;
  }

  // `segments` is the number of products of grad_hidden that make d_logits of the next chunk, too.
  Status GradWeight(int segments) {
    const int own = std::max(segments, 1);
    Product product = WeightOf(Gradient(segments, own, segments + own));
    product.beside_previous = last_.end > last_.first;  // both read the same d_logits
    product.beside_depth = last_.end - last_.first;
    product.beside_stretches = last_.apart ? last_.stretches : 1;
    product.begun = &memory_.list.census->begun_beside;
    if constexpr (std::is_same_v<Element, __nv_bfloat16>) {
      if (call_.weight_sums != nullptr) {
        const GradWeightBlockEpilogue epilogue = {
            .sums = call_.weight_sums + first_ * layout_.packed_ld,
            .ld = layout_.packed_ld,
            .first = call_.range.first == 0,
            .rows = columns_,
            .columns = layout_.h};
        return call_.path.grad_weight_of_block(product, epilogue, call_.stream);
      }
    }
    return KernelsOf<Element>(call_.path).grad_weight(product, WeightFrom(first_), call_.stream);
  }

  const Call& call_;
  const Layout& layout_;
  const BackwardMemory& memory_;
  const HiddenOperand& hidden_;
  int64_t rows_, ld_, first_, columns_;
  void* d_logits_;
  const Chunk* next_ = nullptr;
  Operand weight_;
  Segment last_ = {};  // of grad_hidden's products
};

}  // namespace plumbline::kernel::cuda
