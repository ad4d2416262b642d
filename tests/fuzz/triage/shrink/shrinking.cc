// SPDX-License-Identifier: Apache-2.0

#include "tests/fuzz/triage/shrink/shrinking.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>
#include <set>

#include "fuzz/base/mix.h"

namespace plumbline::fuzz {
namespace {

using kernel::DType;

float Small(uint64_t seed, int64_t i) {
  return static_cast<float>(static_cast<int>(Mix(seed, static_cast<uint64_t>(i)) % 255) - 127) / 64;
}

void FillSmall(HostTensor& tensor, uint64_t seed) {
  for (int64_t i = 0; i < tensor.size(); ++i) tensor.SetFloat(i, Small(seed, i));
}

}  // namespace

OwnedProblem Busy(int64_t n, int64_t v, int64_t h, DType dtype) {
  OwnedProblem p;
  p.hidden = HostTensor::Zeros(dtype, {n, h});
  p.weight = HostTensor::Zeros(dtype, {v, h});
  p.labels = HostTensor::Zeros(DType::kI32, {n});
  p.temperature = HostTensor::Zeros(DType::kF32, {n});
  p.grad_logprob = HostTensor::Zeros(DType::kF32, {n});
  p.grad_entropy = HostTensor::Zeros(DType::kF32, {n});
  FillSmall(p.hidden, 1);
  FillSmall(p.weight, 2);
  FillSmall(*p.grad_logprob, 3);
  FillSmall(*p.grad_entropy, 4);
  p.ignore_index = 7;
  for (int64_t i = 0; i < n; ++i) {
    p.labels.SetInt(i,
                    static_cast<int64_t>(Mix(5, static_cast<uint64_t>(i)) % static_cast<uint64_t>(v)));
    p.temperature->SetFloat(i, 1 + static_cast<float>(i % 3));
  }
  p.layout = {true, 3, 5, 1, 2};
  p.wanted.fp32_grads = true;
  return p;
}

std::string Everything(const OwnedProblem& p) {
  std::string all;
  const auto add = [&](const HostTensor& t) {
    all += std::to_string(static_cast<int>(t.dtype));
    for (const int64_t extent : t.shape) all += "x" + std::to_string(extent);
    all.append(reinterpret_cast<const char*>(t.bytes.data()), t.bytes.size());
    all += ";";
  };
  add(p.hidden);
  add(p.weight);
  add(p.labels);
  for (const auto* t : {&p.temperature, &p.grad_logprob, &p.grad_entropy}) {
    if (*t) add(**t);
    all += "|";
  }
  const Layout& l = p.layout;
  const Wanted& w = p.wanted;
  for (const int64_t x :
       {p.ignore_index, int64_t{static_cast<int>(p.reduction)}, int64_t{l.weight_hidden_major},
        l.hidden_padding, l.weight_padding, l.label_offset, l.grad_stride, int64_t{w.entropy},
        int64_t{w.lse}, int64_t{w.grad_hidden}, int64_t{w.grad_weight}, int64_t{w.fp32_grads}}) {
    all += std::to_string(x) + ",";
  }
  return all;
}

ShrinkOptions Unhurried() {
  ShrinkOptions options;
  options.time_limit = std::chrono::minutes(10);
  return options;
}

ShrinkResult Checked(const OwnedProblem& start, const ShrinkHint& hint, const StillFails& still_fails,
                     ShrinkOptions options) {
  std::set<std::string> seen;
  int64_t calls = 0, accepted_calls = 0;
  OwnedProblem last = start;
  const StillFails watched = [&](const OwnedProblem& candidate) {
    ++calls;
    EXPECT_EQ(Inconsistency(candidate), std::nullopt);
    EXPECT_TRUE(seen.insert(Everything(candidate)).second) << "judged twice";
    return still_fails(candidate);
  };
  options.on_accept = [&](const OwnedProblem& p) {
    ++accepted_calls;
    EXPECT_TRUE(still_fails(p));
    last = p;
  };
  ShrinkResult result = Shrink(start, hint, watched, options);
  EXPECT_EQ(result.tried, calls);
  EXPECT_EQ(result.accepted, accepted_calls);
  EXPECT_TRUE(result.problem == last);
  ::testing::Test::RecordProperty("tried", static_cast<int>(result.tried));
  ::testing::Test::RecordProperty("values", static_cast<int>(ValueCount(result.problem)));
  return result;
}

std::vector<float> Floats(const HostTensor& t) {
  std::vector<float> values;
  for (int64_t i = 0; i < t.size(); ++i) values.push_back(t.GetFloat(i));
  return values;
}

float Largest(const HostTensor& t) {
  float largest = -std::numeric_limits<float>::infinity();
  for (int64_t i = 0; i < t.size(); ++i) largest = std::max(largest, t.GetFloat(i));
  return largest;
}

}  // namespace plumbline::fuzz
