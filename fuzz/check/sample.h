// SPDX-License-Identifier: Apache-2.0
//
// The rows of a dump that are looked at, gathered into a problem of their own whose weight is still the
// mapping. The same dump, count and seed give the same rows in every process.

#ifndef PLUMBLINE_FUZZ_CHECK_SAMPLE_H_
#define PLUMBLINE_FUZZ_CHECK_SAMPLE_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "fuzz/check/dump.h"
#include "fuzz/problem/owned_problem.h"
#include "kernel/problem.h"

namespace plumbline::fuzz {

// Row numbers, ascending, at most `count` of them; 0 means all. Always among them, as far as `count`
// goes: first and last; those whose outputs in the dump hold a NaN, an infinity or a wrong sign; the
// extremes of the outputs of one value a row; some that are ignored and some whose label or temperature
// is invalid. The rest is drawn by `seed`.
std::vector<int64_t> ChooseRows(const Dump& dump, int64_t count, uint64_t seed);

class DumpSample {
 public:
  // The dump must outlive it. `rows` as ChooseRows gives them.
  DumpSample(const Dump& dump, std::vector<int64_t> rows);
  DumpSample(const DumpSample&) = delete;
  DumpSample& operator=(const DumpSample&) = delete;

  const std::vector<int64_t>& rows() const { return rows_; }
  bool all() const { return all_; }  // every row of the dump
  const kernel::Problem& problem() const { return problem_; }
  // The dump's outputs of these rows, those of one value a row widened to fp32, which is exact. Views
  // of read-only memory: for judging. loss and grad_weight depend on every row and are here only if
  // all() is true.
  const kernel::Results& given() const { return given_; }
  // The outputs that a target is asked for, without memory: data is null.
  kernel::Results Wanted() const;

 private:
  kernel::ConstTensor Gather(const kernel::ConstTensor& from);
  void TakeOutputs(const Dump& dump);

  std::vector<int64_t> rows_;
  bool all_ = false;
  fuzz::Wanted wanted_;
  std::deque<HostTensor> storage_;
  kernel::Problem problem_;
  kernel::Results given_;
};

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_CHECK_SAMPLE_H_
