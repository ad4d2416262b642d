// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>

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

  const bool strided_grad = HasVectorGrad(p) && p.layout.grad_stride > 1;
  const bool strided_temperature =
      p.temperature && p.temperature->shape.size() == 1 && p.layout.temperature_stride > 1;
  if (!can.strided_inputs &&
      (p.layout.hidden_padding != 0 || p.layout.weight_padding != 0 || p.layout.label_stride != 1 ||
       p.layout.reversed || p.layout.hidden_broadcast || strided_grad || strided_temperature ||
       p.layout.output_stride > 1)) {
    return Off("a tensor that is not contiguous", "strided_inputs");
  }
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
