// SPDX-License-Identifier: Apache-2.0
//
// A target's errors in units of honest ones on the same inputs. A unit is what errs together: a row of
// the forward outputs or of grad_hidden, a column of the vocabulary of grad_weight; the error of a unit
// of several elements is their root mean square.
//
// With e_i the target's error in unit i, e_ki that of baseline k and f_i the floor, what one rounding
// of fp32 costs there, and s_i^2 = max_k e_ki^2 + f_i^2:
//
//   rms     RMS_i e_i / max_k RMS_i (e_ki, f_i)     what few large units say
//   median  median_i e_i / s_i                      what most units say
//   largest max_i e_i / max_k max_i (e_ki, f_i)
//
// A realised error passes through 0, so no unit's own ratio is judged. Above kSuspect the target is
// suspect; above kNoted that is said. One realised error is ten times another in one pair of twelve, so
// fewer than kLeastUnits units are judged by an eighth of their ratios.
//
// Where k units carry the errors (`effective`), an honest scale is below s with a probability that goes
// as s^k, so that an honest ratio is above t with one that goes as t^-k. The threshold for the root
// mean square and the largest is therefore kSuspect at kLeastUnits = 8, 8^(8/k) below that, and 64 at
// most. Divisor() is what divides them instead.

#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "kernel/dtype.h"

namespace plumbline::fuzz {

struct Units {
  std::vector<double> error;                  // [units]; the target's
  std::vector<std::vector<double>> baseline;  // [baselines][units]
  std::vector<double> floor;                  // [units]
};

struct HonestUnits {
  double rms = 0, median = 0, largest = 0;
  double honest = 0,
         found = 0;  // root mean squares: the largest baseline's with its floor, the target's
  int64_t units = 0;
  // How many units of one size err as these do: (sum s_i^2)^2 / sum s_i^4, from 1 to `units`. Where it
  // is 1, one unit's realised errors are compared.
  double effective = 0;
  size_t baseline = 0;         // whose root mean square is the largest
  std::vector<double> ratios;  // [units]: e_i / s_i

  double Judged() const;  // the largest of the ratios, those of few units divided
  double Ratio() const;   // the same, but undivided where few of many units carry the errors
  bool TooFew() const { return units < kLeastUnits; }
  // What rms and largest are divided by before they are judged: from 1 to kFewerUnits.
  double Divisor() const;
  bool Suspect() const { return Judged() > kSuspect; }
  bool Noted() const { return !Suspect() && Judged() > kNoted; }

  static constexpr double kSuspect = 8, kNoted = 4;
  static constexpr int64_t kLeastUnits = 8;
  static constexpr double kFewerUnits = 8;
};

// There is at least one baseline.
HonestUnits Compare(const Units& units);

// |got - exact| beyond what rounding the exact value to the dtype may cost: at least 0, or NaN.
double BeyondRounding(double got, double exact, kernel::DType dtype);

}  // namespace plumbline::fuzz
