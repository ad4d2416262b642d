// SPDX-License-Identifier: Apache-2.0

#include "tests/oracle/log_softmax_backward.h"

#include <algorithm>

namespace plumbline::oracle {
namespace {

Real InATree(const std::vector<Real>& terms, size_t first, size_t last, Machine* fl) {
  if (last - first == 1) return terms[first];
  const size_t middle = first + (last - first + 1) / 2;
  const Real a = InATree(terms, first, middle, fl);
  return fl->Add(a, InATree(terms, middle, last, fl), kSum);
}

Real InTiles(const Contract& c, const std::vector<Real>& terms, Machine* fl) {
  const auto tile = static_cast<size_t>(c.tile), splits = static_cast<size_t>(c.splits);
  const size_t tiles = (terms.size() + tile - 1) / tile, each = (tiles + splits - 1) / splits;
  Real all = 0;
  for (size_t begin = 0; begin < tiles; begin += each) {
    Real part = 0;
    for (size_t t = begin; t < std::min(tiles, begin + each); ++t) {
      const Real sum = InATree(terms, t * tile, std::min(terms.size(), (t + 1) * tile), fl);
      part = t == begin ? sum : fl->Add(part, sum, kSum);
    }
    all = begin == 0 ? part : fl->Add(all, part, kSum);
  }
  return all;
}

}  // namespace

std::vector<Real> BackwardOfLogSoftmax(const Contract& contract, kernel::DType hidden,
                                       const std::vector<Real>& logs, size_t label, Real g, Real k,
                                       Machine* machine) {
  // An operation of which the result is stored in the dtype of the probabilities.
  const auto store = [&](Real x) { return machine->Store(x, contract.probabilities.For(hidden)); };
  std::vector<Real> gradients;
  for (size_t v = 0; v < logs.size(); ++v) {
    const Real p = store(machine->Exp(logs[v]));
    Real gradient = 0;
    if (k != 0 && p != 0) {
      const Real of_p = store(machine->Round(-k * logs[v], kProduct));
      const Real through_p = store(machine->Round(of_p * p, kProduct));
      gradient = store(machine->Add(store(machine->Round(-k * p, kProduct)), through_p, kProduct));
    }
    if (v == label && g != 0) gradient = store(machine->Add(gradient, g, kProduct));
    gradients.push_back(gradient);
  }
  const Real sum = InTiles(contract, gradients, machine);
  for (size_t v = 0; v < logs.size(); ++v) {
    const Real subtracted = machine->Round(machine->Exp(logs[v]) * sum, kProduct);
    // fp32 subtracts without an error where the result is subnormal and not flushed.
    const Real difference = gradients[v] - subtracted;
    const bool exact = contract.flush == Flush::kNone && std::fabs(difference) < kLeastNormal;
    gradients[v] = exact ? difference : machine->Round(difference, kProduct);
  }
  return gradients;
}

}  // namespace plumbline::oracle
