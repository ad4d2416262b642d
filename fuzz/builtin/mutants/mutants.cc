// SPDX-License-Identifier: Apache-2.0

#include "fuzz/builtin/mutants/mutants.h"

namespace plumbline::fuzz {
namespace {

// A program that is linked with this file has the mutants in its catalogue.
const bool kAdded = [] {
  for (const auto list : {&Mutants, &HopperMutants, &CudaMutants}) AddTargets(list());
  return true;
}();

}  // namespace
}  // namespace plumbline::fuzz
