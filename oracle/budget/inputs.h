// SPDX-License-Identifier: Apache-2.0
//
// The rows of a problem as the reference reads them: the kind of each row and the scalars that belong
// to it. The oracle decodes inputs with its own code, so that a kernel's mistake in decoding cannot
// hide here.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kernel/problem.h"
#include "oracle/contract.h"

namespace plumbline::oracle {

// Reads element (i, j) of a float tensor in host memory, widened exactly.
double ReadElement(const kernel::ConstTensor& tensor, int64_t i, int64_t j);
// Reads element i of an integer tensor of rank 0 or 1, in host memory.
int64_t ReadInt(const kernel::ConstTensor& tensor, int64_t i);

enum class RowKind : uint8_t { kNormal, kIgnored, kInvalid };

struct Inputs {
  int64_t n = 0, v = 0, h = 0;
  std::vector<RowKind> kind;        // [N]
  std::vector<int64_t> label;       // [N]
  std::vector<double> temperature;  // [N]
  std::vector<double> g, k;         // [N] d objective / d logprob, d entropy, after -gamma and 1/n
  int64_t counted = 0;              // rows not ignored: the divisor of `mean`
  int64_t first_invalid_row = -1;

  // The rows with results of their own (neither ignored nor invalid), ascending.
  std::vector<int64_t> NormalRows() const;
  // Returns whether backward has nothing to do for row i: it is ignored, or valid with g = k = 0.
  bool LeftOut(int64_t i) const {
    const auto r = static_cast<size_t>(i);
    return kind[r] == RowKind::kIgnored || (kind[r] == RowKind::kNormal && g[r] == 0 && k[r] == 0);
  }
};

// Reads the rows. `counted` is the divisor of `mean` where the problem is a part of a larger one.
Inputs LoadInputs(const kernel::Problem& problem, std::optional<int64_t> counted = {});
// The same with upstream gradients as the contract rounds them.
Inputs LoadInputs(const kernel::Problem& problem, const Contract& contract,
                  std::optional<int64_t> counted = {});

}  // namespace plumbline::oracle
