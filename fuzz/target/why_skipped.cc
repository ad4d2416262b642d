// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>
#include <utility>

#include "fuzz/target/description.h"

namespace plumbline::fuzz {
namespace {

using kernel::DType;
using kernel::Reduction;

template <class Value>
bool Has(const std::vector<Value>& values, Value value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

bool Ignored(const OwnedProblem& p, int64_t row) { return p.labels.GetInt(row) == p.ignore_index; }

bool AnyIgnored(const OwnedProblem& p) {
  for (int64_t i = 0; i < p.rows(); ++i) {
    if (Ignored(p, i)) return true;
  }
  return false;
}

// True if the operator must answer some label or temperature with NaN.
bool AnyInvalid(const OwnedProblem& p) {
  for (int64_t i = 0; i < p.rows(); ++i) {
    if (Ignored(p, i)) continue;
    const int64_t label = p.labels.GetInt(i);
    if (label < 0 || label >= p.vocab()) return true;
    if (p.temperature && p.temperature->shape.size() == 1) {
      const float t = p.temperature->GetFloat(i);
      if (!(t > 0) || !std::isfinite(t)) return true;
    }
  }
  return false;
}

bool AnySpecial(const HostTensor& tensor, int64_t seen) {
  for (int64_t i = 0; i < seen; ++i) {
    if (!std::isfinite(tensor.GetFloat(i))) return true;
  }
  return false;
}

bool AnySpecial(const OwnedProblem& p) {
  if (AnySpecial(p.hidden, p.hidden.size()) || AnySpecial(p.weight, p.weight.size())) return true;
  if (p.temperature && AnySpecial(*p.temperature, p.temperature->size())) return true;
  for (const auto* grad : {&p.grad_logprob, &p.grad_entropy}) {
    if (!*grad) continue;
    // Only the first element of a broadcast gradient is seen.
    const int64_t size = (*grad)->size();
    if (AnySpecial(**grad, p.layout.grad_stride == 0 ? std::min<int64_t>(size, 1) : size)) return true;
  }
  return false;
}

bool HasVectorGrad(const OwnedProblem& p) {
  return (p.grad_logprob && p.grad_logprob->shape.size() == 1) || p.grad_entropy.has_value();
}

int64_t BytesOf(DType dtype) { return static_cast<int64_t>(kernel::SizeOf(dtype)); }

int64_t RoundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// The elements of weight between the first of one line and the next, in memory.
int64_t WeightPitch(const OwnedProblem& p) {
  return (p.layout.weight_hidden_major ? p.vocab() : p.hidden_size()) + p.layout.weight_padding;
}

// Rounds the rows of both matrices up to the alignment, and the beginning of the labels.
void Align(const Capabilities& can, OwnedProblem* p) {
  const int64_t row = std::max<int64_t>(1, can.row_alignment / BytesOf(p->hidden.dtype));
  Layout& layout = p->layout;
  if (can.strided_inputs && row > 1) {
    const int64_t hidden = p->hidden_size() + layout.hidden_padding, weight = WeightPitch(*p);
    layout.hidden_padding += RoundUp(hidden, row) - hidden;
    layout.weight_padding += RoundUp(weight, row) - weight;
  }
  const int64_t base = std::max<int64_t>(1, can.base_alignment / BytesOf(p->labels.dtype));
  layout.label_offset = RoundUp(layout.label_offset, base);
}

// Returns why a tensor does not lie as the target needs it.
std::optional<std::string> WhyMisaligned(const Capabilities& can, const OwnedProblem& p) {
  const Layout& layout = p.layout;
  const int64_t size = BytesOf(p.hidden.dtype);
  // Vectors and outputs in fp32 begin at the same offset in larger elements.
  if (layout.offset * size % can.base_alignment != 0 ||
      layout.label_offset * BytesOf(p.labels.dtype) % can.base_alignment != 0) {
    return "a tensor that begins elsewhere: base_alignment is " + std::to_string(can.base_alignment);
  }
  // The first element of a vector whose rows are reversed is its last one in memory.
  if (layout.reversed && can.base_alignment > size) {
    return "rows last to first: base_alignment is " + std::to_string(can.base_alignment);
  }
  if (layout.gradient_step > 1 && can.row_alignment > 1) {
    return "gradients without dense rows: row_alignment is " + std::to_string(can.row_alignment);
  }
  for (const auto& [lines, pitch] :
       {std::pair(p.rows(), p.hidden_size() + layout.hidden_padding),
        {layout.weight_hidden_major ? p.hidden_size() : p.vocab(), WeightPitch(p)}}) {
    if (lines > 1 && pitch * size % can.row_alignment != 0) {
      return "rows of " + std::to_string(pitch * size) + " bytes: row_alignment is " +
             std::to_string(can.row_alignment);
    }
  }
  return std::nullopt;
}

std::string Multiple(const char* what, int64_t extent, const char* key, int64_t multiple) {
  return std::string(what) + " = " + std::to_string(extent) + ": " + key + " is " +
         std::to_string(multiple);
}

std::string Lacks(std::string_view need, std::string_view key) {
  return std::string(need) + ": not among its " + std::string(key);
}

std::string Off(std::string_view need, std::string_view key) {
  return std::string(need) + ": " + std::string(key) + " is false";
}

}  // namespace

OwnedProblem WithoutWhatItLacks(const Capabilities& can, OwnedProblem p) {
  if (!can.entropy) {
    p.wanted.entropy = false;
    // If no upstream gradient is left, no backward pass is asked for: it would give only zeros.
    if (p.grad_entropy && !p.grad_logprob) p.wanted.grad_hidden = p.wanted.grad_weight = false;
    p.grad_entropy.reset();
  }
  p.wanted.lse = p.wanted.lse && can.lse;
  p.wanted.grad_hidden = p.wanted.grad_hidden && can.grad_hidden;
  p.wanted.grad_weight = p.wanted.grad_weight && can.grad_weight;
  p.wanted.fp32_grads = p.wanted.fp32_grads && can.fp32_grads;
  p.wanted.first_invalid_row = can.first_invalid_row;
  Align(can, &p);
  return p;
}

std::optional<std::string> WhySkipped(const Description& target, const OwnedProblem& p) {
  const Capabilities& can = target.capabilities;

  if (!Has(can.dtypes, p.hidden.dtype)) return Lacks(kernel::Name(p.hidden.dtype), "dtypes");
  if (p.layout.weight_hidden_major ? !can.hidden_major : !can.vocab_major) {
    return Lacks(p.layout.weight_hidden_major ? "hidden_major" : "vocab_major", "weight_layouts");
  }
  if (p.labels.dtype == DType::kI32 ? !can.label_int32 : !can.label_int64) {
    return Lacks(kernel::Name(p.labels.dtype), "label_dtypes");
  }
  if (p.temperature) {
    const bool per_row = p.temperature->shape.size() == 1;
    if (can.temperature == TemperatureSupport::kNone) return "a temperature: temperature is none";
    if (per_row && can.temperature == TemperatureSupport::kScalar) {
      return "a temperature for each row: temperature is scalar";
    }
  }
  if (!Has(can.reductions, p.reduction)) {
    return Lacks(NameOf(p.reduction, kReductionNames), "reductions");
  }
  if (p.hidden_size() % can.hidden_multiple != 0) {
    return Multiple("H", p.hidden_size(), "hidden_multiple", can.hidden_multiple);
  }
  if (p.vocab() % can.vocab_multiple != 0) {
    return Multiple("V", p.vocab(), "vocab_multiple", can.vocab_multiple);
  }
  if (p.rows() % can.rows_multiple != 0)
    return Multiple("N", p.rows(), "rows_multiple", can.rows_multiple);

  if (!can.empty_extents && (p.rows() == 0 || p.vocab() == 0 || p.hidden_size() == 0)) {
    return Off("N, V or H = 0", "empty_extents");
  }
  if (std::optional<std::string> why = WhyMisaligned(can, p)) return why;

  const bool strided_grad = HasVectorGrad(p) && p.layout.grad_stride > 1;
  const bool strided_temperature =
      p.temperature && p.temperature->shape.size() == 1 && p.layout.temperature_stride > 1;
  if (!can.strided_inputs &&
      (p.layout.hidden_padding != 0 || p.layout.weight_padding != 0 || p.layout.label_stride != 1 ||
       p.layout.reversed || p.layout.hidden_broadcast || strided_grad || strided_temperature ||
       p.layout.output_stride > 1 || p.layout.gradient_step > 1 || p.layout.single_stride != 1)) {
    return Off("a tensor that is not contiguous", "strided_inputs");
  }
  if (!can.negative_strides && p.layout.reversed) return Off("rows last to first", "negative_strides");
  if (!can.zero_stride_grads && HasVectorGrad(p) && p.layout.grad_stride == 0) {
    return Off("a broadcast gradient", "zero_stride_grads");
  }
  if (!can.ignore_index && AnyIgnored(p)) return Off("an ignored row", "ignore_index");
  if (!can.invalid_labels && AnyInvalid(p))
    return Off("an invalid label or temperature", "invalid_labels");
  if (!can.special_values && AnySpecial(p)) return Off("a NaN or an infinity", "special_values");
  // deterministic and batch_invariant exempt from a check, not from a problem: fuzz/examine/examine.cc.
  return std::nullopt;
}

}  // namespace plumbline::fuzz
