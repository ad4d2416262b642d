// SPDX-License-Identifier: Apache-2.0

#include "kernel/checks.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

namespace plumbline::kernel {
namespace {

std::string List(const int64_t* values, int count) {
  std::string text = "[";
  for (int i = 0; i < count; ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(values[i]);
  }
  return text + "]";
}

Status Refuse(std::string message) { return Status::Error(Code::kInvalidArgument, std::move(message)); }

// Checks one argument. Keeps the first fault found and ignores later ones.
class Argument {
 public:
  Argument(std::string_view name, const ConstTensor& tensor) : name_(name), tensor_(tensor) {}

  Argument& DTypeIn(std::initializer_list<DType> allowed) {
    if (std::ranges::find(allowed, tensor_.dtype) != allowed.end()) return *this;
    std::string message = "dtype = " + std::string(Name(tensor_.dtype)) + " is not ";
    const char* separator = "";
    for (DType dtype : allowed) {
      message += separator;
      message += Name(dtype);
      separator = " or ";
    }
    return Fault(message);
  }

  Argument& Rank(int rank) {
    if (tensor_.rank != rank) {
      return Fault("rank = " + std::to_string(tensor_.rank) + ", expected " + std::to_string(rank));
    }
    for (int d = 0; d < rank; ++d) {
      if (tensor_.shape[d] < 0) return Fault(Shape() + " is negative");
    }
    return CheckSpan();
  }

  Argument& ShapeIs(std::initializer_list<int64_t> shape, std::string_view because) {
    int d = 0;
    for (int64_t extent : shape) {
      if (tensor_.shape[d++] != extent) {
        return Fault(Shape() + ", expected " + List(shape.begin(), static_cast<int>(shape.size())) +
                     " " + std::string(because));
      }
    }
    return *this;
  }

  // Requires a dimension of stride 1 or of one element. `first_allowed` says whether it may be
  // dimension 0.
  Argument& Contiguous(bool first_allowed) {
    const bool last = tensor_.shape[1] <= 1 || tensor_.stride[1] == 1;
    const bool first = tensor_.shape[0] <= 1 || tensor_.stride[0] == 1;
    if (last || (first && first_allowed)) return *this;
    return Fault(
        "stride = " + List(tensor_.stride, 2) +
        (first_allowed ? " has no contiguous dimension" : ": the last dimension is not contiguous"));
  }

  // Requires strides by which no two elements of an output share memory: the larger stride steps over
  // everything that the smaller one spans.
  Argument& Disjoint() {
    if (!fault_.empty() || tensor_.size() == 0) return *this;
    int64_t span = 1;  // elements covered by the dimensions taken so far
    const auto magnitude = [&](int d) {
      if (tensor_.shape[d] == 1) return int64_t{0};
      return tensor_.stride[d] < 0 ? -tensor_.stride[d] : tensor_.stride[d];
    };
    const bool swapped = tensor_.rank == 2 && magnitude(0) < magnitude(1);
    for (int step = 0; step < tensor_.rank; ++step) {
      const int d = tensor_.rank == 1 || swapped ? step : 1 - step;
      if (tensor_.shape[d] == 1) continue;
      if (magnitude(d) < span) {
        return Fault("stride = " + List(tensor_.stride, tensor_.rank) +
                     " makes elements of the output of shape " + List(tensor_.shape, tensor_.rank) +
                     " overlap");
      }
      span += (tensor_.shape[d] - 1) * magnitude(d);
    }
    return *this;
  }

  Argument& Data() {
    if (!fault_.empty() || tensor_.size() == 0) return *this;
    if (tensor_.data == nullptr)
      return Fault("data = null with " + std::to_string(tensor_.size()) + " elements");
    const auto address = reinterpret_cast<uintptr_t>(tensor_.data);
    if (address % SizeOf(tensor_.dtype) != 0) {
      char text[32];
      std::snprintf(text, sizeof text, "0x%zx", static_cast<size_t>(address));
      return Fault("data = " + std::string(text) + " is not aligned to the " +
                   std::to_string(SizeOf(tensor_.dtype)) + " bytes of " +
                   std::string(Name(tensor_.dtype)));
    }
    return *this;
  }

  const std::string& fault() const { return fault_; }

