// SPDX-License-Identifier: Apache-2.0
//
// Faults that the host can see. Every entry point that looks at the faulty argument refuses it before
// anything is written, with a message that names the argument and its value.

#include "kernel/checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <string>

#include "kernel/cuda/operator.h"
#include "kernel/linear_cross_entropy.h"
#include "tests/kernel/test_problem.h"

namespace plumbline::kernel {
namespace {

struct Fault {
  const char* name;
  std::function<void(Problem&, Results&)> plant;
  const char* message;  // a regular expression that the whole message matches
};

void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.name; }

// One float each, none of which is finite and positive.
const float kBadScalars[] = {0, -1, std::numeric_limits<float>::infinity(),
                             std::numeric_limits<float>::quiet_NaN()};

ConstTensor Scalar(const float* value) { return {value, DType::kF32, 0, {1, 1}, {1, 1}}; }

template <class Pointer>
Pointer Off(Pointer data, int bytes) {
  return reinterpret_cast<Pointer>(reinterpret_cast<uintptr_t>(data) + static_cast<uintptr_t>(bytes));
}

class Refused : public testing::TestWithParam<Fault> {};

// Fails if the fault passes, if it is reported as another argument's, or if anything was written before
// it was seen.
TEST_P(Refused, BeforeAnythingIsWritten) {
  TestValues values = TestValues::Random(DType::kF32, 3, 5, 4, 1);
  values.temperature.assign(3, 1);
  PlacedProblem placed(values);
  const TestOutputs before = placed.Outputs();
  GetParam().plant(placed.problem(), placed.results());
  const Status status = Compute(placed);
  EXPECT_EQ(status.code, Code::kInvalidArgument);
  EXPECT_THAT(status.message, testing::MatchesRegex(GetParam().message));
  // The clean results, as they were placed. The fault may have changed the view.
  PlacedProblem clean(values);
  EXPECT_TRUE(clean.Outputs() == before);
  EXPECT_EQ(TestOutputs::Float(0xffff'ffff) != TestOutputs::Float(0xffff'ffff), true);
}

const Fault kFaults[] = {
    {"HiddenRank", [](Problem& p, Results&) { p.hidden.rank = 1; }, "hidden\\.rank = 1, expected 2"},
    {"HiddenDtype", [](Problem& p, Results&) { p.hidden.dtype = DType::kI32; },
     "hidden\\.dtype = int32 is not bf16 or fp16 or fp32"},
    {"HiddenNegative", [](Problem& p, Results&) { p.hidden.shape[0] = -3; },
     "hidden\\.shape = \\[-3, 4\\] is negative"},
    {"HiddenStride", [](Problem& p, Results&) { p.hidden.stride[1] = 2; },
     "hidden\\.stride = \\[4, 2\\]: the last dimension is not contiguous"},
    {"HiddenSpan", [](Problem& p, Results&) { p.hidden.stride[0] = INT64_MAX / 2; },
     "hidden\\.shape = \\[3, 4\\] with stride \\[4611686018427387903, 1\\] spans more than 2\\^62 "
     "bytes"},
    {"HiddenNull", [](Problem& p, Results&) { p.hidden.data = nullptr; },
     "hidden\\.data = null with 12 elements"},
    {"HiddenMisaligned", [](Problem& p, Results&) { p.hidden.data = Off(p.hidden.data, 2); },
     "hidden\\.data = 0x[0-9a-f]+ is not aligned to the 4 bytes of fp32"},
    {"WeightRank", [](Problem& p, Results&) { p.weight.rank = 3; }, "weight\\.rank = 3, expected 2"},
    {"WeightDtype", [](Problem& p, Results&) { p.weight.dtype = DType::kBf16; },
     "weight\\.dtype = bf16 differs from hidden\\.dtype = fp32"},
    {"WeightColumns", [](Problem& p, Results&) { p.weight.shape[1] = 3; },
     "weight\\.shape = \\[5, 3\\], expected \\[5, 4\\] to match the columns of hidden"},
    {"WeightStride", [](Problem& p, Results&) { p.weight.stride[1] = 2; },
     "weight\\.stride = \\[4, 2\\] has no contiguous dimension"},
    {"WeightNull", [](Problem& p, Results&) { p.weight.data = nullptr; },
     "weight\\.data = null with 20 elements"},
    {"LabelsDtype", [](Problem& p, Results&) { p.labels.dtype = DType::kF32; },
     "labels\\.dtype = fp32 is not int32 or int64"},
    {"LabelsRows", [](Problem& p, Results&) { p.labels.shape[0] = 2; },
     "labels\\.shape = \\[2\\], expected \\[3\\] to match the rows of hidden"},
    {"LabelsNull", [](Problem& p, Results&) { p.labels.data = nullptr; },
     "labels\\.data = null with 3 elements"},
    {"LabelsMisaligned", [](Problem& p, Results&) { p.labels.data = Off(p.labels.data, 4); },
     "labels\\.data = 0x[0-9a-f]+ is not aligned to the 8 bytes of int64"},
    {"TemperatureRows", [](Problem& p, Results&) { p.temperature->shape[0] = 1; },
     "temperature\\.shape = \\[1\\], expected \\[3\\] to match the rows of hidden, or a scalar"},
    {"TemperatureDtype", [](Problem& p, Results&) { p.temperature->dtype = DType::kI32; },
     "temperature\\.dtype = int32 is not fp32"},
    {"TemperatureNull", [](Problem& p, Results&) { p.temperature->data = nullptr; },
     "temperature\\.data = null with 3 elements"},
    {"TemperatureZero", [](Problem& p, Results&) { p.temperature = Scalar(&kBadScalars[0]); },
     "temperature = 0 is not finite and positive"},
    {"TemperatureNegative", [](Problem& p, Results&) { p.temperature = Scalar(&kBadScalars[1]); },
     "temperature = -1 is not finite and positive"},
    {"TemperatureInfinite", [](Problem& p, Results&) { p.temperature = Scalar(&kBadScalars[2]); },
     "temperature = inf is not finite and positive"},
    {"TemperatureNaN", [](Problem& p, Results&) { p.temperature = Scalar(&kBadScalars[3]); },
     "temperature = nan is not finite and positive"},
    {"Reduction", [](Problem& p, Results&) { p.reduction = static_cast<Reduction>(7); },
     "reduction = 7 is not none, sum or mean"},
    {"GradLogprobRank", [](Problem& p, Results&) { p.grad_logprob->rank = 0; },
     "grad_logprob\\.rank = 0, expected 1"},
    {"GradLogprobRows", [](Problem& p, Results&) { p.grad_logprob->shape[0] = 4; },
     "grad_logprob\\.shape = \\[4\\], expected \\[3\\] to match the rows of hidden, with reduction "
     "none"},
    {"GradLogprobNull", [](Problem& p, Results&) { p.grad_logprob->data = nullptr; },
     "grad_logprob\\.data = null with 3 elements"},
    {"GradLogprobOfASum",
     [](Problem& p, Results& r) { p.reduction = Reduction::kSum, r.logprob.reset(); },
     "grad_logprob\\.rank = 1, expected 0"},
    {"GradEntropyDtype", [](Problem& p, Results&) { p.grad_entropy->dtype = DType::kF16; },
     "grad_entropy\\.dtype = fp16 is not fp32"},
    {"LogprobOfASum",
     [](Problem& p, Results&) {
       p.reduction = Reduction::kSum, p.grad_logprob = Scalar(&kBadScalars[0]);
     },
     "logprob is present with reduction sum or mean; ask for loss"},
    {"LossOfNone", [](Problem&, Results& r) { r.loss = r.logprob; },
     "loss is present with reduction none; ask for logprob"},
    {"LogprobRows", [](Problem&, Results& r) { r.logprob->shape[0] = 2; },
     "logprob\\.shape = \\[2\\], expected \\[3\\] to match the problem"},
    {"EntropyDtype", [](Problem&, Results& r) { r.entropy->dtype = DType::kBf16; },
     "entropy\\.dtype = bf16 is not fp32"},
    {"EntropyBroadcast", [](Problem&, Results& r) { r.entropy->stride[0] = 0; },
     "entropy\\.stride = \\[0\\] makes elements of the output of shape \\[3\\] overlap"},
    {"LseNull", [](Problem&, Results& r) { r.lse->data = nullptr; },
     "lse\\.data = null with 3 elements"},
    {"LseMisaligned", [](Problem&, Results& r) { r.lse->data = Off(r.lse->data, 1); },
     "lse\\.data = 0x[0-9a-f]+ is not aligned to the 4 bytes of fp32"},
    {"FirstInvalidRowDtype", [](Problem&, Results& r) { r.first_invalid_row->dtype = DType::kI32; },
     "first_invalid_row\\.dtype = int32 is not int64"},
    {"GradHiddenDtype", [](Problem&, Results& r) { r.grad_hidden->dtype = DType::kBf16; },
     "grad_hidden\\.dtype = bf16 is not fp32 or fp32"},
    {"GradHiddenOverlap", [](Problem&, Results& r) { r.grad_hidden->stride[0] = 3; },
     "grad_hidden\\.stride = \\[3, 1\\] makes elements of the output of shape \\[3, 4\\] overlap"},
    {"GradWeightShape", [](Problem&, Results& r) { r.grad_weight->shape[0] = 4; },
     "grad_weight\\.shape = \\[4, 4\\], expected \\[5, 4\\] to match the problem"},
    {"GradWeightNull", [](Problem&, Results& r) { r.grad_weight->data = nullptr; },
     "grad_weight\\.data = null with 20 elements"},
};

INSTANTIATE_TEST_SUITE_P(Arguments, Refused, testing::ValuesIn(kFaults),
                         [](const testing::TestParamInfo<Fault>& fault) { return fault.param.name; });

struct Memory {
  alignas(64) std::byte bytes[1 << 20];
};

// Sizes are asked for before there is memory. Fails if data pointers are looked at, or if anything else
// is not.
TEST(ChecksTest, SizesNeedNoData) {
  PlacedProblem placed(TestValues::Random(DType::kF32, 3, 5, 4, 1));
  placed.problem().hidden.data = placed.problem().weight.data = nullptr;
  placed.results().grad_weight->data = nullptr;
  Sizes sizes;
  EXPECT_TRUE(GetSizes(placed.problem(), placed.results(), {}, &sizes).ok());
  placed.problem().weight.shape[1] = 7;
  EXPECT_EQ(GetSizes(placed.problem(), placed.results(), {}, &sizes).code, Code::kInvalidArgument);
}

// Fails if missing or misaligned memory is used, or if a thread count or device is not checked.
TEST(ChecksTest, MemoryAndExecution) {
  PlacedProblem placed(TestValues::Random(DType::kF32, 3, 5, 4, 1));
  const auto workspace = std::make_unique<Memory>(), saved = std::make_unique<Memory>();
  Sizes sizes;
  ASSERT_TRUE(GetSizes(placed.problem(), placed.results(), {}, &sizes).ok());
  ASSERT_LE(sizes.workspace, sizeof(Memory));
  const TestOutputs before = placed.Outputs();
  const auto message = [&](void* w, void* s, const Execution& execution) {
    const Status forward = Forward(placed.problem(), placed.results(), execution, w, s);
    const Status backward = Backward(placed.problem(), placed.results(), execution, w, s);
    EXPECT_EQ(forward.code, backward.code);
    EXPECT_EQ(forward.message, backward.message);
    return forward.message;
  };
  const std::string bytes = std::to_string(sizes.workspace), saved_bytes = std::to_string(sizes.saved);
  EXPECT_EQ(message(nullptr, saved.get(), {}), "workspace = null, " + bytes + " bytes are needed");
  EXPECT_EQ(message(workspace.get(), nullptr, {}),
            "saved = null, " + saved_bytes + " bytes are needed");
  EXPECT_THAT(message(workspace->bytes + 4, saved.get(), {}),
              testing::MatchesRegex("workspace = 0x[0-9a-f]+ is not aligned to 64 bytes"));
  EXPECT_EQ(message(workspace.get(), saved.get(), {.threads = -2}),
            "execution.threads = -2 is negative");
  EXPECT_EQ(message(workspace.get(), saved.get(), {.device = static_cast<Device>(7)}),
            "execution.device = 7 is not a device");
  if (!cuda::Built()) {  // with CUDA it would write to host memory; tests/kernel/cuda has its own
                         // faults
    EXPECT_EQ(message(workspace.get(), saved.get(), {.device = Device::kCuda}),
              "execution.device = cuda: this build has no CUDA implementation");
  }
  EXPECT_TRUE(placed.Outputs() == before);
}

// Views that are unusual but valid. Fails if a check is stricter than the specification.
TEST(ChecksTest, ValidOddities) {
  {  // null data in a tensor without elements
    PlacedProblem placed(TestValues::Random(DType::kF32, 0, 5, 4, 1));
    placed.problem().hidden.data = placed.problem().labels.data = nullptr;
    placed.results().logprob->data = placed.results().grad_hidden->data = nullptr;
    EXPECT_TRUE(Compute(placed).ok());
  }
  {  // one column: any stride is contiguous; one row: any stride is disjoint
    PlacedProblem placed(TestValues::Random(DType::kF32, 1, 5, 1, 1));
    placed.problem().hidden.stride[0] = placed.problem().hidden.stride[1] = 0;
    placed.results().lse->stride[0] = 0;
    placed.results().grad_hidden->stride[0] = placed.results().grad_hidden->stride[1] = 0;
    EXPECT_TRUE(Compute(placed).ok());
  }
  {  // all rows of hidden are one row
    PlacedProblem placed(TestValues::Random(DType::kF32, 3, 5, 4, 1));
    placed.problem().hidden.stride[0] = 0;
    EXPECT_TRUE(Compute(placed).ok());
  }
  {  // int64 labels at an address that is a multiple of 8 and not of 16
    PlacedProblem placed(TestValues::Random(DType::kF32, 3, 5, 4, 1), {.label_offset = 1});
    EXPECT_TRUE(Compute(placed).ok());
  }
}

}  // namespace
}  // namespace plumbline::kernel
