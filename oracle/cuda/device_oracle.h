// SPDX-License-Identifier: Apache-2.0
//
// The oracle on a CUDA device: the value, the radius and the contract's bound of every output element,
// forward and backward, at the sizes of production, and verdicts on what targets computed there. The
// same formulas as oracle/sweep/sweep.h, by FP64 matrix products (oracle/cuda/blas.h) and one thread an
// element.
//
// Logits and their sums of magnitudes are kept in device memory, 16 N V bytes, if they fit; else rows
// are taken in blocks, and grad_weight is summed over blocks in 16 V H bytes. Six products of N V H
// multiply-adds: 8192 x 4096 x 151936 takes 1.27 s on an H200, 1.06 s of them matrix products (57.8
// TFLOP/s).

#ifndef PLUMBLINE_ORACLE_CUDA_DEVICE_ORACLE_H_
#define PLUMBLINE_ORACLE_CUDA_DEVICE_ORACLE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernel/problem.h"
#include "oracle/contract.h"
#include "oracle/judge/judge.h"
#include "oracle/output.h"

namespace plumbline::oracle::cuda {

// False in a build without a CUDA compiler: Open then says so.
bool Built();

// A row of an output that the caller wants to see, filled in as in ElementRow: grad_hidden and
// grad_weight have one element a column, the others one.
struct WatchedRow {
  Output output = Output::kLogprob;
  int64_t row = 0;
  std::vector<Element> elements;
};

struct DeviceVerdicts {
  std::vector<Judgement> judged;  // one for each set of results
  // Not empty: nothing was judged. What was missing (a contract that this oracle has no arithmetic for,
  // memory, by its size), or the device's own words.
  std::string error;
  bool device_failed = false;  // the error is the device's, and sticky: this process is of no more use
  double seconds = 0;          // of the oracle, judging left out
  int64_t row_blocks = 0;
};

class DeviceOracle {
 public:
  // Loads cuBLAS and proves its FP64 on the current device. Null, with the reason in *error.
  static std::unique_ptr<DeviceOracle> Open(std::string* error);
  virtual ~DeviceOracle() = default;

  // The problem and every set of results are device memory, results as JudgeProblem takes them, all of
  // them with the same outputs in the same dtypes; `memory`: bytes to use at most, 0: nine tenths of
  // what is free. Waits for the device. Entries of *watched (may be null) must name rows of outputs
  // present.
  virtual DeviceVerdicts Judge(const kernel::Problem& problem, std::span<const kernel::Results> results,
                               const Contract& contract, size_t memory,
                               std::vector<WatchedRow>* watched) = 0;

  // A hash of the elements of a tensor in device memory, padding left out.
  virtual uint64_t Hash(const kernel::ConstTensor& tensor, std::string* error) = 0;
};

}  // namespace plumbline::oracle::cuda

#endif  // PLUMBLINE_ORACLE_CUDA_DEVICE_ORACLE_H_
