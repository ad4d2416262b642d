// SPDX-License-Identifier: Apache-2.0
//
// Measures if this device keeps what the CUDA targets declare, for `plumb doctor --probe`, line by
// line: the exponential, the logarithm and the division over every relevant argument
// (fuzz/gpu/probe/device.h), the tensor cores bit for bit against kernel/host/tensor_core.h, and the
// operator's own logits, which a vocabulary of one column exposes as lse, against those of
// `host-hopper`. u = 2^-24.

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/base/json.h"
#include "fuzz/gpu/probe/device.h"
#include "kernel/linear_cross_entropy.h"
#include "kernel/problem.h"
#include "kernel/status.h"

namespace plumbline::fuzz {

// The errors that the CUDA targets declare for the functions, in u.
inline constexpr double kClaimedExponential = 2.5;
inline constexpr double kClaimedLogarithm = 2;

enum class Kept : uint8_t { kYes, kNo, kNotClaimed, kSkipped };
std::string_view Name(Kept kept);  // "kept", "not kept", "not claimed", "skipped"

struct ProbeLine {
  std::string what, claim, measured;
  Kept kept = Kept::kNo;
  int64_t samples = 0;
  int64_t wrong = 0;
  double worst = 0;  // relative error in u, if the line has one
};
Json ToJson(const ProbeLine& line);

// Judges a swept function by a claim on its relative error (0: none is made) and on the order of its
// values (`ordered`). It is always claimed that nothing is wrong.
ProbeLine JudgeSweep(std::string_view what, const FunctionSweep& sweep, double claim, bool ordered);

// Computes as MmaTiles does.
using TileProducts = std::function<void(bool fp16, int64_t tiles, int depth, const uint16_t* a,
                                        const uint16_t* b, float* out)>;
// Judges dot products of every kind of fuzz/gpu/probe/operands.h and of several depths. At least
// `pairs` are drawn, each in a tile of 16 x 16; every element of every tile is compared with the model.
ProbeLine ProbeTensorCore(std::string_view what, bool fp16, int64_t pairs, uint64_t seed,
                          const TileProducts& products);

// Runs the operator on the device: dense host views in, the rows' lse out.
using RowsLse = std::function<kernel::Status(const kernel::Problem& problem, float* lse)>;
// Judges rows against a vocabulary of one column, `rows` for each of 8 depths and each kind of
// operands. Rows beyond the specified range, and rows of fp32 with an operand below 2^-134, are not
// compared.
ProbeLine ProbeLogits(std::string_view what, kernel::DType dtype, int64_t rows, uint64_t seed,
                      const RowsLse& run);

// Runs the whole probe on the current device, which DescribeDevice has found. `progress` is called with
// each line as it is done.
std::vector<ProbeLine> ProbeDevice(const ProbedDevice& device,
                                   const std::function<void(const ProbeLine&)>& progress);

}  // namespace plumbline::fuzz