 private:
  std::string Shape() const { return "shape = " + List(tensor_.shape, tensor_.rank); }

  Argument& Fault(const std::string& what) {
    if (fault_.empty()) fault_ = std::string(name_) + "." + what;
    return *this;
  }

  // Requires every byte offset within the view, and its element count, to fit 62 bits, so that no later
  // address computation can overflow.
  Argument& CheckSpan() {
    constexpr int64_t kLargest = int64_t{1} << 62;
    int64_t bytes = static_cast<int64_t>(SizeOf(tensor_.dtype));
    int64_t count = 1;
    bool bad = false;
    for (int d = 0; d < tensor_.rank; ++d) {
      bad |= __builtin_mul_overflow(count, tensor_.shape[d], &count);
      if (tensor_.shape[d] <= 1) continue;
      int64_t reach = 0;
      bad |= tensor_.stride[d] == INT64_MIN;
      if (bad) break;
      const int64_t magnitude = tensor_.stride[d] < 0 ? -tensor_.stride[d] : tensor_.stride[d];
      bad |= __builtin_mul_overflow(magnitude, tensor_.shape[d] - 1, &reach);
      bad |= __builtin_mul_overflow(reach, static_cast<int64_t>(SizeOf(tensor_.dtype)), &reach);
      bad |= __builtin_add_overflow(bytes, reach, &bytes);
    }
    if (bad || bytes > kLargest || count > kLargest / 8) {
      return Fault(Shape() + " with stride " + List(tensor_.stride, tensor_.rank) +
                   " spans more than 2^62 bytes");
    }
    return *this;
  }

