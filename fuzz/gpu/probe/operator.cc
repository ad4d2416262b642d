// SPDX-License-Identifier: Apache-2.0

#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "fuzz/base/mix.h"
#include "fuzz/base/text.h"
#include "fuzz/gpu/probe/operands.h"
#include "fuzz/gpu/probe/probe.h"
#include "fuzz/target/catalogue.h"
#include "fuzz/target/target.h"

namespace plumbline::fuzz {
namespace {

using kernel::DType, kernel::Problem;

constexpr int64_t kDepths[] = {1, 8, 15, 16, 17, 64, 100, 200};

// Rows of one kind and depth, with the column that the first of them was drawn with.
struct Drawn {
  std::vector<std::byte> hidden, weight;
  std::vector<int64_t> labels;
  std::vector<double> magnitude;  // each row's sum of |h w|
  std::vector<bool> in_planes;    // by row: every operand is a sum of bf16 planes, the first not 0

  Drawn(DType dtype, DataKind kind, int64_t rows, int64_t depth, uint64_t seed)
      : hidden(static_cast<size_t>(rows * depth) * kernel::SizeOf(dtype)),
        weight(static_cast<size_t>(depth) * kernel::SizeOf(dtype)),
        labels(static_cast<size_t>(rows), 0) {
    OperandRandom random(seed);
    const auto width = static_cast<size_t>(depth);
    std::vector<float> a(width), b(width), column(width);
    for (int64_t i = 0; i < rows; ++i) {
      DrawOperands(dtype, kind, depth, &random, a.data(), b.data());
      if (i == 0) column = b;
      double sum = 0;
      bool planes = true;
      for (size_t k = 0; k < width; ++k) {
        sum += std::fabs(static_cast<double>(a[k]) * static_cast<double>(column[k]));
        planes = planes && HasPlane(a[k]) && HasPlane(column[k]);
        Put(dtype, a[k], static_cast<size_t>(i) * width + k, &hidden);
      }
      magnitude.push_back(sum);
      in_planes.push_back(planes);
    }
    for (size_t k = 0; k < width; ++k) Put(dtype, column[k], k, &weight);
  }

  // An fp32 operand below half of bf16's least number has no first plane, and the model does not define
  // its product with an infinity or another number (kernel/cuda/product/fragment.cuh).
  static bool HasPlane(float x) { return !(x != 0 && std::fabs(x) <= 0x1p-134f); }
  static void Put(DType dtype, float x, size_t at, std::vector<std::byte>* to) {
    if (dtype == DType::kF32) return Store(x, at, to);
    if (dtype == DType::kBf16) return Store(kernel::ToBFloat16(x).bits, at, to);
    Store(kernel::ToFloat16(x).bits, at, to);
  }
  template <class T>
  static void Store(T x, size_t at, std::vector<std::byte>* to) {
    std::memcpy(to->data() + at * sizeof x, &x, sizeof x);
  }

  Problem View(DType dtype, int64_t rows, int64_t depth) const {
    Problem problem;
    problem.hidden = {hidden.data(), dtype, 2, {rows, depth}, {depth, 1}};
    problem.weight = {weight.data(), dtype, 2, {1, depth}, {depth, 1}};
    problem.labels = {labels.data(), DType::kI64, 1, {rows, 1}, {1, 1}};
    return problem;
  }
};

bool Same(float x, float y) {
  return std::bit_cast<uint32_t>(x) == std::bit_cast<uint32_t>(y) || (std::isnan(x) && std::isnan(y));
}

}  // namespace

// With one column and T = 1, lse = z + ln 1 is the logit itself, in the arithmetic of host-hopper and
// in that of the device.
ProbeLine ProbeLogits(std::string_view what, DType dtype, int64_t rows, uint64_t seed,
                      const RowsLse& run) {
  ProbeLine line;
  line.what = what;
  line.claim = "host-hopper's bits";
  const auto skip = [&](std::string why) {
    line.measured = std::move(why);
    line.kept = Kept::kSkipped;
    return line;
  };
  std::string error;
  const std::unique_ptr<Target> host = LoadTarget("host-hopper", &error);
  if (host == nullptr) return skip(error);

  std::string example;
  std::vector<float> want(static_cast<size_t>(rows)), got(static_cast<size_t>(rows));
  for (const int64_t depth : kDepths) {
    for (int kind = 0; kind < kDataKinds; ++kind) {
      const auto which = static_cast<DataKind>(kind);
      const Drawn drawn(dtype, which, rows, depth, Mix(seed, static_cast<uint64_t>(depth * 64 + kind)));
      const Problem problem = drawn.View(dtype, rows, depth);
      kernel::Results results;
      results.lse = kernel::Tensor{want.data(), DType::kF32, 1, {rows, 1}, {1, 1}};
      const RunOutcome outcome = host->Run(problem, results);
      if (outcome.status != RunStatus::kOk) return skip("host-hopper: " + outcome.message);
      const kernel::Status status = run(problem, got.data());
      if (status.code == kernel::Code::kUnsupported) return skip(status.message);
      if (!status.ok()) throw CudaFault(line.what + ": " + status.message);
      for (size_t i = 0; i < got.size(); ++i) {
        // Nothing is compared beyond what the operation specifies (kernel/OPERATION.md).
        if (drawn.magnitude[i] > 0x1p126 && std::isfinite(drawn.magnitude[i])) continue;
        if (dtype == DType::kF32 && !drawn.in_planes[i]) continue;
        ++line.samples;
        if (Same(got[i], want[i]) || line.wrong++ > 0) continue;
        example =
            Text("; the first, H = %lld, %s: got %a, host-hopper %a", static_cast<long long>(depth),
                 NameOf(which), static_cast<double>(got[i]), static_cast<double>(want[i]));
      }
    }
  }
  line.measured = Text("%lld of %lld logits differ", static_cast<long long>(line.wrong),
                       static_cast<long long>(line.samples)) +
                  example;
  line.kept = line.wrong == 0 && line.samples > 0 ? Kept::kYes : Kept::kNo;
  return line;
}

}  // namespace plumbline::fuzz
