// SPDX-License-Identifier: Apache-2.0
//
// A target on a device, where the device is a fake in host memory. The harness must find there what it
// finds on the host, and also the errors that only a device has.
#include "fuzz/examine/device_run.h"
#include "fuzz/target/catalogue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "fuzz/examine/examine.h"
#include "fuzz/examine/output_bits.h"
#include "tests/fuzz/support/fake_device.h"
#include "tests/fuzz/support/workplace.h"

namespace plumbline::fuzz {
namespace {

using kernel::DType;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// n rows over v columns, dense, within the capabilities of the example plug-in.
OwnedProblem Problem(int64_t n = 2, int64_t v = 3, int64_t h = 2) {
  OwnedProblem p;
  p.hidden = HostTensor::Zeros(DType::kF32, {n, h});
  p.weight = HostTensor::Zeros(DType::kF32, {v, h});
  p.labels = HostTensor::Zeros(DType::kI64, {n});
  p.grad_logprob = HostTensor::Zeros(DType::kF32, {n});
  for (int64_t i = 0; i < n * h; ++i) p.hidden.SetFloat(i, static_cast<float>(i % 7) / 4 - 1);
  for (int64_t i = 0; i < v * h; ++i) p.weight.SetFloat(i, static_cast<float>(i % 5) / 4 - 0.5F);
  for (int64_t i = 0; i < n; ++i) p.labels.SetInt(i, i % v);
  for (int64_t i = 0; i < n; ++i) p.grad_logprob->SetFloat(i, static_cast<float>(i));
  return p;
}

class DeviceRun : public ::testing::Test {
 protected:
  void SetUp() override { current = &device_; }
  void TearDown() override { EXPECT_THAT(device_.violations, IsEmpty()); }

  std::unique_ptr<Target> Load(const std::string& fault, bool split = false) {
    const std::string flags = "-DFAULT=" + fault + (split ? " -DSPLIT=1" : "");
    std::string error;
    auto target = LoadTarget(work_.Plugin("on_device.c", fault + (split ? "-split" : ""), flags),
                             &error, [](std::string*) -> Device* { return current; });
    EXPECT_TRUE(target) << error;
    return target;
  }
  std::vector<std::string> Signatures(const std::string& fault, bool split) {
    const CaseResult result = Examine(Problem(), *Load(fault, split));
    EXPECT_EQ(result.harness_fault, "");
    std::vector<std::string> signatures;
    for (const Finding& f : result.findings) signatures.push_back(f.Signature());
    what_ = result.findings.empty() ? "" : result.findings.front().what;
    return signatures;
  }

