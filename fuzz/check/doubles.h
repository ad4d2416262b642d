// SPDX-License-Identifier: Apache-2.0
//
// Tensors of a dump in fp64. What a kernel computes in fp32 and a job widened (logprob, entropy, lse,
// loss, temperature, upstream gradients, another engine's logprobs) is rounded to fp32, to nearest: by
// half a unit in the last place, which every bound of an fp32 output allows.

#pragma once

#include <map>
#include <string>

#include "fuzz/check/dump.h"
#include "fuzz/check/report.h"
#include "fuzz/problem/safetensors.h"

namespace plumbline::fuzz {

// Rounds what may be rounded: its copies join dump->storage and, by name, content->tensors; their names
// join dump->rounded. Tensors without a meaning join dump->unknown. Returns a refusal that names the
// tensor for the others, and for an input that fp32 does not hold; empty if there is none.
std::string RoundDoubles(SafeTensorsView* content, Dump* dump);

// Says which tensors were rounded, if any.
void ReportRounded(const Dump& dump, DumpReport* report);

}  // namespace plumbline::fuzz
