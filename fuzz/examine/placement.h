// SPDX-License-Identifier: Apache-2.0
//
// Memory as a target sees it. The tensors of an OwnedProblem are laid out by its Layout. Every buffer
// lies between guard bands, padding inside strided tensors is filled as the bands are, and outputs are
// poisoned.
//
// It finds writes outside a buffer or into its padding, inputs that changed, and output elements that
// were never written. Guard and padding bytes around inputs are NaN patterns, so that a read out of
// bounds that reaches a result shows as a NaN.
//
// Strides may span gigabytes: memory is then reserved, and only pages that are touched exist. In a gap
// of more than two pages the first and the last page are filled and checked. The pages between read as
// 0, and a write there is not seen.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/problem/owned_problem.h"
#include "kernel/problem.h"

namespace plumbline::fuzz {

class Placement {
 public:
  // Throws std::runtime_error, with the size, if the system does not reserve that much.
  explicit Placement(const OwnedProblem& problem);
  ~Placement();
  Placement(const Placement&) = delete;
  Placement& operator=(const Placement&) = delete;

  const kernel::Problem& problem() const;
  const kernel::Results& results() const;

  // The memory that problem() and results() point into, for running a target on a copy of it: `bytes`
  // from `begin`. The stretches [from, to), ascending and none empty, hold data and are checked; memory
  // between them reads as 0 and was never touched.
  struct Image {
    std::byte* begin = nullptr;
    size_t bytes = 0;
    std::vector<std::pair<size_t, size_t>> stretches;
  };
  Image GetImage();

  // Fills every output with one of two patterns, both NaN as floats and different in every byte.
  void Poison(int pattern);  // 0 or 1

  // The damage that the last run did, one line each, naming the tensor, the byte offset and the bytes
  // before and after; empty if there is none. Checks guard bands, padding and the inputs.
  struct Damage {
    enum class Kind { kGuardBand, kInputWritten } kind;
    std::string what;
  };
  std::vector<Damage> Inspect() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The bits of an output element of `width` bytes that was not written after Poison(pattern).
uint64_t PoisonBits(int pattern, size_t width);

}  // namespace plumbline::fuzz
