// SPDX-License-Identifier: Apache-2.0

#include "fuzz/check/dump_shapes.h"

#include <optional>
#include <utility>
#include <vector>

#include "fuzz/base/text.h"
#include "fuzz/problem/values.h"
#include "oracle/output.h"

namespace plumbline::fuzz {
namespace {

using kernel::ConstTensor;
using kernel::Reduction;

std::string Shape(const ConstTensor& t) { return ShapeText({t.shape, static_cast<size_t>(t.rank)}); }

}  // namespace

std::string Listed(const std::map<std::string, ConstTensor>& tensors) {
  constexpr int kMost = 12;
  std::string text;
  int listed = 0;
  for (const auto& [name, tensor] : tensors) {
    if (++listed > kMost) return text + Text(" and %zu more", tensors.size() - kMost);
    text += (listed > 1 ? ", " : "") + Printable(Abridged(name)) + " " + Shape(tensor);
  }
  return text.empty() ? "nothing" : text;
}

std::string Missing(std::string_view name, const std::string& found) {
  return "tensor \"" + std::string(name) + "\" is missing; the file holds " + found +
         ". A dump has hidden [N, H], weight [V, H] and labels [N] under these names";
}

void TakeScalars(Dump* dump) {
  kernel::Problem& p = dump->problem;
  const auto scalar = [](std::optional<ConstTensor>* t) {
    if (*t && (*t)->rank == 1 && (*t)->shape[0] == 1) (*t)->rank = 0;
  };
  if (p.rows() != 1) scalar(&p.temperature);
  if (p.reduction != Reduction::kNone) scalar(&p.grad_logprob);
  scalar(&dump->outputs[static_cast<size_t>(oracle::Output::kLoss)]);
}

std::string Flattened(const ConstTensor& tensor, int64_t n) {
  return tensor.rank == 2 && tensor.size() == n
             ? "; flatten batch and sequence: " + ShapeText(std::vector{n})
             : "";
}

std::string CheckShapes(const Dump& dump) {
  const kernel::Problem& p = dump.problem;
  if (p.hidden.rank != 2) return {};
  const int64_t n = p.rows(), h = p.hidden.shape[1];
  const std::pair<const char*, const ConstTensor*> vectors[] = {
      {"labels", &p.labels},
      {"temperature", p.temperature ? &*p.temperature : nullptr},
      {"grad_logprob", p.grad_logprob ? &*p.grad_logprob : nullptr},
      {"grad_entropy", p.grad_entropy ? &*p.grad_entropy : nullptr}};
  for (const auto& [name, tensor] : vectors) {
    if (tensor == nullptr) continue;
    if (const std::string flattened = Flattened(*tensor, n); !flattened.empty()) {
      return std::string(name) + ": shape " + Shape(*tensor) + flattened +
             ", as row i belongs to row i of hidden " + Shape(p.hidden);
    }
  }
  if (p.weight.rank == 2 && p.weight.shape[1] != h && p.weight.shape[0] == h) {
    return "weight: shape " + Shape(p.weight) + ", wanted is [V, " + std::to_string(h) +
           "] for hidden " + Shape(p.hidden) + ". Transposed? Save weight.T.contiguous()";
  }
  return {};
}

}  // namespace plumbline::fuzz
