// SPDX-License-Identifier: Apache-2.0
#include "fuzz/base/fp_environment.h"

#include <cfenv>
#include <limits>

namespace plumbline::fuzz {

std::string FpEnvironmentFault() {
  // volatile: otherwise the compiler would compute these at build time, in its own environment.
  volatile float least = std::numeric_limits<float>::min();
  volatile float half = 0.5F;
  volatile float subnormal = least * half;
  if (subnormal == 0) return "subnormal fp32 results are flushed to zero";
  volatile float doubled = subnormal * 2;
  if (doubled != least) return "subnormal fp32 operands are read as zero";
  volatile double least64 = std::numeric_limits<double>::min();
  volatile double subnormal64 = least64 * 0.5;
  if (subnormal64 == 0) return "subnormal fp64 results are flushed to zero";

  // 1 + 2^-24 is a tie and 1 + 3*2^-25 is above it: nearest-even gives 1 and 1 + 2^-23. Upward fails
  // the first, downward and toward zero fail the second.
  volatile float one = 1;
  volatile float tie = 0x1p-24F;
  volatile float above = 0x1.8p-24F;
  volatile float a = one + tie;
  volatile float b = one + above;
  volatile float c = -one - tie;
  if (a != 1 || b != 1 + 0x1p-23F || c != -1) return "fp32 arithmetic does not round to nearest even";
  volatile double one64 = 1;
  volatile double tie64 = 0x1p-53;
  volatile double above64 = 0x1.8p-53;
  volatile double d = one64 + tie64;
  volatile double e = one64 + above64;
  if (d != 1 || e != 1 + 0x1p-52) return "fp64 arithmetic does not round to nearest even";
  return {};
}

void RestoreFpEnvironment() { std::fesetenv(FE_DFL_ENV); }

}  // namespace plumbline::fuzz
