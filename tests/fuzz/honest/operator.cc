// SPDX-License-Identifier: Apache-2.0
//
// The operator around its rows: tensors in and out, special rows, reductions, products of the
// gradients.

#include <algorithm>
#include <cstdio>
#include <optional>
#include <vector>

#include "tests/fuzz/honest/products.h"
#include "tests/fuzz/honest/softmax.h"

namespace honest {
namespace {

// The most d_logits that are kept where a sum over rows cannot be taken up again.
constexpr int64_t kMostKept = int64_t{1} << 26;

int64_t Extent(const DLTensor* t, int d) { return t->shape[d]; }
int64_t Stride(const DLTensor* t, int d) {
  if (t->ndim == 0) return 0;
  if (t->strides) return t->strides[d];
  return d + 1 == t->ndim ? 1 : t->shape[1];
}
char* Address(const DLTensor* t, int64_t i, int64_t j) {
  const int64_t at = (t->ndim > 0 ? i * Stride(t, 0) : 0) + (t->ndim > 1 ? j * Stride(t, 1) : 0);
  return static_cast<char*>(t->data) + t->byte_offset + at * (t->dtype.bits / 8);
}

float Load(const DLTensor* t, int64_t i, int64_t j = 0) {
  const char* at = Address(t, i, j);
  if (t->dtype.bits == 32) return *reinterpret_cast<const float*>(at);
  const uint16_t bits = *reinterpret_cast<const uint16_t*>(at);
  if (t->dtype.code == kDLBfloat) return OfBits(static_cast<uint32_t>(bits) << 16);
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16, size = bits & 0x7fff;
  if (size >= 0x7c00) return OfBits(sign | 0x7f800000 | (size & 0x3ff) << 13);
  if (size < 0x400) return std::copysign(static_cast<float>(size) * 0x1p-24f, OfBits(sign));
  return OfBits(sign | ((size << 13) + (112u << 23)));
}

void Store(const DLTensor* t, int64_t i, int64_t j, float x) {
  char* at = Address(t, i, j);
  if (t->dtype.bits == 32) {
    *reinterpret_cast<float*>(at) = x;
    return;
  }
  const bool bf16 = t->dtype.code == kDLBfloat;
  const float y = ToNarrow(x, bf16 ? Narrow::kBf16 : Narrow::kFp16);
  uint32_t bits = Bits(y) >> 16;
  if (!bf16) {
    const uint32_t sign = Bits(y) >> 16 & 0x8000;
    const float size = std::fabs(y);
    bits = std::isnan(y)     ? 0x7e00
           : std::isinf(y)   ? sign | 0x7c00
           : size < 0x1p-14f ? sign | static_cast<uint32_t>(size * 0x1p24f)
                             : sign | ((Bits(size) - (112u << 23)) >> 13);
  } else if (std::isnan(y)) {
    bits = 0x7fc0;
  }
  *reinterpret_cast<uint16_t*>(at) = static_cast<uint16_t>(bits);
}

int64_t LoadLabel(const DLTensor* t, int64_t i) {
  const char* at = Address(t, i, 0);
  return t->dtype.bits == 64 ? *reinterpret_cast<const int64_t*>(at)
                             : *reinterpret_cast<const int32_t*>(at);
}

class Operator {
 public:
  Operator(const Kernel& k, const plumbline_problem& p, const plumbline_results& r)
      : k_(k),
        p_(p),
        r_(r),
        fp_(k),
        fp32_(p.hidden->dtype.bits == 32),
        products_(k, fp32_, p.hidden->dtype.code == kDLFloat && !fp32_ ? -14 : -126),
        n_(Extent(p.hidden, 0)),
        h_(Extent(p.hidden, 1)),
        v_(Extent(p.weight, 0)) {}
  int Run(char* error, size_t capacity);

 private:
  enum class Kind { kOrdinary, kIgnored, kInvalid, kNaN, kEmpty };
  Kind LabelKind(int64_t i) const;
  Kind KindOf(int64_t i) const;
  float TemperatureOf(int64_t i) const { return p_.temperature ? Load(p_.temperature, i) : 1; }
  void Logits(Order order);
  void Row(int64_t i);
  void ForwardRow(int64_t i, Kind kind, float t, RowOutputs* out, std::optional<Softmax>* softmax);
  void BackwardRow(int64_t i, Kind kind, const std::optional<Softmax>& softmax);
  void GradHidden(int64_t i, const std::vector<float>& dz);
  void AddRows();
  void Finish();

