// SPDX-License-Identifier: Apache-2.0
//
// The oracle on a CUDA device: the value, the radius and the contract's bound of every output element,
// forward and backward, at production sizes, and verdicts on results computed there. The formulas are
// those of oracle/sweep/sweep.h (ERROR-BUDGET.md, "The reference and the arbiter"), evaluated by FP64
// matrix products (oracle/cuda/blas.h) and one thread an element.
//
// Logits and their sums of magnitudes are kept in device memory, 16 N V bytes, if they fit. Otherwise
// rows are taken in blocks, and grad_weight is summed over blocks in 16 V H bytes. The work is six
// products of N V H multiply-adds: 8192 x 4096 x 151936 takes 1.27 s on an H200, 1.06 s of them matrix
// products (57.8 TFLOP/s).

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernel/problem.h"
#include "oracle/contract.h"
#include "oracle/output.h"
#include "oracle/verdict/judging_sink.h"

namespace plumbline::oracle::cuda {

// False in a build without a CUDA compiler, where Open returns null and says so.
bool Built();

// A row of an output that the caller wants to see, filled in as in ElementRow. grad_hidden and
// grad_weight have one element a column, the others one.
struct WatchedRow {
  Output output = Output::kLogprob;
  int64_t row = 0;
  std::vector<Element> elements;
};

struct DeviceVerdicts {
  std::vector<Judgement> judged;  // one for each set of results
  // Not empty: nothing was judged. It says what was missing (a contract that this oracle has no
  // arithmetic for, or how much memory), or quotes the device's error.
  std::string error;
  double seconds = 0;  // time of the oracle alone, without judging
  int64_t row_blocks = 0;
};

class DeviceOracle {
 public:
  // Loads cuBLAS and proves its FP64 on the current device. Returns null, with the reason in *error, on
  // failure.
  static std::unique_ptr<DeviceOracle> Open(std::string* error);
  virtual ~DeviceOracle() = default;

  // Judges every set of results. The problem and the results are in device memory, results as
  // JudgeProblem takes them, all with the same outputs in the same dtypes. `memory` is the most bytes
  // to use, 0: nine tenths of what is free. Waits for the device. Entries of *watched (may be null)
  // must name rows of outputs present. Errors are reported in DeviceVerdicts::error.
  virtual DeviceVerdicts Judge(const kernel::Problem& problem, std::span<const kernel::Results> results,
                               const Contract& contract, size_t memory,
                               std::vector<WatchedRow>* watched) = 0;

  // Returns a hash of the elements of a tensor in device memory, without padding. Sets *error on
  // failure.
  virtual uint64_t Hash(const kernel::ConstTensor& tensor, std::string* error) = 0;
};

}  // namespace plumbline::oracle::cuda