  std::string_view name_;
  ConstTensor tensor_;
  std::string fault_;
};

std::string CheckTemperature(const ConstTensor& t, int64_t rows, bool data, bool readable) {
  Argument argument("temperature", t);
  argument.DTypeIn({DType::kF32});
  if (t.rank == 0) {
    argument.Rank(0);
  } else {
    argument.Rank(1).ShapeIs({rows}, "to match the rows of hidden, or a scalar");
  }
  if (data) argument.Data();
  if (!argument.fault().empty() || !data || !readable || t.rank != 0) return argument.fault();
  float value = 0;
  std::memcpy(&value, t.data, sizeof value);
  if (std::isfinite(value) && value > 0) return {};
  char text[64];
  std::snprintf(text, sizeof text, "temperature = %.9g is not finite and positive",
                static_cast<double>(value));
  return text;
}

std::string CheckInputs(const Problem& p, const Checks& checks) {
  Argument hidden("hidden", p.hidden);
  hidden.DTypeIn({DType::kBf16, DType::kF16, DType::kF32}).Rank(2);
  if (hidden.fault().empty()) hidden.Contiguous(false);
  Argument weight("weight", p.weight);
  weight.DTypeIn({DType::kBf16, DType::kF16, DType::kF32}).Rank(2);
  if (weight.fault().empty()) weight.Contiguous(true);
  Argument labels("labels", p.labels);
  labels.DTypeIn({DType::kI32, DType::kI64}).Rank(1);
  if (hidden.fault().empty() && weight.fault().empty()) {
    if (p.weight.dtype != p.hidden.dtype) {
      return "weight.dtype = " + std::string(Name(p.weight.dtype)) +
             " differs from hidden.dtype = " + std::string(Name(p.hidden.dtype));
    }
    weight.ShapeIs({p.weight.shape[0], p.hidden.shape[1]}, "to match the columns of hidden");
    labels.ShapeIs({p.hidden.shape[0]}, "to match the rows of hidden");
  }
  for (Argument* argument : {&hidden, &weight, &labels}) {
    if (checks.input_data) argument->Data();
    if (!argument->fault().empty()) return argument->fault();
  }
  if (p.temperature) {
    std::string fault =
        CheckTemperature(*p.temperature, p.rows(), checks.input_data, checks.host_memory);
    if (!fault.empty()) return fault;
  }
  if (p.reduction != Reduction::kNone && p.reduction != Reduction::kSum &&
      p.reduction != Reduction::kMean) {
    return "reduction = " + std::to_string(static_cast<int>(p.reduction)) + " is not none, sum or mean";
  }
  return {};
}

std::string CheckGradients(const Problem& p, const Checks& checks) {
  if (p.grad_logprob) {
    Argument g("grad_logprob", *p.grad_logprob);
    g.DTypeIn({DType::kF32});
    if (p.reduction == Reduction::kNone) {
      g.Rank(1).ShapeIs({p.rows()}, "to match the rows of hidden, with reduction none");
    } else {
      g.Rank(0);
    }
    if (checks.gradient_data) g.Data();
    if (!g.fault().empty()) return g.fault();
  }
  if (p.grad_entropy) {
    Argument k("grad_entropy", *p.grad_entropy);
    k.DTypeIn({DType::kF32}).Rank(1).ShapeIs({p.rows()}, "to match the rows of hidden");
    if (checks.gradient_data) k.Data();
    if (!k.fault().empty()) return k.fault();
  }
  return {};
}

std::string CheckOutput(std::string_view name, const std::optional<Tensor>& tensor,
                        std::initializer_list<DType> dtypes, std::initializer_list<int64_t> shape,
                        bool data) {
  if (!tensor) return {};
  Argument argument(name, AsConst(*tensor));
  argument.DTypeIn(dtypes).Rank(static_cast<int>(shape.size()));
  if (argument.fault().empty()) argument.ShapeIs(shape, "to match the problem").Disjoint();
  if (data) argument.Data();
  return argument.fault();
}

std::string CheckForwardResults(const Problem& p, const Results& r, bool data) {
  const bool reduced = p.reduction != Reduction::kNone;
  if (reduced && r.logprob) return "logprob is present with reduction sum or mean; ask for loss";
  if (!reduced && r.loss) return "loss is present with reduction none; ask for logprob";
  const int64_t n = p.rows();
  std::string fault;
  if (fault.empty()) fault = CheckOutput("logprob", r.logprob, {DType::kF32}, {n}, data);
  if (fault.empty()) fault = CheckOutput("loss", r.loss, {DType::kF32}, {}, data);
  if (fault.empty()) fault = CheckOutput("entropy", r.entropy, {DType::kF32}, {n}, data);
  if (fault.empty()) fault = CheckOutput("lse", r.lse, {DType::kF32}, {n}, data);
  if (fault.empty())
    fault = CheckOutput("first_invalid_row", r.first_invalid_row, {DType::kI64}, {}, data);
  return fault;
}

std::string CheckBackwardResults(const Problem& p, const Results& r, bool data) {
  const DType dtype = p.hidden.dtype;
  std::string fault = CheckOutput("grad_hidden", r.grad_hidden, {dtype, DType::kF32},
                                  {p.rows(), p.hidden_size()}, data);
  if (fault.empty()) {
    fault = CheckOutput("grad_weight", r.grad_weight, {dtype, DType::kF32},
                        {p.vocab(), p.hidden_size()}, data);
  }
  return fault;
}

}  // namespace

Status Check(const Problem& problem, const Results& results, const Checks& checks) {
  std::string fault = CheckInputs(problem, checks);
  if (fault.empty()) fault = CheckGradients(problem, checks);
  if (fault.empty() && checks.forward_results) {
    fault = CheckForwardResults(problem, results, checks.result_data);
  }
  if (fault.empty() && checks.backward_results) {
    fault = CheckBackwardResults(problem, results, checks.result_data);
  }
  return fault.empty() ? Status::Ok() : Refuse(std::move(fault));
}

Status CheckMemory(const char* name, const void* memory, size_t bytes) {
  if (bytes == 0) return Status::Ok();
  if (memory == nullptr) {
    return Refuse(std::string(name) + " = null, " + std::to_string(bytes) + " bytes are needed");
  }
  if (reinterpret_cast<uintptr_t>(memory) % kMemoryAlignment == 0) return Status::Ok();
  char text[32];
  std::snprintf(text, sizeof text, " = %p is not", memory);
  return Refuse(name + std::string(text) + " aligned to " + std::to_string(kMemoryAlignment) +
                " bytes");
}

Status WorkspaceTooLarge(const Problem& problem) {
  return Refuse("hidden.shape = [" + std::to_string(problem.rows()) + ", " +
                std::to_string(problem.hidden_size()) + "] with weight.shape[0] = " +
                std::to_string(problem.vocab()) + " needs a workspace of more than 2^62 bytes");
}

}  // namespace plumbline::kernel
