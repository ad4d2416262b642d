// SPDX-License-Identifier: Apache-2.0

#include <algorithm>

#include "kernel/cuda/pass/pass.h"
#include "kernel/cuda/stages/finish.h"
#include "kernel/cuda/stages/list_rows.h"
#include "kernel/cuda/stages/operands.h"
#include "kernel/cuda/stages/path.h"

namespace plumbline::kernel::cuda {
namespace {

struct Memory {
  ForwardList list;
  float *label_logit, *row_logprob, *max, *sum, *moment;
  void *packed_hidden, *packed_weight;
};

const ForwardLayout& LayoutOf(const Call& call) {
  return call.layout.ForwardOf(call.path.partial_columns);
}

Memory MemoryOf(const Call& call) {
  const ForwardLayout& r = LayoutOf(call);
  const auto at = [&](size_t offset) { return reinterpret_cast<void*>(call.workspace + offset); };
  const auto floats = [&](size_t offset) { return static_cast<float*>(at(offset)); };
  return {{static_cast<Census*>(at(r.census)), static_cast<int32_t*>(at(r.source)),
           static_cast<int64_t*>(at(r.label)), floats(r.scale), floats(r.temperature),
           call.kept != nullptr ? call.kept->slot : nullptr},
          floats(r.label_logit),
          call.row_logprob != nullptr ? call.row_logprob + call.range.first : floats(r.row_logprob),
          floats(r.partial_max),
          floats(r.partial_sum),
          call.needs_entropy ? floats(r.partial_moment) : nullptr,
          at(r.packed_hidden),
          at(r.packed_weight)};
}

ForwardOutputs OutputsOf(const Results& results, float* row_logprob, const Kept& kept) {
  const auto data = [](const std::optional<Tensor>& t) {
    return t ? static_cast<float*>(t->data) : nullptr;
  };
  const auto stride = [](const std::optional<Tensor>& t) { return t ? t->stride[0] : 0; };
  return {.logprob = data(results.logprob),
          .entropy = data(results.entropy),
          .lse = data(results.lse),
          .logprob_stride = stride(results.logprob),
          .entropy_stride = stride(results.entropy),
          .lse_stride = stride(results.lse),
          .row_logprob = results.loss ? row_logprob : kept.logprob,
          .row_entropy = kept.entropy,
          .row_lse = kept.lse,
          .first_invalid_row = results.first_invalid_row
                                   ? static_cast<int64_t*>(results.first_invalid_row->data)
                                   : nullptr,
          .offsets = kept.offsets};
}

// Enqueues the products of rows [first, first + rows) of the list with the whole vocabulary.
template <class Element>
Status BlockOfRows(const Call& call, const Memory& memory, int64_t first, int64_t rows) {
  const Layout& layout = call.layout;
  const ForwardLayout& own = LayoutOf(call);
  HiddenOperand hidden;
  Status status =
      MakeHidden(call.problem.hidden, memory.list.census, memory.list.source, first, rows,
                 own.row_block, layout.packed_ld, memory.packed_hidden, call.stream, &hidden);
  const int64_t chunk = IsPacked(call.problem.weight) ? layout.v : own.weight_chunk;
  for (int64_t column = 0; status.ok() && column < layout.v; column += chunk) {
    Product product;
    product.n = std::min(chunk, layout.v - column);
    status = MakeWeight(call.problem.weight, column, product.n, own.weight_chunk, layout.packed_ld,
                        memory.packed_weight, call.stream, &product.b);
    if (!status.ok()) return status;
    product.a = hidden.itself;
    product.a_alternative = hidden.moved;
    product.use_alternative = hidden.use_moved;
    product.m = rows;
    product.k = layout.h;
    product.live_rows = &memory.list.census->live;
    product.live_first = first;
    product.begun = &memory.list.census->begun;
    product.passes = layout.passes;
    ForwardEpilogue epilogue;
    epilogue.label = memory.list.label + first;
    epilogue.scale = memory.list.scale + first;
    epilogue.label_logit = memory.label_logit + first;
    epilogue.max = memory.max;
    epilogue.sum = memory.sum;
    epilogue.moment = memory.moment;
    epilogue.stride = own.row_block;
    epilogue.columns = product.n;
    epilogue.first_column = column;
    const bool keeps = call.kept != nullptr && call.kept->first_column < layout.v;
    if (keeps) {
      if (call.kept->exponents != nullptr) {
        epilogue.kept_exponents = call.kept->exponents + first * call.kept->ld;
      } else {
        epilogue.kept_logits = call.kept->logits + first * call.kept->ld;
      }
      epilogue.kept_ld = call.kept->ld;
      epilogue.kept_columns = call.kept->columns;
      epilogue.first_kept = call.kept->first_column;
    }
    status = KernelsOf<Element>(call.path).forward(product, epilogue, call.stream);
  }
  return status;
}

}  // namespace

Status RunForward(const Call& call) {
  const int64_t n = call.layout.n;
  const ForwardLayout& own = LayoutOf(call);
  const Memory memory = MemoryOf(call);
  const ForwardOutputs outputs = OutputsOf(
      call.results, memory.row_logprob, call.kept != nullptr ? OnPath(*call.kept, call.path) : Kept());
  Status status =
      ListForward(RowInputsOf(call.problem, call.range), memory.list, outputs, call.saved, call.stream);
  for (int64_t first = 0; status.ok() && first < n; first += own.row_block) {
    const int64_t rows = std::min(own.row_block, n - first);
    status = call.problem.hidden.dtype == DType::kF16
                 ? BlockOfRows<__half>(call, memory, first, rows)
                 : BlockOfRows<__nv_bfloat16>(call, memory, first, rows);
    if (!status.ok()) return status;
    const PartialSums partial = {memory.max,   memory.sum, memory.moment, own.row_block,
                                 own.partials, first,      rows,          memory.label_logit};
    status = call.path.finish_rows(partial, memory.list, outputs, call.saved.rows, call.stream);
  }
  if (status.ok() && call.results.loss && call.range.EndsAfter(n)) {
    status = FinishLoss(memory.row_logprob - call.range.first, call.range.all, memory.list.census,
                        call.problem.reduction == Reduction::kMean,
                        static_cast<float*>(call.results.loss->data), call.stream);
  }
  return status;
}

}  // namespace plumbline::kernel::cuda
