// SPDX-License-Identifier: Apache-2.0
//
// Uses the operator alone. Fails to link if plumbline::kernel does not bring what its archive needs.

#include <cstdio>

#include "kernel/linear_cross_entropy.h"
#include "tiny_problem.h"

int main() {
  TinyProblem tiny;
  if (tiny.IsRight()) return 1;  // the check can tell
  const plumbline::kernel::Status status = plumbline::kernel::Run(tiny.problem(), tiny.results());
  std::printf("logprob %.9g entropy %.9g %s\n", static_cast<double>(tiny.logprob[0]),
              static_cast<double>(tiny.entropy[0]), status.message.c_str());
  return status.ok() && tiny.IsRight() ? 0 : 1;
}
