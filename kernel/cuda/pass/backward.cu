// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <utility>

#include "kernel/cuda/pass/pass.h"
#include "kernel/cuda/stages/finish.h"
#include "kernel/cuda/stages/list_rows.h"
#include "kernel/cuda/stages/operands.h"
#include "kernel/cuda/stages/path.h"

namespace plumbline::kernel::cuda {
namespace {

struct Memory {
  BackwardList list;
  float* sums;
  void *d_logits, *other_kept, *packed_hidden, *packed_weight;
};

Memory MemoryOf(const Call& call) {
  const BackwardLayout& r = call.layout.backward;
  const auto at = [&](size_t offset) { return reinterpret_cast<void*>(call.workspace + offset); };
  return {{static_cast<Census*>(at(r.census)), static_cast<int32_t*>(at(r.source)),
           static_cast<int32_t*>(at(r.slot)), static_cast<RowGradient*>(at(r.rows)),
           call.kept != nullptr ? call.kept->slot : nullptr, static_cast<int32_t*>(at(r.kept_slot))},
          static_cast<float*>(at(r.sums)),
          at(r.d_logits),
          at(r.other_kept),
          at(r.packed_hidden),
          at(r.packed_weight)};
}

Stored StoredAs(DType dtype) {
  return dtype == DType::kBf16 ? Stored::kBf16 : dtype == DType::kF16 ? Stored::kF16 : Stored::kF32;
}

// Returns the most columns of a chunk that begins at column `first`, which is also the row stride of
// its d_logits.
int64_t ChunkColumns(const Call& call, int64_t first) {
  const BackwardLayout& layout = call.layout.backward;
  if (!IsPacked(call.problem.weight)) return layout.packed_chunk;
  return call.kept != nullptr && first >= call.kept->first_column ? layout.kept.most
                                                                  : layout.direct_chunk;
}

// Computes d_logits of one chunk of the vocabulary, and what it adds to either gradient.
template <class Element>
class Chunk {
 public:
  Chunk(const Call& call, const Memory& memory, const HiddenOperand& hidden, int64_t first,
        int64_t columns, void* d_logits)
      : call_(call),
        layout_(call.layout),
        memory_(memory),
        hidden_(hidden),
        padded_rows_(call.layout.backward.padded_rows),
        chunk_(ChunkColumns(call, first)),
        first_(first),
        columns_(columns),
        d_logits_(d_logits) {}

  // `made` says that this chunk's d_logits exist already. `next` is a chunk whose d_logits are computed
  // while this one's gradient products run; null: none.
  Status Run(bool made, const Chunk* next) {
    Status status = MakeWeight(call_.problem.weight, first_, columns_, chunk_, layout_.packed_ld,
                               memory_.packed_weight, call_.stream, &weight_);
    if (status.ok() && !made) status = DLogits();
    next_ = next;
    if (status.ok() && call_.results.grad_hidden) status = GradHidden();
    if (status.ok() && call_.results.grad_weight) status = GradWeight();
    return status;
  }

 private:
  // Returns what all three products share.
  Product Common() const {
    Product product;
    product.live_rows = &memory_.list.census->live;
    product.begun = &memory_.list.census->begun;
    product.passes = layout_.passes;
    return product;
  }

  // Returns the product of gradient number `part`.
  Product Gradient(int part) const {
    Product product = Common();
    product.a = StoredDLogits();
    if (next_ == nullptr) return product;
    product.kept = KeptChunkOf(*call_.kept, memory_.list, next_->Epilogue());
    product.kept_parts = call_.results.grad_hidden && call_.results.grad_weight ? 2 : 1;
    product.kept_part = part % product.kept_parts;
    return product;
  }

  Operand StoredDLogits() const {
    return {d_logits_, padded_rows_, columns_, chunk_, PlaneStride(), layout_.planes};
  }
  int64_t PlaneStride() const { return padded_rows_ * chunk_; }

  DLogitsEpilogue<Element> Epilogue() const {
    DLogitsEpilogue<Element> epilogue;
    epilogue.rows = memory_.list.rows;
    epilogue.d_logits = static_cast<Element*>(d_logits_);
    epilogue.ld = chunk_;
    epilogue.plane_stride = layout_.planes > 1 ? PlaneStride() : 0;
    epilogue.columns = columns_;
    epilogue.allocated_rows = padded_rows_;
    epilogue.first_column = first_;
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
    product.n = columns_;
    product.k = layout_.h;
    return KernelsOf<Element>(call_.path).d_logits(product, epilogue, call_.stream);
  }