  static inline testing::FakeDevice* current = nullptr;
  testing::FakeDevice device_;
  testing::Workplace work_;
  std::string what_;
};

// Fails for tensors that say they lie on the host (the plug-in checks), pointers that are not moved,
// outputs that are not copied back, a case that is delayed twice, and no case or every case delayed.
TEST_F(DeviceRun, WithoutAFaultThereIsNoFinding) {
  for (const bool split : {false, true}) {
    EXPECT_THAT(Signatures("NO_FAULT", split), IsEmpty()) << what_;
    const auto target = Load("NO_FAULT", split);
    int64_t held_up = 0;
    for (uint64_t seed = 0; seed < 100; ++seed) {
      device_.delays = 0;
      EXPECT_EQ(Examine(Problem(), *target, {.seed = seed}).verdict, oracle::Verdict::kPass);
      EXPECT_LE(device_.delays, 1);
      held_up += device_.delays;
    }
    EXPECT_GT(held_up, 10);
    EXPECT_LT(held_up, 50);
    EXPECT_GT(device_.copied_in, 0);
    EXPECT_GT(device_.copied_out, 0);
  }
}

// Fails for a part of the placement that is not copied back, or not copied over again before a run.
TEST_F(DeviceRun, WhatIsSeenOnTheHostIsSeenThere) {
  EXPECT_THAT(Signatures("PAST_THE_END", false), ::testing::Contains("guard-band"));
  EXPECT_THAT(what_, HasSubstr("lse"));
  EXPECT_THAT(Signatures("INTO_THE_INPUT", false), ::testing::Contains("input-written"));
  EXPECT_THAT(Signatures("NOT_WRITTEN", false), ::testing::Contains("unwritten:logprob"));
}

// Each kills a band that is not there, not filled, or not checked, and an offset counted from
// elsewhere.
TEST_F(DeviceRun, WritesAroundWorkspaceAndSavedStateAreSeen) {
  const std::pair<const char*, const char*> faults[] = {
      {"WORKSPACE_PAST_ITS_END", "workspace of 1003 bytes: byte +0 past its end holds 0x03, was 0xa5"},
      {"WORKSPACE_BEFORE_ITS_START", "workspace of 1003 bytes: byte 2 before its start holds 0x03"},
      {"SAVED_PAST_ITS_END", "saved state of 77 bytes: byte +1 past its end holds 0x03"},
      {"SAVED_BEFORE_ITS_START", "saved state of 77 bytes: byte 1 before its start holds 0x03"}};
  for (const auto& [fault, words] : faults) {
    EXPECT_THAT(Signatures(fault, true), ::testing::Contains("guard-band")) << fault;
    EXPECT_THAT(what_, HasSubstr(words));
  }
}

// Each kills scratch memory that holds numbers, or results of the last run, where it must be NaN.
TEST_F(DeviceRun, WhatNobodyWroteIsNaN) {
  const CaseResult partial = Examine(Problem(), *Load("PARTIAL_NOT_WRITTEN", true));
  ASSERT_FALSE(partial.findings.empty());
  EXPECT_EQ(partial.findings.front().Signature(), "non-finite:lse");
  for (const char* fault : {"BACKWARD_NEEDS_WORKSPACE", "SAVED_NOT_WRITTEN"}) {
    EXPECT_THAT(Signatures(fault, true), ::testing::Contains("non-finite:grad_weight")) << fault;
  }
}

// Fails for an error that is not reported, and one that is reported again for the next case.
TEST_F(DeviceRun, AnErrorLeftBehindIsAFinding) {
  const auto target = Load("NO_FAULT");
  device_.left_behind = "CUDA: invalid configuration argument";
  const CaseResult result = Examine(Problem(), *target);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings.front().kind, FindingKind::kStatus);
  EXPECT_THAT(result.findings.front().what,
              HasSubstr("left behind: CUDA: invalid configuration argument"));
  EXPECT_EQ(Examine(Problem(), *target).verdict, oracle::Verdict::kPass);
}

// Fails for a lost device taken for an answer.
TEST_F(DeviceRun, ALostDeviceIsThrown) {
  const auto target = Load("NO_FAULT");
  device_.lost = "CUDA: an illegal memory access was encountered";
  EXPECT_THROW(Examine(Problem(), *target), DeviceLost);
}

// Fails for memory that is asked for in the middle of a case, memory that leaks if there is too little,
// sizes whose sum overflows, and a device that cannot be used afterwards.
TEST_F(DeviceRun, NoRoomIsThrownAndForgotten) {
  const auto target = Load("NO_FAULT", true);
  for (const size_t total : {size_t{1000}, size_t{3} << 19}) {  // none; for the arena alone
    device_.total = total;
    try {
      Examine(Problem(), *target);
      ADD_FAILURE() << "there was room";
    } catch (const DeviceFull& full) {
      EXPECT_THAT(full.what(), HasSubstr("MiB wanted"));
    }
    EXPECT_EQ(device_.copied_in, 0);
    EXPECT_LE(device_.used(), total);
  }
  EXPECT_THROW(Examine(Problem(), *Load("SIZES_WITHOUT_END", true)), DeviceFull);
  device_.total = size_t{1} << 40;
  EXPECT_EQ(Examine(Problem(), *target).verdict, oracle::Verdict::kPass);
}

// Fails for a wide stride whose gaps are copied, an address that does not fit 32 bits, a gap that is
// not zero on the device, and memory of that size that is kept.
TEST_F(DeviceRun, WideStridesAreCopiedByWhatTheyHold) {
  const auto target = Load("NO_FAULT");
  OwnedProblem wide = Problem(3);
  wide.layout.label_stride = (int64_t{1} << 31) + 1;
  EXPECT_EQ(Examine(wide, *target).verdict, oracle::Verdict::kPass);
  EXPECT_LT(device_.copied_in, 1 << 20);
  EXPECT_LT(device_.copied_out, 1 << 20);
  EXPECT_LE(device_.used(), size_t{512} << 20);

  Placement placement(wide);
  placement.Poison(0);
  const Placement::Image image = placement.GetImage();
  ASSERT_GT(image.stretches.size(), 1U);
  EXPECT_GT(image.bytes, size_t{32} << 30);
  for (size_t i = 1; i < image.stretches.size(); ++i) {
    EXPECT_LT(image.stretches[i - 1].second, image.stretches[i].first);
  }
}

// Fails for memory that is asked for again in each case, as that takes longer than a small case does.
TEST_F(DeviceRun, MemoryIsKeptFromCaseToCase) {
  const auto target = Load("NO_FAULT", true);
  Examine(Problem(), *target);
  const std::byte* const arena = device_.Keep(Device::Use::kArena, 1);
  const size_t used = device_.used();
  Examine(Problem(5, 7, 3), *target);
  EXPECT_EQ(device_.Keep(Device::Use::kArena, 1), arena);
  EXPECT_EQ(device_.used(), used);
  EXPECT_EQ(device_.kept(), used);
}

// Tensors that lie apart, some with strides below 0 and of 0, as `check` passes them. Fails for an
// extent that is too short, data that is not the lowest address, an output that lands in another's
// place.
TEST_F(DeviceRun, TensorsThatLieApartAreCopiedByThemselves) {
  const OwnedProblem owned = Problem(3, 5, 4);
  OwnedProblem backwards = owned;
  backwards.labels = HostTensor::Zeros(DType::kI64, {3});
  for (int64_t i = 0; i < 3; ++i) backwards.labels.SetInt(i, owned.labels.GetInt(2 - i));
  kernel::Problem problem = DenseView(owned);
  problem.labels.data = static_cast<const int64_t*>(backwards.labels.View().data) + 2;
  problem.labels.stride[0] = -1;

  Placement placement(owned);
  const auto target = Load("NO_FAULT");
  ASSERT_EQ(RunOnDevice(*target, false, &placement).run.status, RunStatus::kOk);
  const OutputBits expected = CopyBits(placement.results());
  placement.Poison(1);
  ASSERT_FALSE(expected == CopyBits(placement.results()));
  const DeviceOutcome outcome = RunOnDevice(*target, problem, placement.results());
  EXPECT_EQ(outcome.run.status, RunStatus::kOk) << outcome.run.message;
  EXPECT_TRUE(expected == CopyBits(placement.results()));
}

}  // namespace
}  // namespace plumbline::fuzz
