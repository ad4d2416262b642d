// SPDX-License-Identifier: Apache-2.0
//
// Does this device keep what the CUDA targets declare? `plumb doctor --probe` measures, line by line:
// the exponential, the logarithm and the division over every argument that matters (fuzz/
// probe_device.h), the tensor cores bit for bit against kernel/host/tensor_core.h, and the operator's
// own logits, which a vocabulary of one column exposes as lse, against those of `host-hopper`. u =
// 2^-24.

#ifndef PLUMBLINE_FUZZ_GPU_PROBE_PROBE_H_
#define PLUMBLINE_FUZZ_GPU_PROBE_PROBE_H_

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
  double worst = 0;  // relative error in u, where the line has one
};
Json ToJson(const ProbeLine& line);

// A swept function against a claim on its relative error (0: none is made) and on the order of its
// values (`ordered`); that nothing is wrong is always claimed.
ProbeLine JudgeSweep(std::string_view what, const FunctionSweep& sweep, double claim, bool ordered);

// As MmaTiles.
using TileProducts = std::function<void(bool fp16, int64_t tiles, int depth, const uint16_t* a,
                                        const uint16_t* b, float* out)>;
// Dot products of every kind of fuzz/gpu/probe/operands.h and of several depths, `pairs` drawn at
// least, each pair in a tile of 16 x 16; every element of every tile is held to the model.
ProbeLine ProbeTensorCore(std::string_view what, bool fp16, int64_t pairs, uint64_t seed,
                          const TileProducts& products);

// The operator on the device: dense host views in, the rows' lse out.
using RowsLse = std::function<kernel::Status(const kernel::Problem& problem, float* lse)>;
// Rows against a vocabulary of one column, `rows` of each of 8 depths and of each kind of operands. Not
// compared are rows beyond the range that is specified, and rows of fp32 with an operand below 2^-134.
ProbeLine ProbeLogits(std::string_view what, kernel::DType dtype, int64_t rows, uint64_t seed,
                      const RowsLse& run);

// All of it on the current device, which DescribeDevice has found. `progress` hears each line as it is
// done.
std::vector<ProbeLine> ProbeDevice(const ProbedDevice& device,
                                   const std::function<void(const ProbeLine&)>& progress);

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_GPU_PROBE_PROBE_H_
