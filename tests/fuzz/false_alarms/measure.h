// SPDX-License-Identifier: Apache-2.0
//
// The verdicts of the second tier on honest kernels: the statistics of fuzz/baseline alone, on the rows
// and columns that are drawn, without the first tier and without a search for shortcuts.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fuzz/baseline/comparison.h"
#include "tests/fuzz/false_alarms/draw.h"
#include "tests/fuzz/false_alarms/members.h"

namespace plumbline::false_alarms {

// One kernel on one problem: all outputs and rows together.
struct MemberErrors {
  size_t member = 0;  // its place in Members::all()
  std::vector<fuzz::OutputErrors> outputs;
};

// Which of a problem's outputs a target of `Member::target` is asked for where the problem is large: it
// computes gradients as a whole.
struct MeasureOptions {
  bool target_gradients = true;
  std::vector<std::string> only;  // members by a part of their names; empty: all
};

// Exact values are computed in fp64. Members that do not take the problem's dtype are left out.
// runtime_error if a target fails.
std::vector<MemberErrors> Measure(const Members& members, const Drawn& drawn,
                                  const MeasureOptions& options);

// What exact arithmetic makes of the problem at its places, in fp64.
fuzz::ExactValues ExactValuesOf(const kernel::Problem& problem, const oracle::Inputs& inputs,
                                const fuzz::Places& places);

}  // namespace plumbline::false_alarms
