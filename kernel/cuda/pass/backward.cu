// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <utility>

#include "kernel/cuda/pass/backward_chunk.h"
#include "kernel/cuda/pass/pass.h"
#include "kernel/cuda/stages/operands.h"
#include "kernel/cuda/support/launch.h"
#include "kernel/saved_header.h"

namespace plumbline::kernel::cuda {
namespace {

BackwardMemory MemoryOf(const Call& call) {
  const BackwardLayout& r = call.layout.backward;
  const auto at = [&](size_t offset) { return reinterpret_cast<void*>(call.workspace + offset); };
  BackwardMemory memory = {
      {static_cast<Census*>(at(r.census)), static_cast<int32_t*>(at(r.source)),
       static_cast<int32_t*>(at(r.slot)), static_cast<RowGradient*>(at(r.rows)),
       call.kept != nullptr ? call.kept->slot : nullptr, static_cast<int32_t*>(at(r.kept_slot))},
      static_cast<float*>(at(r.totals)),
      r.has_sums ? static_cast<float*>(at(r.sums)) : nullptr,
      r.at_once > 1 ? static_cast<float*>(at(r.apart)) : nullptr,
      call.layout.packed_ld,
      at(r.d_logits),
      at(r.other_kept),
      at(r.packed_hidden),
      at(r.packed_weight)};
  if (r.totals_behind) {
    constexpr int64_t kHalves = sizeof(float) / sizeof(uint16_t);
    memory.totals =
        reinterpret_cast<float*>(static_cast<uint16_t*>(call.kept->d_logits) + call.kept->columns);
    memory.totals_ld = call.kept->ld / kHalves;
  }
  return memory;
}

// Computes what the kept columns add to the gradients, with d_logits in place (BackwardLayout::ahead).
template <class Element>
Status RunInPlace(const Call& call, const BackwardMemory& memory, const HiddenOperand& hidden) {
  const Kept& kept = *call.kept;
  const BackwardLayout& layout = call.layout.backward;
  const int64_t v = call.layout.v;
  const auto chunk_at = [&](int64_t first, int64_t columns) {
    return Chunk<Element>(call, memory, hidden, first, columns,
                          static_cast<Element*>(kept.d_logits) + (first - kept.first_column),
                          InPlaceRows(call.layout.n), kept.ld);
  };
  const bool weight = call.results.grad_weight.has_value();
  const bool beside = call.path.makes_kept && layout.kept.two && weight;
  const int64_t end_begins = v - layout.end_columns;
  Status status = Status::Ok();
  bool made = false;
  for (int64_t first = kept.first_column; status.ok() && first < v;) {
    const int64_t end = std::min(first + layout.kept.most, v);
    Chunk<Element> chunk = chunk_at(first, end - first);
    if (!made) status = chunk.RunDLogits();
    made = false;
    if (status.ok() && weight && first < end_begins) {
      const Chunk<Element> next = chunk_at(end, std::min(layout.kept.most, v - end));
      status = chunk.RunWeight(beside ? &next : nullptr);
      made = beside;
    }
    first = end;
  }
  // This product fills the multiprocessors that the end of grad_hidden leaves idle.
  Chunk<Element> last = chunk_at(end_begins, layout.end_columns);
  if (status.ok() && !call.results.grad_hidden) return weight ? last.RunWeight(nullptr) : status;
  for (int64_t column = kept.first_column; status.ok() && column < v;) {
    int64_t end = v;
    if (!IsPacked(call.problem.weight))
      end = std::min(EndOfChunk(column, layout.packed_chunk, call.layout.stretch), v);
    Chunk<Element> part = chunk_at(column, end - column);
    status = part.RunHidden();
    if (status.ok()) status = part.EndHidden(weight && end == v ? &last : nullptr);
    column = end;
  }
  return status;
}

// Computes what all columns add to the gradients.
template <class Element>
Status RunChunks(const Call& call, const BackwardMemory& memory, const HiddenOperand& hidden) {
  const int64_t v = call.layout.v, first_kept = call.kept != nullptr ? call.kept->first_column : v;
  const bool in_place = call.kept != nullptr && call.kept->d_logits != nullptr;
  const bool beside =
      call.path.makes_kept && call.layout.backward.kept.two && IsPacked(call.problem.weight);
  // The logits of a chunk are all computed again or all kept. The former chunks begin with a tile,
  // since every one of them but the last is a multiple of kColumnStep.
  const auto columns_at = [&](int64_t first) {
    const int64_t most = ChunkColumns(call, first), last = first < first_kept ? first_kept : v;
    if (last - first <= most) return last - first;
    return std::min(EndOfChunk(first, most, call.layout.stretch), last) - first;
  };
  const auto chunk_at = [&](int64_t first, void* d_logits) {
    return Chunk<Element>(call, memory, hidden, first, columns_at(first), d_logits,
                          call.layout.backward.padded_rows, ChunkColumns(call, first));
  };
  void *own = memory.d_logits, *other = memory.other_kept;
  bool made = false;
  Status status = Status::Ok();
  for (int64_t first = 0; status.ok() && first < (in_place ? first_kept : v);) {
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
  return status.ok() && in_place ? RunInPlace<Element>(call, memory, hidden) : status;
}

GradientOutput OutputOf(const Tensor& grad) {
  return {grad.data,      StoredAs(grad.dtype), grad.stride[0],
          grad.stride[1], grad.shape[0],        grad.shape[1]};
}

Status StoreGradHidden(const Call& call, const BackwardMemory& memory) {
  return call.path.finish_grad_hidden(memory.totals, memory.totals_ld, memory.list.slot,
                                      OutputOf(*call.results.grad_hidden), call.stream);
}

// Stores grad_weight behind the last of several blocks of rows.
Status StoreGradWeight(const Call& call) {
  return FinishGradient(call.weight_sums, call.layout.packed_ld, nullptr,
                        OutputOf(*call.results.grad_weight), call.stream);
}

// The pass behind the list of rows.
Status RunListed(const Call& given, const BackwardMemory& memory) {
  const Layout& layout = given.layout;
  // Later launches look up forward's places in the list's copy, which has none of a state that does not
  // fit.
  Call call = given;
  Kept kept;
  if (given.kept != nullptr) {
    kept = OnPath(*given.kept, given.path);
    kept.slot = memory.list.kept_slot;
    call.kept = &kept;
  }
  HiddenOperand hidden;
  Status status = MakeHidden(call.problem.hidden, memory.list.census, memory.list.source, 0, layout.n,
                             layout.backward.padded_rows, layout.packed_ld, memory.packed_hidden,
                             call.stream, &hidden);
  if (status.ok()) {
    status = call.problem.hidden.dtype == DType::kF16 ? RunChunks<__half>(call, memory, hidden)
                                                      : RunChunks<__nv_bfloat16>(call, memory, hidden);
  }
  if (status.ok() && call.results.grad_hidden) status = StoreGradHidden(call, memory);
  if (status.ok() && call.weight_sums != nullptr && call.range.EndsAfter(layout.n))
    status = StoreGradWeight(call);
  return status;
}

}  // namespace

Status RunBackward(const Call& given) {
  const BackwardMemory memory = MemoryOf(given);
  Status status =
      ListBackward(RowInputsOf(given.problem, given.range), given.saved, memory.list, given.stream);
  if (!status.ok()) return status;
  status = RunListed(given, memory);
  // A pass that failed has made the state invalid, too. It is last, since a grid that may begin before
  // the one before it has ended must follow a grid.
  if (given.consumed && given.saved.header != nullptr) {
    const Status invalid = FromCuda(
        cudaMemsetAsync(given.saved.header, 0, sizeof(SavedHeader), given.stream), "cudaMemsetAsync");
    if (status.ok()) status = invalid;
  }
  return status;
}

}  // namespace plumbline::kernel::cuda
