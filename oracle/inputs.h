// SPDX-License-Identifier: Apache-2.0
//
// A problem's inputs as the reference reads them: dense doubles (exact for every dtype), and what each
// row is. Decoding is the oracle's own, so that a kernel's mistake in it cannot hide here.

#ifndef PLUMBLINE_ORACLE_INPUTS_H_
#define PLUMBLINE_ORACLE_INPUTS_H_

#include <cstdint>
#include <vector>

#include "kernel/problem.h"

namespace plumbline::oracle {

// Element (i, j) of a float tensor in host memory, widened exactly.
double LoadFloat(const kernel::ConstTensor& tensor, int64_t i, int64_t j);
int64_t LoadInt(const kernel::ConstTensor& tensor, int64_t i);

// |x|, raised to `least` where x is not 0.
inline double Magnitude(double x, double least) {
  const double magnitude = x < 0 ? -x : x;
  return magnitude < least && magnitude > 0 ? least : magnitude;
}

// The exponent of the lowest set bit of a finite x != 0: x is an odd multiple of 2^that.
int LowestBit(double x);

enum class RowKind : uint8_t { kNormal, kIgnored, kInvalid };

struct Inputs {
  int64_t n = 0, v = 0, h = 0;
  bool products_exact = false;   // in fp32: the inputs have 16 bits
  std::vector<double> hidden;    // [N, H]
  std::vector<double> weight;    // [V, H]
  std::vector<double> weight_t;  // [H, V]
  std::vector<int> hidden_lsb;   // [N] least LowestBit of the row's finite nonzero elements
  std::vector<int> weight_lsb;   // [V]
  bool weight_finite = true;
  std::vector<RowKind> kind;        // [N]
  std::vector<int64_t> label;       // [N]
  std::vector<double> temperature;  // [N]
  std::vector<double> g, k;         // [N] d objective / d logprob, d entropy, after -gamma and 1/n
  int64_t counted = 0;              // rows not ignored
  int64_t first_invalid_row = -1;

  // Whether backward has nothing to do for row i.
  bool LeftOut(int64_t i) const {
    const auto r = static_cast<size_t>(i);
    return kind[r] == RowKind::kIgnored || (kind[r] == RowKind::kNormal && g[r] == 0 && k[r] == 0);
  }
};

Inputs LoadInputs(const kernel::Problem& problem);

}  // namespace plumbline::oracle

#endif  // PLUMBLINE_ORACLE_INPUTS_H_
