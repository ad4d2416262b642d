// SPDX-License-Identifier: Apache-2.0
//
// A shrinker pass that gives up a default, or all values, if that makes the problem much smaller. An
// error of the last bit shows at two entries in fp32 gradients and may need hundreds in bf16; and equal
// values, the simplest ones, may cancel in all small problems.

#ifndef PLUMBLINE_FUZZ_TRIAGE_SHRINK_TRADE_H_
#define PLUMBLINE_FUZZ_TRIAGE_SHRINK_TRADE_H_

#include "fuzz/triage/shrink/session.h"

namespace plumbline::fuzz {

// Does nothing if few values are left.
bool Trade(ShrinkSession& session);

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_TRIAGE_SHRINK_TRADE_H_
