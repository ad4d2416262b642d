// SPDX-License-Identifier: Apache-2.0
//
// Compares recipes expanded on a device with recipes expanded on the host, and the oracle on the device
// with the sweep. Every test skips itself where there is no device.

#include "fuzz/gpu/production/device_case.h"
#include "fuzz/recipe/expand/expand.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fuzz/builtin/cuda.h"
#include "fuzz/builtin/host.h"
#include "fuzz/recipe/expand/device_values.h"
#include "fuzz/recipe/regimes.h"
#include "fuzz/target/description.h"
#include "kernel/linear_cross_entropy.h"
#include "oracle/cuda/device_oracle.h"
#include "oracle/judge/judge.h"
#include "oracle/verdict/verdict.h"
#include "tests/fuzz/support/device_memory.h"

namespace plumbline::fuzz {
namespace {

using kernel::DType;
using oracle::Output, oracle::Element, oracle::Expect;
using oracle::cuda::DeviceOracle, oracle::cuda::WatchedRow;

DeviceOracle* Oracle(std::string* why) {
  static std::string error;
  static const std::unique_ptr<DeviceOracle> opened = DeviceOracle::Open(&error);
  *why = error;
  return opened.get();
}
// A device with which the oracle cannot work is a failure, not a reason to skip.
#define NEED_DEVICE(oracle)                                                    \
  int devices = 0;                                                             \
  if (const cudaError_t status = cudaGetDeviceCount(&devices); devices == 0) { \
    GTEST_SKIP() << "no CUDA device: " << cudaGetErrorString(status);          \
  }                                                                            \
  std::string why;                                                             \
  DeviceOracle* const oracle = Oracle(&why);                                   \
  ASSERT_NE(oracle, nullptr) << why

constexpr Values kKinds[] = {Values::kGaussian, Values::kSmallLse,  Values::kAllNegative,
                             Values::kOffset,   Values::kConfident, Values::kLattice,
                             Values::kTies,     Values::kMassive};

// Fails if a kind of values, a label, an ignored row's poison, a temperature, a gradient or a layout
// has another bit on the device than Expand gives it.
TEST(GpuDeviceCase, SameBitsAsExpand) {
  NEED_DEVICE(oracle);
  static_cast<void>(oracle);
  int checked = 0;
  for (const Values values : kKinds) {
    for (const DType dtype : {DType::kBf16, DType::kF16, DType::kF32}) {
      for (uint64_t seed = 1; seed <= 6; ++seed) {
        Recipe r;
        r.seed = seed;
        r.dtype = dtype;
        r.n = 9;
        r.v = seed % 2 == 0 ? 1031 : 640;
        r.h = seed % 3 == 0 ? 37 : 64;
        r.values = values;
        r.exp = static_cast<int>(seed % 4) + (values == Values::kConfident ? 8 : 0);
        r.labels = values == Values::kConfident ? Labels::kArgmax : Labels::kIgnoredNaN;
        r.grads = Grads::kWide;
        r.entropy_grads = Grads::kFirstZero;
        r.temperature_per_row = seed > 3;
        r.hidden_major = seed % 2 == 1;
        r.pad = static_cast<int64_t>(seed % 3) * 5;
        r.offset = static_cast<int64_t>(seed % 2) * 3;
        r.grad_stride = static_cast<int64_t>(seed % 3);
        ASSERT_EQ(WhyNotOnDevice(r), "") << Format(r);
        const OwnedProblem expected = Expand(r);
        const DeviceCase made(r);
        const HostTensor hidden = made.ReadRows(made.problem().hidden, 0, r.n);
        const HostTensor weight = made.ReadRows(made.problem().weight, 0, r.v);
        ASSERT_EQ(hidden, expected.hidden) << Format(r);
        ASSERT_EQ(weight, expected.weight) << Format(r);
        ASSERT_EQ(made.rows().labels, expected.labels) << Format(r);
        ASSERT_EQ(made.rows().temperature, expected.temperature) << Format(r);
        ASSERT_EQ(made.rows().grad_logprob, expected.grad_logprob) << Format(r);
        ASSERT_EQ(made.rows().grad_entropy, expected.grad_entropy) << Format(r);
        ASSERT_EQ(made.rows().wanted, expected.wanted) << Format(r);
        // The values as the device holds them.
        const auto labels = ReadVector(made.problem().labels, r.n);
        for (int64_t i = 0; i < r.n; ++i) {
          ASSERT_EQ(oracle::ReadInt(labels.view, i), expected.labels.GetInt(i)) << Format(r);
        }
        ++checked;
      }
    }
  }
  EXPECT_EQ(checked, 8 * 3 * 6);
}

oracle::Contract ContractOf(const std::string& description) {
  std::string error;
  return ParseDescription(description, &error)->contract;
}

// A black box with these keys.
oracle::Contract BlackBox(const std::string& keys) {
  return ContractOf(R"({"name": "rounded", "contract": {)" + keys + "}}");
}

// The problem of a recipe without the strides that have no form on a device.
OwnedProblem ExpandForDevice(const Recipe& recipe) {
  OwnedProblem problem = Expand(recipe);
  problem.layout.reversed = problem.layout.hidden_broadcast = false;
  problem.layout.gradient_step = problem.layout.single_stride = 1;
  return problem;
}

// Values must agree within the sum of the radii, bounds within 2^-20 of each other: that is what either
// side states it may lose by evaluating in fp64.
std::string Compare(const Recipe& r, const std::string& contract, Output output, int64_t row,
                    int64_t column, const Element& host, const Element& device) {
  const bool numbers = host.expect == Expect::kFinite || host.expect == Expect::kVacuous;
  const double difference = std::fabs(host.value - device.value);
  const bool value = !numbers || difference <= host.radius + device.radius;
  const bool bound =
      host.bound == device.bound || std::fabs(host.bound - device.bound) <= 0x1p-20 * host.bound;
  if (host.expect == device.expect && value && bound) return {};
  return Format(r) + " [" + contract + "] " + std::string(Name(output)) + "[" + std::to_string(row) +
         ", " + std::to_string(column) + "]: host " + std::to_string(static_cast<int>(host.expect)) +
         " " + std::to_string(host.value) + " +- " + std::to_string(host.bound) + ", device " +
         std::to_string(static_cast<int>(device.expect)) + " differs by " + std::to_string(difference) +
         " with radii " + std::to_string(host.radius) + ", bound " + std::to_string(device.bound);
}

// Fails if the device and the sweep differ, with rows in one block or in several, in any formula of a
// row, of its budget, of a d_logit, of a gradient's elements, in which rows take part, or in the side
// to which a logit near a tie is rounded.
TEST(GpuDeviceOracle, EveryElementAgreesWithTheSweep) {
  NEED_DEVICE(oracle);
  const std::vector<std::pair<std::string, oracle::Contract>> contracts = {
      {"cuda", ContractOf(CudaDescription("cuda", kernel::CudaPath::kBest, 90))},
      {"host", ContractOf(HostDescription("host"))},
      {"black box", oracle::Contract{}},
      {"rounded", BlackBox(R"("logits": "bf16")")},
      {"scaled and rounded", BlackBox(R"("scaled_logits": "input")")},
      {"rounded twice", BlackBox(R"("logits": "fp16", "scaled_logits": "bf16")")}};
  // What the device keeps of logits near a tie, besides the rows.
  constexpr size_t kTies = size_t{1} << 21;
  int64_t compared = 0, cases = 0;
  std::map<std::string, int64_t> several_blocks;
  std::vector<std::string> wrong;
  for (uint64_t index = 0; index < 600; ++index) {
    const Recipe r = DrawRecipe(20, index);
    if (r.wide != Wide::kNone || r.v > 20'000 || r.n * r.v * r.h > 4'000'000) continue;
    const OwnedProblem problem = ExpandForDevice(r);
    const DeviceCase made(problem);
    DeviceOutputs outputs(made);
    const auto& [name, contract] = contracts[index % contracts.size()];
    const oracle::Expectation expected =
        oracle::Expected(DenseView(problem), outputs.results(), contract);
    std::vector<WatchedRow> watched;
    for (const Output output : oracle::kOutputs) {
      for (int64_t i = 0; i < expected[output].rows && expected[output].columns > 0; ++i) {
        watched.push_back({output, i, {}});
      }
    }
    bool in_blocks = false;
    for (const size_t of_rows : {size_t{0}, size_t{1} << 21, size_t{1} << 20, size_t{3} << 18,
                                 size_t{1} << 19, size_t{3} << 17, size_t{1} << 18, size_t{1} << 17}) {
      const bool rounds = contract.logits.Narrow() || contract.scaled_logits.Narrow();
      const size_t memory = of_rows + (of_rows > 0 && rounds ? kTies : 0);
      const auto verdicts =
          oracle->Judge(made.problem(), {&outputs.results(), 1}, contract, memory, &watched);
      if (memory > 0 && verdicts.error.find("needs") != std::string::npos) break;
      if (memory > 0 && verdicts.row_blocks < 2) continue;
      if (std::exchange(in_blocks, memory > 0)) break;
      ASSERT_EQ(verdicts.error, "") << Format(r);
      several_blocks[name] += verdicts.row_blocks > 1 ? 1 : 0;
      ASSERT_EQ(verdicts.judged.size(), 1u);
      EXPECT_EQ(verdicts.judged[0].fault, "") << Format(r);
      EXPECT_EQ(verdicts.judged[0].first_invalid_row, expected.first_invalid_row) << Format(r);
      for (const WatchedRow& w : watched) {
        ASSERT_EQ(static_cast<int64_t>(w.elements.size()), expected[w.output].columns)
            << Format(r) << " " << Name(w.output) << " " << w.row << " blocks " << verdicts.row_blocks;
        for (size_t j = 0; j < w.elements.size(); ++j) {
          const auto column = static_cast<int64_t>(j);
          std::string text = Compare(r, name, w.output, w.row, column,
                                     expected[w.output].at(w.row, column), w.elements[j]);
          if (!text.empty()) wrong.push_back(std::move(text));
          ++compared;
        }
      }
    }
    ++cases;
  }
  EXPECT_TRUE(wrong.empty()) << wrong.size() << " of " << compared << " elements";
  std::set<std::string> regimes;
  for (const std::string& text : wrong) {
    if (regimes.insert(text.substr(0, text.find(" seed="))).second) ADD_FAILURE() << text;
  }
  EXPECT_GT(cases, 500);
  for (const auto& [name, contract] : contracts) EXPECT_GT(several_blocks[name], 10) << name;
}

// Fails if the device counts or names other elements than the host does, in outputs of the host's own
// operator, unchanged and with damaged elements.
TEST(GpuDeviceOracle, VerdictsAgreeWithTheHosts) {
  NEED_DEVICE(oracle);
  const oracle::Contract contract = ContractOf(HostDescription("host"));
  int failing = 0, judged = 0;
  for (uint64_t index = 0; index < 300; ++index) {
    const Recipe r = DrawRecipe(21, index);
    if (r.wide != Wide::kNone || r.v > 20'000 || r.n * r.v * r.h > 1'000'000) continue;
    const OwnedProblem problem = ExpandForDevice(r);
    const DeviceCase made(problem);
    DeviceOutputs outputs(made);
    HostResults host(outputs.results());
    static_cast<void>(kernel::Run(DenseView(problem), host.results()));
    if (index % 2 == 0) host.Damage(index);
    host.CopyTo(outputs.results());
    const oracle::Judgement here = oracle::JudgeProblem(DenseView(problem), host.results(), contract);
    const auto there = oracle->Judge(made.problem(), {&outputs.results(), 1}, contract, 0, nullptr);
    ASSERT_EQ(there.error, "") << Format(r);
    ASSERT_EQ(there.judged[0].outputs.size(), here.outputs.size());
    for (size_t k = 0; k < here.outputs.size(); ++k) {
      const oracle::OutputVerdict &a = here.outputs[k], &b = there.judged[0].outputs[k];
      ASSERT_EQ(a.output, b.output);
      EXPECT_EQ(a.pass, b.pass) << Format(r) << " " << Name(a.output);
      EXPECT_EQ(a.fail, b.fail) << Format(r) << " " << Name(a.output);
      EXPECT_EQ(a.vacuous, b.vacuous) << Format(r) << " " << Name(a.output);
      EXPECT_EQ(a.unspecified, b.unspecified) << Format(r) << " " << Name(a.output);
      EXPECT_EQ(a.failure, b.failure) << Format(r) << " " << Name(a.output);
      if (a.fail > 0) {
        ++failing;
        EXPECT_TRUE(a.tightness == b.tightness ||
                    std::fabs(a.tightness - b.tightness) <= 0x1p-10 * a.tightness)
            << Format(r) << " " << Name(a.output) << " " << a.tightness << " " << b.tightness;
      }
      ++judged;
    }
  }
  EXPECT_GT(judged, 300);
  EXPECT_GT(failing, 50);
}

// Fails if a write before, after or between the elements of an output is missed, or if a write of an
// element is reported.
TEST(GpuDeviceCase, GuardBandsSeeOneByte) {
  NEED_DEVICE(oracle);
  static_cast<void>(oracle);
  Recipe r;
  r.n = 5;
  r.v = 7;
  r.h = 3;
  r.pad = 2;
  for (const bool hidden_major : {false, true}) {
    r.hidden_major = hidden_major;
    const DeviceCase made(Expand(r));
    DeviceOutputs outputs(made);
    const auto write = [&](int64_t element) {
      outputs.Poison(0x11);
      auto* const first = static_cast<char*>(outputs.results().grad_weight->data);
      oracle::cuda::Check(cudaMemset(first + 2 * element, 0x12, 1), "a test");
      return outputs.Damage();
    };
    const int64_t length = hidden_major ? r.v : r.h, lines = hidden_major ? r.h : r.v;
    EXPECT_EQ(write(0), "");
    EXPECT_EQ(write(length - 1), "");
    EXPECT_EQ(write((lines - 1) * (length + r.pad)), "");
    for (const int64_t outside : {int64_t{-1}, length, length + 1, lines * (length + r.pad) - r.pad}) {
      EXPECT_TRUE(write(outside).starts_with("grad_weight: 1 bytes")) << outside;
    }
  }
  DeviceRegion scratch(1000, "scratch");
  scratch.Poison(0x11);
  oracle::cuda::Check(cudaMemset(static_cast<char*>(scratch.data()) + 999, 0, 1), "a test");
  EXPECT_EQ(scratch.Damage(), "");
  oracle::cuda::Check(cudaMemset(static_cast<char*>(scratch.data()) + 1000, 0, 1), "a test");
  EXPECT_NE(scratch.Damage(), "");
}

// Fails if a hash misses one bit, or two exchanged elements.
TEST(GpuDeviceOracle, HashesSeeOneBitAndOrder) {
  NEED_DEVICE(oracle);
  Recipe r;
  r.n = 3;
  r.v = 50;
  r.h = 7;
  OwnedProblem problem = Expand(r);
  std::set<uint64_t> hashes;
  std::string error;
  const auto hash = [&] {
    const DeviceCase made(problem);
    hashes.insert(oracle->Hash(made.problem().weight, &error));
  };
  hash();
  hash();
  EXPECT_EQ(hashes.size(), 1u);
  problem.weight.SetBits(123, problem.weight.GetBits(123) ^ 1);
  hash();
  EXPECT_EQ(hashes.size(), 2u);
  const uint64_t bits = problem.weight.GetBits(0);
  problem.weight.SetBits(0, problem.weight.GetBits(1));
  problem.weight.SetBits(1, bits);
  hash();
  EXPECT_EQ(hashes.size(), 3u);
}

// At production size the sweep can only judge single rows: forward and grad_hidden of four of them,
// over the whole vocabulary. Fails if the device and the sweep differ in a value or a bound.
TEST(GpuDeviceOracle, RowsOfAProductionCaseAgreeWithTheSweep) {
  NEED_DEVICE(oracle);
  Recipe r;
  std::string error;
  ASSERT_TRUE(
      Parse("v1 seed=5 dtype=bf16 n=8192 v=151936 h=4096 values=gaussian exp=2 grads=random "
            "entropy_grads=random labels=random temperature_per_row=1",
            &r, &error, kMaxDeviceElements))
      << error;
  const DeviceCase made(r);
  DeviceOutputs outputs(made);
  const oracle::Contract contract = ContractOf(CudaDescription("cuda", kernel::CudaPath::kBest, 90));
  const std::vector<int64_t> rows = {0, 1234, 4711, 8191};
  std::vector<WatchedRow> watched;
  for (const Output output : {Output::kLogprob, Output::kEntropy, Output::kLse, Output::kGradHidden}) {
    for (const int64_t row : rows) watched.push_back({output, row, {}});
  }
  for (int run = 0; run < 2; ++run) {
    const auto verdicts = oracle->Judge(made.problem(), {&outputs.results(), 1}, contract, 0, &watched);
    ASSERT_EQ(verdicts.error, "");
    RecordProperty("seconds" + std::to_string(run), std::to_string(verdicts.seconds));
    std::printf("8192 x 4096 x 151936, forward and backward: %.3f s of oracle\n", verdicts.seconds);
  }

  OwnedProblem part = made.rows();
  part.hidden = HostTensor::Zeros(r.dtype, {r.n, r.h});
  for (const int64_t row : rows) {
    const HostTensor one = made.ReadRows(made.problem().hidden, row, 1);
    std::copy(one.bytes.begin(), one.bytes.end(), part.hidden.bytes.begin() + row * r.h * 2);
  }
  part = SelectRows(part, rows);
  part.weight = made.ReadRows(made.problem().weight, 0, r.v);
  kernel::Results wanted = outputs.results();
  wanted.grad_weight.reset();
  oracle::SweepOptions options;
  options.threads = static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1u, 64u));
  const oracle::Expectation expected = oracle::Expected(DenseView(part), wanted, contract, options);
  for (const WatchedRow& w : watched) {
    const int64_t at = std::find(rows.begin(), rows.end(), w.row) - rows.begin();
    for (size_t j = 0; j < w.elements.size(); ++j) {
      EXPECT_EQ(Compare(r, "cuda", w.output, w.row, static_cast<int64_t>(j),
                        expected[w.output].at(at, static_cast<int64_t>(j)), w.elements[j]),
                "");
    }
  }
}

}  // namespace
}  // namespace plumbline::fuzz