  Status GradHidden() {
    Product product = Gradient(0);
    product.b = weight_;
    product.m = layout_.n;
    product.n = layout_.h;
    product.k = columns_;
    AccumulateEpilogue epilogue;
    epilogue.sums = memory_.sums;
    epilogue.ld = layout_.packed_ld;
    epilogue.columns = layout_.h;
    epilogue.first = first_ == 0;
    return KernelsOf<Element>(call_.path).grad_hidden(product, epilogue, call_.stream);
  }

  Status GradWeight() {
    Product product = Gradient(1);
    product.b = hidden_.itself;
    product.b_alternative = hidden_.moved;
    product.use_alternative = hidden_.use_moved;
    product.m = columns_;
    product.n = layout_.h;
    product.k = layout_.n;
    product.live_is_depth = true;
    product.beside_previous = call_.results.grad_hidden.has_value();  // both read the same d_logits
    product.begun = &memory_.list.census->begun_beside;
    const Tensor& grad = *call_.results.grad_weight;
    const int64_t offset = first_ * grad.stride[0];
    GradWeightEpilogue epilogue;
    epilogue.grad_weight =
        static_cast<std::byte*>(grad.data) + offset * static_cast<int64_t>(SizeOf(grad.dtype));
    epilogue.stored = StoredAs(grad.dtype);
    epilogue.row_stride = grad.stride[0];
    epilogue.column_stride = grad.stride[1];
    epilogue.rows = columns_;
    epilogue.columns = layout_.h;
    return KernelsOf<Element>(call_.path).grad_weight(product, epilogue, call_.stream);
  }

  const Call& call_;
  const Layout& layout_;
  const Memory& memory_;
  const HiddenOperand& hidden_;
  int64_t padded_rows_, chunk_, first_, columns_;
  void* d_logits_;
  const Chunk* next_ = nullptr;
  Operand weight_;
};

template <class Element>
Status RunChunks(const Call& call, const Memory& memory, const HiddenOperand& hidden) {
  const int64_t v = call.layout.v, first_kept = call.kept != nullptr ? call.kept->first_column : v;
  const KeptChunks& kept_chunks = call.layout.backward.kept;
  const bool direct = IsPacked(call.problem.weight);
  const bool beside = call.path.makes_kept && kept_chunks.two && direct;
  // The logits of a chunk are all computed again or all kept.
  const auto columns_at = [&](int64_t first) {
    if (first < first_kept) return std::min(ChunkColumns(call, first), first_kept - first);
    return std::min(direct ? kept_chunks.Columns(first - first_kept) : ChunkColumns(call, first),
                    v - first);
  };
  const auto chunk_at = [&](int64_t first, void* d_logits) {
    return Chunk<Element>(call, memory, hidden, first, columns_at(first), d_logits);
  };
  void *own = memory.d_logits, *other = memory.other_kept;
  bool made = false;
  Status status = Status::Ok();
  for (int64_t first = 0; status.ok() && first < v;) {
    Chunk<Element> chunk = chunk_at(first, own);
    const bool kept = first >= first_kept;
    first += columns_at(first);
    if (beside && kept && first < v) {
      const Chunk<Element> next = chunk_at(first, other);
      status = chunk.Run(made, &next);
      made = true;
      std::swap(own, other);
    } else {
      status = chunk.Run(made, nullptr);
      made = false;
    }
  }
  return status;
}

Status StoreGradHidden(const Call& call, const Memory& memory) {
  const Tensor& grad = *call.results.grad_hidden;
  const GradHiddenOutput output = {grad.data,      StoredAs(grad.dtype), grad.stride[0],
                                   grad.stride[1], call.layout.n,        call.layout.h};
  return call.path.finish_grad_hidden(memory.sums, call.layout.packed_ld, memory.list.slot, output,
                                      call.stream);
}

}  // namespace

Status RunBackward(const Call& given) {
  const Layout& layout = given.layout;
  const Memory memory = MemoryOf(given);
  Status status = ListBackward(RowInputsOf(given.problem), given.saved, memory.list, given.stream);
  if (!status.ok()) return status;
  // Later launches look up forward's places in the list's copy, which has none of a state that does not
  // fit.
  Call call = given;
  Kept kept;
  if (given.kept != nullptr) {
    kept = *given.kept;
    kept.slot = memory.list.kept_slot;
    call.kept = &kept;
  }
  HiddenOperand hidden;
  status = MakeHidden(call.problem.hidden, memory.list.census, memory.list.source, 0, layout.n,
                      layout.backward.padded_rows, layout.packed_ld, memory.packed_hidden, call.stream,
                      &hidden);
  if (status.ok()) {
    status = call.problem.hidden.dtype == DType::kF16 ? RunChunks<__half>(call, memory, hidden)
                                                      : RunChunks<__nv_bfloat16>(call, memory, hidden);
  }
  if (status.ok() && call.results.grad_hidden) status = StoreGradHidden(call, memory);
  return status;
}

}  // namespace plumbline::kernel::cuda