  const Kernel& k_;
  const plumbline_problem& p_;
  const plumbline_results& r_;
  const Fp fp_;
  const bool fp32_;
  const Products products_;
  const int64_t n_, h_, v_;
  std::vector<float> weight_, hidden_, logits_;
  std::vector<float> kept_dz_, kept_hidden_;  // rows that are not in grad_weight yet
  int64_t kept_ = 0, rows_at_once_ = 1;
  std::vector<float> grad_weight_;
  bool invalid_ = false;
  int64_t first_invalid_ = -1, counted_ = 0;
  float loss_ = 0, loss_grad_ = 0;
};

Operator::Kind Operator::LabelKind(int64_t i) const {
  const int64_t label = LoadLabel(p_.labels, i);
  if (label == p_.ignore_index) return Kind::kIgnored;
  const float t = TemperatureOf(i);
  return label < 0 || label >= v_ || !(t > 0) || std::isinf(t) ? Kind::kInvalid : Kind::kOrdinary;
}

// Requires the row's logits if its label is valid.
Operator::Kind Operator::KindOf(int64_t i) const {
  const Kind kind = LabelKind(i);
  if (kind != Kind::kOrdinary) return kind;
  bool any = false;
  for (const float z : logits_) {
    if (std::isnan(z) || z == kInfinity) return Kind::kNaN;
    any = any || z != -kInfinity;
  }
  return any ? kind : Kind::kEmpty;
}

void Operator::Logits(Order order) {
  for (int64_t v = 0; v < v_; ++v) {
    const float z = products_.Logit(order, hidden_.data(), weight_.data() + v * h_, h_);
    logits_[static_cast<size_t>(v)] = ToNarrow(z, k_.logits);
  }
}

void Operator::ForwardRow(int64_t i, Kind kind, float t, RowOutputs* out,
                          std::optional<Softmax>* softmax) {
  if (kind == Kind::kIgnored) return;
  if (kind != Kind::kOrdinary) {
    *out = {kNaN, kNaN, kind == Kind::kEmpty && k_.other_conventions ? -kInfinity : kNaN};
    return;
  }
  const int64_t label = LoadLabel(p_.labels, i);
  float of_label = logits_[static_cast<size_t>(label)];
  if (k_.label_separate) {
    of_label = products_.Logit(k_.label_order, hidden_.data(), weight_.data() + label * h_, h_);
    of_label = ToNarrow(of_label, k_.logits);
  }
  softmax->emplace(k_, t, p_.hidden->dtype.code == kDLBfloat);
  *out = (*softmax)->Forward(logits_, of_label);
}

void Operator::GradHidden(int64_t i, const std::vector<float>& dz) {
  for (int64_t d = 0; d < h_; ++d) {
    const float sum = products_.GradHidden({dz.data(), 1}, {weight_.data() + d, h_}, v_);
    Store(r_.grad_hidden, i, d, ToNarrow(sum, k_.outputs));
  }
}

// Takes the rows that are kept into grad_weight.
void Operator::AddRows() {
  if (kept_ == 0) return;
  for (int64_t v = 0; v < v_; ++v) {
    for (int64_t d = 0; d < h_; ++d) {
      float* sum = &grad_weight_[static_cast<size_t>(v * h_ + d)];
      const Operands a{kept_dz_.data() + v, v_}, b{kept_hidden_.data() + d, h_};
      if (k_.accumulator == Narrow::kFp32) {
        *sum = products_.Sum(k_.gradient_order, a, b, kept_, *sum);
      } else {
        const float part = products_.Sum(k_.gradient_order, a, b, kept_, 0);
        *sum = ToNarrow(fp_.Add(*sum, part), k_.accumulator);
      }
    }
  }
  kept_ = 0;
  kept_dz_.clear();
  kept_hidden_.clear();
}

void Operator::BackwardRow(int64_t i, Kind kind, const std::optional<Softmax>& softmax) {
  const float upstream = !p_.grad_logprob ? 0 : ToNarrow(Load(p_.grad_logprob, i), k_.upstream);
  const float g = p_.reduction == PLUMBLINE_NONE ? upstream : loss_grad_;
  const float k = p_.grad_entropy ? ToNarrow(Load(p_.grad_entropy, i), k_.upstream) : 0;
  const bool none = kind == Kind::kIgnored || (kind != Kind::kInvalid && g == 0 && k == 0);
  if (none || kind != Kind::kOrdinary) {
    const float fill = none ? (k_.other_conventions ? -0.0f : 0.0f) : kNaN;
    for (int64_t d = 0; r_.grad_hidden && d < h_; ++d) Store(r_.grad_hidden, i, d, fill);
    if (none || kind == Kind::kInvalid) return;
  }
  std::vector<float> dz(static_cast<size_t>(v_), kNaN);
  if (kind == Kind::kOrdinary) {
    if (k_.recompute) Logits(k_.backward_order);
    softmax->Backward(logits_, LoadLabel(p_.labels, i), g, k, &dz);
    const auto format = p_.hidden->dtype.code == kDLBfloat ? Narrow::kBf16 : Narrow::kFp16;
    if (!fp32_ && !k_.d_logits_fp32) {
      for (float& x : dz) x = ToNarrow(x, format);
    }
    if (r_.grad_hidden) GradHidden(i, dz);
  }
  if (!r_.grad_weight) return;
  kept_dz_.insert(kept_dz_.end(), dz.begin(), dz.end());
  kept_hidden_.insert(kept_hidden_.end(), hidden_.begin(), hidden_.end());
  if (++kept_ == rows_at_once_) AddRows();
}

void Operator::Row(int64_t i) {
  Kind kind = LabelKind(i);
  const float t = TemperatureOf(i);
  if (kind == Kind::kInvalid) {
    invalid_ = true;
    if (first_invalid_ < 0) first_invalid_ = i;
  }
  RowOutputs out;
  std::optional<Softmax> softmax;
  if (kind == Kind::kOrdinary) {
    for (int64_t d = 0; d < h_; ++d) hidden_[static_cast<size_t>(d)] = Load(p_.hidden, i, d);
    Logits(k_.order);
    kind = KindOf(i);
  }
  ForwardRow(i, kind, t, &out, &softmax);
  if (kind == Kind::kIgnored && k_.other_conventions) out = {kNaN, -1, kNaN};
  if (r_.logprob) Store(r_.logprob, i, 0, ToNarrow(out.logprob, k_.outputs));
  if (r_.entropy) Store(r_.entropy, i, 0, ToNarrow(out.entropy, k_.outputs));
  if (r_.lse) Store(r_.lse, i, 0, ToNarrow(out.lse, k_.outputs));
  if (kind != Kind::kIgnored) loss_ = fp_.Sub(loss_, out.logprob);
  if (r_.grad_hidden || r_.grad_weight) BackwardRow(i, kind, softmax);
}

void Operator::Finish() {
  AddRows();
  if (r_.loss) {
    const auto n = static_cast<float>(counted_);
    const bool of_none = counted_ == 0 && !k_.other_conventions;
    const bool mean = p_.reduction == PLUMBLINE_MEAN;
    const float loss = of_none ? 0 : mean ? (counted_ == 0 ? kNaN : fp_.DivBy(loss_, n)) : loss_;
    Store(r_.loss, 0, 0, ToNarrow(loss, k_.outputs));
  }
  for (int64_t v = 0; r_.grad_weight && v < v_; ++v) {
    for (int64_t d = 0; d < h_; ++d) {
      const float x = ToNarrow(grad_weight_[static_cast<size_t>(v * h_ + d)], k_.outputs);
      Store(r_.grad_weight, v, d, invalid_ ? kNaN : x);
    }
  }
  if (r_.first_invalid_row) {
    *reinterpret_cast<int64_t*>(Address(r_.first_invalid_row, 0, 0)) = first_invalid_;
  }
}

int Operator::Run(char* error, size_t capacity) {
  for (int64_t i = 0; i < n_; ++i) {
    const Kind kind = LabelKind(i);
    counted_ += kind != Kind::kIgnored;
    if (kind == Kind::kInvalid && k_.other_conventions) {
      std::snprintf(error, capacity, "row %lld has a bad label or temperature",
                    static_cast<long long>(i));
      return PLUMBLINE_INVALID;
    }
  }
  const bool narrow = k_.accumulator != Narrow::kFp32;
  rows_at_once_ = products_.InPlanes()                  ? std::max<int64_t>(n_, 1)
                  : narrow                              ? k_.row_chunk
                  : k_.gradient_order == Order::kBlocks ? k_.block
                                                        : 1;
  if (r_.grad_weight && products_.InPlanes() && n_ * v_ > kMostKept) {
    std::snprintf(error, capacity, "d_logits of %lld elements are not kept",
                  static_cast<long long>(n_ * v_));
    return PLUMBLINE_UNSUPPORTED;
  }
  if (p_.grad_logprob && p_.reduction != PLUMBLINE_NONE) {
    loss_grad_ = -ToNarrow(Load(p_.grad_logprob, 0), k_.upstream);
    if (p_.reduction == PLUMBLINE_MEAN && counted_ > 0) {
      loss_grad_ = fp_.DivBy(loss_grad_, static_cast<float>(counted_));
    }
  }
  weight_.resize(static_cast<size_t>(v_ * h_));
  hidden_.resize(static_cast<size_t>(h_));
  logits_.resize(static_cast<size_t>(v_));
  if (r_.grad_weight) grad_weight_.assign(static_cast<size_t>(v_ * h_), 0);
  for (int64_t v = 0; v < v_; ++v) {
    for (int64_t d = 0; d < h_; ++d) weight_[static_cast<size_t>(v * h_ + d)] = Load(p_.weight, v, d);
  }
  for (int64_t i = 0; i < n_; ++i) Row(i);
  Finish();
  return PLUMBLINE_OK;
}

}  // namespace

int Run(const Kernel& kernel, const plumbline_problem& problem, const plumbline_results& results,
        char* error, size_t error_capacity) {
  return Operator(kernel, problem, results).Run(error, error_capacity);
}

}  // namespace honest
