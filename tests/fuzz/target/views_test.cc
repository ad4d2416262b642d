// SPDX-License-Identifier: Apache-2.0

#include "fuzz/target/interface/views.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <functional>
#include <string>

namespace plumbline::fuzz {
namespace {

using kernel::DType;
using ::testing::HasSubstr;

// Memory to point at; the tests never read through it.
std::array<char, 64> g_memory;
void* At(int i) { return g_memory.data() + i; }

// Checks every field by hand, so that a swapped shape, stride, tensor or type code shows. The numbers
// are those of dlpack.h: CPU 1; code 0 int, 2 float, 4 bfloat.
TEST(AbiCall, WritesWhatDLPackDefines) {
  kernel::Problem p;
  p.hidden = {At(1), DType::kBf16, 2, {3, 5}, {7, 1}};
  p.weight = {At(2), DType::kF16, 2, {11, 5}, {1, 13}};
  p.labels = {At(3), DType::kI32, 1, {3, 99}, {1, 99}};
  p.temperature = {At(4), DType::kF32, 0, {99, 99}, {99, 99}};
  p.ignore_index = -7;
  p.reduction = kernel::Reduction::kMean;
  p.grad_logprob = {At(5), DType::kF32, 0, {}, {}};
  p.grad_entropy = {At(6), DType::kF32, 1, {3, 99}, {0, 99}};
  kernel::Results r;
  r.logprob = {At(7), DType::kF32, 1, {3, 1}, {1, 1}};
  r.loss = {At(8), DType::kF32, 0, {}, {}};
  r.entropy = {At(9), DType::kF32, 1, {3, 1}, {1, 1}};
  r.lse = {At(10), DType::kF32, 1, {3, 1}, {1, 1}};
  r.grad_hidden = {At(11), DType::kF32, 2, {3, 5}, {8, 1}};
  r.grad_weight = {At(12), DType::kF16, 2, {11, 5}, {1, 12}};
  r.first_invalid_row = {At(13), DType::kI64, 0, {}, {}};

  AbiCall call(p, r);
  const auto expect = [](const DLTensor* t, void* data, int code, int bits, std::vector<int64_t> shape,
                         std::vector<int64_t> strides) {
    ASSERT_NE(t, nullptr);
    EXPECT_EQ(t->data, data);
    EXPECT_EQ(t->byte_offset, 0u);
    EXPECT_EQ(static_cast<int>(t->device.device_type), 1);
    EXPECT_EQ(t->device.device_id, 0);
    EXPECT_EQ(t->dtype.code, code);
    EXPECT_EQ(t->dtype.bits, bits);
    EXPECT_EQ(t->dtype.lanes, 1);
    ASSERT_EQ(static_cast<size_t>(t->ndim), shape.size());
    EXPECT_EQ(std::vector<int64_t>(t->shape, t->shape + t->ndim), shape);
    EXPECT_EQ(std::vector<int64_t>(t->strides, t->strides + t->ndim), strides);
  };
  EXPECT_EQ(call.problem()->struct_size, sizeof(plumbline_problem));
  EXPECT_EQ(call.problem()->reduction, 2);
  EXPECT_EQ(call.problem()->ignore_index, -7);
  expect(call.problem()->hidden, At(1), 4, 16, {3, 5}, {7, 1});
  expect(call.problem()->weight, At(2), 2, 16, {11, 5}, {1, 13});
  expect(call.problem()->labels, At(3), 0, 32, {3}, {1});
  expect(call.problem()->temperature, At(4), 2, 32, {}, {});
  expect(call.problem()->grad_logprob, At(5), 2, 32, {}, {});
  expect(call.problem()->grad_entropy, At(6), 2, 32, {3}, {0});
  EXPECT_EQ(call.results()->struct_size, sizeof(plumbline_results));
  expect(call.results()->logprob, At(7), 2, 32, {3}, {1});
  expect(call.results()->loss, At(8), 2, 32, {}, {});
  expect(call.results()->entropy, At(9), 2, 32, {3}, {1});
  expect(call.results()->lse, At(10), 2, 32, {3}, {1});
  expect(call.results()->grad_hidden, At(11), 2, 32, {3, 5}, {8, 1});
  expect(call.results()->grad_weight, At(12), 2, 16, {11, 5}, {1, 12});
  expect(call.results()->first_invalid_row, At(13), 0, 64, {}, {});
}

// Fails if an absent tensor arrives as an empty one.
TEST(AbiCall, AbsentIsNull) {
  AbiCall call({}, {});
  EXPECT_EQ(call.problem()->temperature, nullptr);
  EXPECT_EQ(call.problem()->grad_logprob, nullptr);
  EXPECT_EQ(call.problem()->grad_entropy, nullptr);
  for (const DLTensor* t :
       {call.results()->logprob, call.results()->loss, call.results()->entropy, call.results()->lse,
        call.results()->grad_hidden, call.results()->grad_weight, call.results()->first_invalid_row}) {
    EXPECT_EQ(t, nullptr);
  }
}

// A caller in C, spelled out: N = 2, H = 3, V = 4.
struct Caller {
  int64_t hidden_shape[2] = {2, 3}, weight_shape[2] = {4, 3}, weight_strides[2] = {1, 6}, rows[1] = {2};
  int64_t zero[1] = {0};
  DLTensor hidden{At(0), {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, hidden_shape, nullptr, 4};
  DLTensor weight{At(1), {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, weight_shape, weight_strides, 0};
  DLTensor labels{At(2), {kDLCPU, 0}, 1, {kDLInt, 64, 1}, rows, nullptr, 8};
  DLTensor grad{At(3), {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, rows, zero, 0};
  DLTensor scalar{At(4), {kDLCPU, 0}, 0, {kDLFloat, 32, 1}, nullptr, nullptr, 0};
  DLTensor lse{At(5), {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, rows, nullptr, 0};
  plumbline_problem problem{
      sizeof(plumbline_problem), PLUMBLINE_NONE, &hidden, &weight, &labels, &scalar, 9, &grad, nullptr};
  plumbline_results results{
      sizeof(plumbline_results), nullptr, nullptr, nullptr, &lse, nullptr, nullptr, nullptr};
};

// Fails if absent strides are not row-major, byte_offset is dropped or counted in elements, a zero
// stride becomes compact, or a tensor lands in another's place.
TEST(FromAbi, ReadsWhatDLPackDefines) {
  Caller c;
  kernel::Problem p;
  kernel::Results r;
  ASSERT_EQ(FromAbi(&c.problem, &c.results, kDLCPU, &p, &r), std::nullopt);
  EXPECT_EQ(p.hidden.data, At(4));
  EXPECT_EQ(p.hidden.dtype, DType::kF32);
  EXPECT_EQ(p.hidden.rank, 2);
  EXPECT_EQ(p.hidden.shape[0], 2);
  EXPECT_EQ(p.hidden.shape[1], 3);
  EXPECT_EQ(p.hidden.stride[0], 3);
  EXPECT_EQ(p.hidden.stride[1], 1);
  EXPECT_EQ(p.weight.data, At(1));
  EXPECT_EQ(p.weight.stride[0], 1);
  EXPECT_EQ(p.weight.stride[1], 6);
  EXPECT_EQ(p.vocab(), 4);
  EXPECT_EQ(p.labels.data, At(10));
  EXPECT_EQ(p.labels.dtype, DType::kI64);
  EXPECT_EQ(p.labels.stride[0], 1);
  ASSERT_TRUE(p.temperature.has_value());
  EXPECT_EQ(p.temperature->rank, 0);
  EXPECT_EQ(p.temperature->data, At(4));
  EXPECT_EQ(p.ignore_index, 9);
  ASSERT_TRUE(p.grad_logprob.has_value());
  EXPECT_EQ(p.grad_logprob->stride[0], 0);
  EXPECT_FALSE(p.grad_entropy.has_value());
  ASSERT_TRUE(r.lse.has_value());
  EXPECT_EQ(r.lse->data, At(5));
  EXPECT_FALSE(r.logprob || r.loss || r.entropy || r.grad_hidden || r.grad_weight ||
               r.first_invalid_row);
}

// Fails if an empty tensor without memory becomes a small non-null address.
TEST(FromAbi, NullDataStaysNull) {
  Caller c;
  c.hidden.data = nullptr;
  kernel::Problem p;
  kernel::Results r;
  ASSERT_EQ(FromAbi(&c.problem, nullptr, kDLCPU, &p, &r), std::nullopt);
  EXPECT_EQ(p.hidden.data, nullptr);
}

// Each fails if what it breaks is let through, or the message does not name it.
TEST(FromAbi, Refusals) {
  struct Row {
    const char* names;
    std::function<void(Caller&)> change;
  };
  const Row rows[] = {
      {"hidden: is null", [](Caller& c) { c.problem.hidden = nullptr; }},
      {"weight: is null", [](Caller& c) { c.problem.weight = nullptr; }},
      {"labels: is null", [](Caller& c) { c.problem.labels = nullptr; }},
      {"hidden: rank is 3", [](Caller& c) { c.hidden.ndim = 3; }},
      {"hidden: rank is -1", [](Caller& c) { c.hidden.ndim = -1; }},
      {"hidden: shape is null", [](Caller& c) { c.hidden.shape = nullptr; }},
      {"hidden: shape overflows",
       [](Caller& c) { c.hidden_shape[0] = c.hidden_shape[1] = int64_t{1} << 40; }},
      {"weight: device type is 2 (cuda), not this target's 1 (cpu)",
       [](Caller& c) { c.weight.device.device_type = kDLCUDA; }},
      {"weight: dtype has code 2, bits 64", [](Caller& c) { c.weight.dtype.bits = 64; }},
      {"labels: dtype has code 1", [](Caller& c) { c.labels.dtype.code = kDLUInt; }},
      {"grad_logprob: dtype has code 2, bits 32, lanes 4", [](Caller& c) { c.grad.dtype.lanes = 4; }},
      {"temperature: device type is 2", [](Caller& c) { c.scalar.device.device_type = kDLCUDA; }},
      {"lse: rank is 3", [](Caller& c) { c.lse.ndim = 3; }},
      {"problem.reduction: is 3", [](Caller& c) { c.problem.reduction = 3; }},
      {"problem.reduction: is -1", [](Caller& c) { c.problem.reduction = -1; }},
      {"problem.struct_size: is 16", [](Caller& c) { c.problem.struct_size = 16; }},
      {"results.struct_size: is 8", [](Caller& c) { c.results.struct_size = 8; }},
  };
  for (const Row& row : rows) {
    Caller c;
    row.change(c);
    kernel::Problem p;
    kernel::Results r;
    const auto why = FromAbi(&c.problem, &c.results, kDLCPU, &p, &r);
    ASSERT_TRUE(why.has_value()) << row.names;
    EXPECT_THAT(*why, HasSubstr(row.names));
  }
  kernel::Problem p;
  kernel::Results r;
  EXPECT_THAT(FromAbi(nullptr, nullptr, kDLCPU, &p, &r).value_or(""), HasSubstr("problem: is null"));
}

// The call of a target on a device. Fails if a tensor on the host, or on another device than the rest,
// is let through, or if the device that a call is made for is not the one that every tensor names.
TEST(FromAbi, DevicesAreNotMixed) {
  Caller c;
  kernel::Problem p;
  kernel::Results r;
  const auto why = [&] { return FromAbi(&c.problem, &c.results, kDLCUDA, &p, &r).value_or("nothing"); };
  EXPECT_EQ(why(), "hidden: device type is 1 (cpu), not this target's 2 (cuda)");
  for (DLTensor* tensor : {&c.hidden, &c.weight, &c.labels, &c.scalar, &c.grad, &c.lse}) {
    tensor->device = {kDLCUDA, 1};
  }
  EXPECT_EQ(why(), "nothing");
  c.lse.device = {kDLCUDA, 0};
  EXPECT_EQ(why(), "lse: device is number 0, hidden's is 1");
  c.lse.device = {kDLROCM, 1};
  EXPECT_EQ(why(), "lse: device type is 10, not this target's 2 (cuda)");

  kernel::Problem problem;
  kernel::Results results;
  results.lse = {At(0), DType::kF32, 1, {3, 1}, {1, 1}};
  AbiCall call(problem, results, {kDLCUDA, 3});
  EXPECT_EQ(call.problem()->hidden->device.device_type, kDLCUDA);
  EXPECT_EQ(call.problem()->labels->device.device_id, 3);
  EXPECT_EQ(call.results()->lse->device.device_id, 3);
}

// Fails if only the exact size is taken: a caller of a later version has longer structs.
TEST(FromAbi, LongerStructsAreRead) {
  Caller c;
  c.problem.struct_size += 8;
  c.results.struct_size += 8;
  kernel::Problem p;
  kernel::Results r;
  EXPECT_EQ(FromAbi(&c.problem, &c.results, kDLCPU, &p, &r), std::nullopt);
}

}  // namespace
}  // namespace plumbline::fuzz
