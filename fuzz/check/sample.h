// SPDX-License-Identifier: Apache-2.0
//
// The judged rows of a dump, gathered into their own problem, whose weight is still the mapping. The
// same dump, count and seed give the same rows in every process.

#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "fuzz/check/dump.h"
#include "fuzz/problem/owned_problem.h"
#include "kernel/problem.h"

namespace plumbline::fuzz {

// Returns row numbers, ascending, at most `count` of them; 0 means all. It always includes, as far as
// `count` allows: the first and last; those whose outputs in the dump hold a NaN, an infinity or a
// wrong sign; the extremes of the outputs of one value a row; a few that are ignored, and a few whose
// label or temperature is invalid. `seed` draws the rest, ignored rows last. Whatever forward outputs
// of ignored rows hold has no effect.
std::vector<int64_t> ChooseRows(const Dump& dump, int64_t count, uint64_t seed);

class DumpSample {
 public:
  // The dump must outlive this. `rows` as ChooseRows returns them.
  DumpSample(const Dump& dump, std::vector<int64_t> rows);
  DumpSample(const DumpSample&) = delete;
  DumpSample& operator=(const DumpSample&) = delete;

  const Dump& dump() const { return dump_; }
  const std::vector<int64_t>& rows() const { return rows_; }
  bool all() const { return all_; }  // true if it has every row of the dump
  const kernel::Problem& problem() const { return problem_; }
  // The dump's outputs of these rows; those of one value a row are widened to fp32, which is exact.
  // They are views of read-only memory, for judging. loss and grad_weight depend on every row and are
  // here only if all() is true.
  const kernel::Results& given() const { return given_; }
  // Returns the outputs that a target is asked for, without memory: data is null.
  kernel::Results Wanted() const;

 private:
  kernel::ConstTensor Gather(const kernel::ConstTensor& from);
  void TakeOutputs();

  const Dump& dump_;
  std::vector<int64_t> rows_;
  bool all_ = false;
  std::deque<HostTensor> storage_;
  kernel::Problem problem_;
  kernel::Results given_;
};

}  // namespace plumbline::fuzz
