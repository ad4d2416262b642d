// SPDX-License-Identifier: Apache-2.0

#include "oracle/budget/inputs.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "oracle/budget/rounded_logits.h"
#include "oracle/defect.h"

namespace plumbline::oracle {
namespace {

using kernel::ConstTensor;
using kernel::DType;
using kernel::Problem;
using kernel::Reduction;

// The value of a pattern of a binary interchange format, by the definition of its sign, exponent and
// fraction fields.
double DecodeBinary(uint32_t bits, int exponent_bits, int fraction_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const uint32_t fraction = bits & ((1u << fraction_bits) - 1);
  const int exponent = static_cast<int>(bits >> fraction_bits) & ((1 << exponent_bits) - 1);
  const double sign = (bits >> (exponent_bits + fraction_bits)) & 1 ? -1.0 : 1.0;
  if (exponent == (1 << exponent_bits) - 1) {
    return fraction != 0 ? std::numeric_limits<double>::quiet_NaN()
                         : sign * std::numeric_limits<double>::infinity();
  }
  const int scale = 1 - bias - fraction_bits;
  if (exponent == 0) return sign * std::ldexp(static_cast<double>(fraction), scale);
  return sign * std::ldexp(static_cast<double>(fraction | (1u << fraction_bits)), scale + exponent - 1);
}

// Element (i, j) of a tensor of elements of T.
template <class T>
T ReadAs(const ConstTensor& t, int64_t i, int64_t j) {
  const int64_t offset = (t.rank > 0 ? i * t.stride[0] : 0) + (t.rank > 1 ? j * t.stride[1] : 0);
  T value;
  std::memcpy(&value, static_cast<const char*>(t.data) + offset * int64_t{sizeof value}, sizeof value);
  return value;
}

}  // namespace

double ReadElement(const ConstTensor& tensor, int64_t i, int64_t j) {
  if (tensor.dtype == DType::kF32) return static_cast<double>(ReadAs<float>(tensor, i, j));
  const uint32_t bits = ReadAs<uint16_t>(tensor, i, j);
  return tensor.dtype == DType::kBf16 ? DecodeBinary(bits, 8, 7) : DecodeBinary(bits, 5, 10);
}

int64_t ReadInt(const ConstTensor& tensor, int64_t i) {
  return tensor.dtype == DType::kI32 ? ReadAs<int32_t>(tensor, i, 0) : ReadAs<int64_t>(tensor, i, 0);
}

std::vector<int64_t> Inputs::NormalRows() const {
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < n; ++i) {
    if (kind[static_cast<size_t>(i)] == RowKind::kNormal) rows.push_back(i);
  }
  return rows;
}

Inputs LoadInputs(const Problem& problem, std::optional<int64_t> counted) {
  return LoadInputs(problem, Contract(), counted);
}

Inputs LoadInputs(const Problem& problem, const Contract& contract, std::optional<int64_t> counted) {
  Inputs in;
  in.n = problem.rows();
  in.v = problem.vocab();
  in.h = problem.hidden_size();
  const auto n = static_cast<size_t>(in.n);
  in.kind.resize(n);
  in.label.resize(n);
  in.temperature.assign(n, 1.0);
  for (size_t i = 0; i < n; ++i) {
    const auto row = static_cast<int64_t>(i);
    in.label[i] = ReadInt(problem.labels, row);
    if (problem.temperature) in.temperature[i] = ReadElement(*problem.temperature, row, 0);
    const bool valid = in.label[i] >= 0 && in.label[i] < in.v && in.temperature[i] > 0 &&
                       std::isfinite(in.temperature[i]);
    in.kind[i] = in.label[i] == problem.ignore_index ? RowKind::kIgnored
                 : valid                             ? RowKind::kNormal
                                                     : RowKind::kInvalid;
    const bool counts = kPlanted == OracleDefect::kIgnoredRowCounted;
    if (counts || in.kind[i] != RowKind::kIgnored) ++in.counted;
    if (in.kind[i] == RowKind::kInvalid && in.first_invalid_row < 0) in.first_invalid_row = row;
  }

  if (counted) in.counted = *counted;

  const auto upstream = [](const ConstTensor& tensor, int64_t row, std::optional<DType> dtype) {
    const double value = ReadElement(tensor, row, 0);
    return dtype ? RoundTo(*dtype, value) : value;
  };
  in.g.assign(n, 0.0);
  in.k.assign(n, 0.0);
  for (size_t i = 0; i < n; ++i) {
    const auto row = static_cast<int64_t>(i);
    if (problem.grad_logprob) {
      const double value =
          upstream(*problem.grad_logprob, row, contract.upstream_logprob.For(problem.hidden.dtype));
      in.g[i] = problem.reduction == Reduction::kNone  ? value
                : problem.reduction == Reduction::kSum ? -value
                                                       : -value / static_cast<double>(in.counted);
    }
    if (problem.grad_entropy)
      in.k[i] =
          upstream(*problem.grad_entropy, row, contract.upstream_entropy.For(problem.hidden.dtype));
  }
  return in;
}

}  // namespace plumbline::oracle
