// SPDX-License-Identifier: Apache-2.0
//
// `plumb check` from outside: statuses, output, and the effect of targets that harm their own process.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "fuzz/base/json.h"
#include "fuzz/check/judge.h"
#include "fuzz/check/sample.h"
#include "fuzz/cli/check.h"
#include "tests/fuzz/baseline/drawn_problem.h"
#include "tests/fuzz/check/check_program.h"
#include "tests/fuzz/check/dump_file.h"

namespace plumbline::fuzz {
namespace {

using ::testing::AllOf;
using testing::FlatDump;
using testing::Floats;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Same;
using ::testing::StartsWith;
using testing::WriteDump;

class Check : public testing::CheckProgram {};

// Fails if a right dump has a finding, or if the rows that were not judged are not reported.
TEST_F(Check, RightOutputsAreClean) {
  WriteDump(work_ / "d.safetensors", FlatDump(200, 37, 8));
  EXPECT_EQ(Run("d.safetensors"), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("64 of 200 rows looked at"));
  EXPECT_THAT(out_, HasSubstr("not looked at: 136 rows: --rows is 64"));
  EXPECT_THAT(out_, HasSubstr("plumb: verdict=clean cases=1 judged=1 findings=0 status=0\n"));
}

// Fails if the named row is counted in the sample instead of in the dump, or if the arbiter says
// nothing.
TEST_F(Check, WrongRowIsNamedAsTheDumpCountsIt) {
  SafeTensors dump = FlatDump(500, 37, 8);
  dump.tensors["logprob"].SetFloat(321, 0.5F);
  WriteDump(work_ / "d.safetensors", dump);
  EXPECT_EQ(Run("d.safetensors"), 1) << err_;
  EXPECT_THAT(out_, HasSubstr("wrong: logprob[321] = 0.5 where"));
  EXPECT_THAT(out_, HasSubstr("never positive"));
  EXPECT_THAT(out_, HasSubstr("the arbiter (1280 bits) agrees: -3.6109179126442244"));  // -ln 37
  EXPECT_THAT(out_, HasSubstr("rows whose logprob, entropy or lse is wrong: 321 (1 of the 64"));
  EXPECT_EQ(Run("d.safetensors --json"), 1);
  const Json json = LastLine();
  const Json& output = json.Find("dumps")->as_array()->at(0).Find("outputs")->as_array()->at(0);
  EXPECT_EQ(*output.Find("worst")->Find("row")->as_int(), 321);
  EXPECT_EQ(*json.Find("verdict")->as_string(), "findings");
}

// Most trainers mask ignored rows later. Fails if what such a row holds is wrong, is not listed, or is
// right by the contract of a target that promises the definition.
TEST_F(Check, AnIgnoredRowIsAConvention) {
  SafeTensors dump = FlatDump(20, 37, 8);
  dump.tensors["labels"].SetInt(3, -100);
  WriteDump(work_ / "d.safetensors", dump);
  EXPECT_EQ(Run("d.safetensors"), 0) << out_;
  const std::string line =
      "convention: logprob, entropy and lse of an ignored row: other values; the definition has 0\n";
  ASSERT_THAT(out_, HasSubstr(line));
  EXPECT_EQ(out_.find("convention:", out_.find(line) + 1), std::string::npos) << out_;
  EXPECT_EQ(Run("d.safetensors --json"), 0);
  const Json json = LastLine();
  const Json& listed = *json.Find("dumps")->as_array()->at(0).Find("conventions");
  ASSERT_EQ(listed.as_array()->size(), 1U);
  EXPECT_EQ(*listed.as_array()->at(0).Find("convention")->as_string(), "ignored-row");
  EXPECT_EQ(Run("d.safetensors --target host"), 1);
  EXPECT_THAT(out_, AllOf(HasSubstr("wrong: logprob[3] = "), Not(HasSubstr("convention:"))));
  EXPECT_THAT(out_, HasSubstr("row 3 is ignored (label -100), and this contract promises 0 there"));
}

// Fails if the table of a wrong dump does not say, in text and JSON, why the arbiter was not asked.
TEST_F(Check, WhatTheArbiterIsNotAskedIsSaid) {
  SafeTensors dump = FlatDump(4, 37, 8);
  dump.tensors["logprob"].SetFloat(1, -9);
  WriteDump(work_ / "d.safetensors", dump);
  EXPECT_EQ(Run("d.safetensors --arbiter 1ms --json"), 1);
  EXPECT_THAT(out_, HasSubstr("\"arbiter_silent\":\"it would take about 1 s\""));
  EXPECT_EQ(Run("d.safetensors --arbiter 1ms"), 1);
  EXPECT_THAT(out_, HasSubstr("not confirmed by the arbiter, at 1280 bits: logprob (about 1 s; "
                              "--arbiter 1s asks it)\n"));
  dump.tensors["entropy"].SetFloat(1, 9);
  WriteDump(work_ / "d.safetensors", dump);
  EXPECT_EQ(Run("d.safetensors --arbiter 1ms"), 1);
  EXPECT_THAT(out_, HasSubstr("at 1280 bits: logprob, entropy (about 1 s; --arbiter 1s"));
}

// A relative error of 20 u at ln 37 breaks no bound of a black box, and is 14 times what an honest
// kernel errs. Fails if that is clean, or wrong, if report or JSON say less, or if rows that are not
// compared are not named.
TEST_F(Check, WhatNoHonestKernelErrsIsSuspect) {
  SafeTensors dump = FlatDump(12, 37, 8);
  const float log_v = dump.tensors["entropy"].GetFloat(0);
  dump.tensors["entropy"].SetFloat(2, log_v * (1 + 5 * 0x1p-22F));
  WriteDump(work_ / "d.safetensors", dump);
  EXPECT_EQ(Run("d.safetensors"), 6) << out_;
  EXPECT_THAT(out_, AllOf(HasSubstr("SUSPECT: entropy by 14."), HasSubstr("no bound is broken"),
                          HasSubstr("could not have seen: errors below"),
                          HasSubstr("verdict=suspect cases=1 judged=1 findings=1 status=6")));
  EXPECT_EQ(Run("d.safetensors --json"), 6);
  const Json json = LastLine();
  const Json& honest = *json.Find("dumps")->as_array()->at(0).Find("honest_errors");
  EXPECT_EQ(*honest.Find("rows")->as_int(), 12);
  ASSERT_EQ(honest.Find("outputs")->as_array()->size(), 3U);
  EXPECT_EQ(*honest.Find("outputs")->as_array()->at(1).Find("verdict")->as_string(), "suspect");
  EXPECT_EQ(*honest.Find("outputs")->as_array()->at(0).Find("verdict")->as_string(), "clean");
}

// The target's contract decides: a relative error of 10 u at ln 37 is within a black box's bound, and
// beyond host's. Fails if --target or --contract is ignored.
TEST_F(Check, ContractDecides) {
  SafeTensors dump = FlatDump(4, 37, 8);
  const float log_v = dump.tensors["entropy"].GetFloat(0);
  dump.tensors["entropy"].SetFloat(2, log_v * (1 + 2.4F * 0x1p-22F));
  WriteDump(work_ / "d.safetensors", dump);
  EXPECT_EQ(Run("d.safetensors"), 0) << out_;
  EXPECT_EQ(Run("d.safetensors --target host"), 1) << out_;
  std::ofstream(work_ / "box.json") << R"({"name": "box", "version": "1"})";
  EXPECT_EQ(Run("d.safetensors --target host --contract box.json"), 0) << out_;
  std::ofstream(work_ / "bad.json") << R"({"name": 3})";
  EXPECT_EQ(Run("d.safetensors --contract bad.json"), 2);
  EXPECT_THAT(err_, HasSubstr("bad.json"));
}

// Fails if a dump without outputs is called clean without a run, or if the run is not that of --target.
TEST_F(Check, TargetRunsWhereThereIsNoOutput) {
  WriteDump(work_ / "d.safetensors", Inputs(4, 37, 8));
  EXPECT_EQ(Run("d.safetensors"), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("what host makes of its inputs"));
  EXPECT_EQ(Run("d.safetensors --target mutant:tail-unmasked"), 1) << err_;
  EXPECT_THAT(out_, HasSubstr("wrong: lse["));
  // Each of several targets judges, and the gravest outcome decides, wherever it stands.
  EXPECT_EQ(Run("d.safetensors --json --target mutant:tail-unmasked --target host-hopper"), 1) << err_;
  EXPECT_THAT(out_, AllOf(HasSubstr("what mutant:tail-unmasked makes of its inputs"),
                          HasSubstr("what host-hopper makes of its inputs")));
  EXPECT_EQ(Run("d.safetensors --target host --target mutant:tail-unmasked"), 1) << err_;
  // A target that is not there hides no finding.
  EXPECT_EQ(Run("d.safetensors --target mutant:nope --target mutant:tail-unmasked"), 1) << err_;
  EXPECT_EQ(Run("d.safetensors --target mutant:nope --target host"), 4) << err_;
  // With --run the dump's own output, which is wrong, is not judged.
  SafeTensors dump = FlatDump(4, 37, 8);
  dump.tensors["logprob"] = Same(4, 1);
  WriteDump(work_ / "d.safetensors", dump);
  EXPECT_EQ(Run("d.safetensors --run"), 0) << out_;
  EXPECT_THAT(out_, HasSubstr("not looked at: logprob in the dump"));
}

// Fails if loss or grad_weight is judged on a part of the rows, or is skipped silently.
TEST_F(Check, WhatDependsOnEveryRowIsJudgedOnEveryRow) {
  SafeTensors dump = FlatDump(100, 4, 2);
  dump.tensors["grad_logprob"] = Same(100, 1);
  dump.tensors["grad_weight"] = HostTensor::Zeros(kernel::DType::kBf16, {4, 2});  // hidden is 0
  WriteDump(work_ / "d.safetensors", dump);
  EXPECT_EQ(Run("d.safetensors"), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("not looked at: grad_weight: its bound depends on every row"));
  EXPECT_EQ(Run("d.safetensors --rows all"), 0) << err_;
  EXPECT_THAT(out_, Not(HasSubstr("not looked at")));
  dump.tensors["grad_weight"].SetFloat(5, 1);
  WriteDump(work_ / "d.safetensors", dump);
  EXPECT_EQ(Run("d.safetensors --rows 100"), 1) << err_;
  EXPECT_THAT(out_, HasSubstr("wrong: grad_weight[2, 1] = 1 where"));
}

// Fails if grad_weight of all rows is not compared where a sample of them is judged, if what rows that
// are not judged leave out is clean, or if an output that cannot be compared passes for one that was.
TEST_F(Check, GradWeightIsComparedOverAllRows) {
  testing::Drawn drawn({.n = 300}, 5);
  drawn.RunColumns("host", "");
  WriteDump(work_ / "d.safetensors", drawn.Dump());
  EXPECT_EQ(Run("d.safetensors --rows 16"), 0) << out_ << err_;
  EXPECT_THAT(out_, HasSubstr("over all 300 rows, from the dump's own lse"));
  EXPECT_EQ(Run("d.safetensors --rows 16 --json"), 0) << err_;
  EXPECT_EQ(
      *LastLine().Find("dumps")->as_array()->front().Find("grad_weight_over_all_rows")->Find("rows"),
      Json(300));
  std::vector<int64_t> rows(20);
  std::iota(rows.begin(), rows.end(), 100);
  drawn.RunColumns("host", "", true, rows);
  SafeTensors dump = drawn.Dump();
  dump.tensors.erase("grad_hidden");  // which lacks these rows too
  WriteDump(work_ / "d.safetensors", dump);
  EXPECT_EQ(Run("d.safetensors --rows 16"), 6) << out_ << err_;
  EXPECT_THAT(out_, StartsWith("SUSPECT: grad_weight"));
  EXPECT_THAT(out_, HasSubstr("errs over all rows"));
  for (const char* name : {"lse", "logprob"}) dump.tensors.erase(name);
  WriteDump(work_ / "d.safetensors", dump);
  EXPECT_EQ(Run("d.safetensors --rows 16"), 0) << out_ << err_;
  EXPECT_THAT(out_, HasSubstr("grad_weight over all rows: the rows that are not judged have neither"));
}

// Fails if the worst rows of an output that honest kernels' errors alone show are not named as the dump
// counts them, or if a run of it leaves no case that shows the same.
TEST_F(Check, WorstRowsBesideHonestKernelsAreNamedAndStored) {
  const testing::Drawn drawn({.n = 12, .v = 2500, .h = 256}, 6);
  SafeTensors dump = drawn.Dump();
  for (const char* name : {"logprob", "entropy", "lse", "grad_hidden", "grad_weight"}) {
    dump.tensors.erase(name);
  }
  WriteDump(work_ / "d.safetensors", dump);
  const std::string run = "d.safetensors --target mutant:logits-fp16 --contract black-box --out kept";
  EXPECT_EQ(Run(run), 6) << out_;
  EXPECT_THAT(out_, HasSubstr("worst of lse: row "));
  EXPECT_FALSE(std::filesystem::is_empty(work_ / "kept")) << out_ << err_;
}

// The loss is a mean over all rows; logprob is judged beside it. Fails if only one of them is judged.
TEST_F(Check, LossAndLogprobTogether) {
  SafeTensors dump = FlatDump(10, 8, 2);
  dump.tensors["loss"] = Floats({}, {2.07944154F});  // ln 8
  dump.metadata["reduction"] = "mean";
  WriteDump(work_ / "d.safetensors", dump);
  EXPECT_EQ(Run("d.safetensors"), 0) << out_ << err_;
  dump.tensors["loss"] = Floats({}, {20.7944154F});  // the sum
  dump.tensors["logprob"].SetFloat(3, -2);
  WriteDump(work_ / "d.safetensors", dump);
  EXPECT_EQ(Run("d.safetensors"), 1);
  EXPECT_THAT(out_, HasSubstr("wrong: loss = 20.79"));
  EXPECT_THAT(out_, HasSubstr("wrong: logprob[3] = -2 where"));
}

// Under `mean` each row of a gradient is divided by the number of rows of the whole dump, sampled or
// not. Fails if it is the number of the sample: 64 instead of 100. All p are 1/8 and w_v is v, so the
// gradient of a row is -(y - 3.5)/100.
TEST_F(Check, MeanIsOverAllRows) {
  SafeTensors dump = Inputs(100, 8, 1);
  dump.tensors["grad_logprob"] = Floats({}, {1});
  HostTensor& gradient = dump.tensors["grad_hidden"] = HostTensor::Zeros(kernel::DType::kF32, {100, 1});
  for (int64_t i = 0; i < 8; ++i) dump.tensors["weight"].SetFloat(i, static_cast<float>(i));
  for (int64_t i = 0; i < 100; ++i) {
    gradient.SetFloat(i, static_cast<float>(-(static_cast<double>(i % 8) - 3.5) / 100));
  }
  dump.metadata["reduction"] = "mean";
  WriteDump(work_ / "d.safetensors", dump);
  EXPECT_EQ(Run("d.safetensors"), 0) << out_ << err_;
  EXPECT_THAT(out_, HasSubstr("64 of 100 rows"));
}

// A crash is a finding that says what happened, and so is a hang. Fails if either ends plumb.
TEST_F(Check, ACrashIsAFinding) {
  WriteDump(work_ / "d.safetensors", Inputs(4, 37, 8));
  const std::string crash = work_.Misbehaving("CRASH", "-DALWAYS=1");
  EXPECT_EQ(Run("d.safetensors --target " + crash), 1);
  EXPECT_THAT(out_, HasSubstr("killed by signal 6"));
  EXPECT_THAT(out_, HasSubstr("about to?abort"));
  const std::string hang = work_.Misbehaving("HANG", "-DALWAYS=1");
  EXPECT_EQ(Run("d.safetensors --timeout 200ms --json --target " + hang), 1);
  EXPECT_EQ(*LastLine().Find("dumps")->as_array()->at(0).Find("finding")->as_string(), "hang");
  const std::string leaves = work_.Misbehaving("EXIT", "-DALWAYS=1");
  EXPECT_EQ(Run("d.safetensors --target " + leaves), 1);
  EXPECT_THAT(out_, HasSubstr("exited with status 0 in the middle of it"));
}

// Fails if the case of a failing target does not show by itself what the dump showed, or is not small.
// A row, 300 columns of 2 numbers, a label and a gradient must become 3 numbers: hidden, weight, label.
TEST_F(Check, KeepsASmallCase) {
  SafeTensors dump = Inputs(3, 300, 2);
  dump.tensors["grad_entropy"] = Same(3, 1);
  WriteDump(work_ / "d.safetensors", dump);
  EXPECT_EQ(Run("d.safetensors --target mutant:tail-unmasked --out kept"), 1) << err_;
  EXPECT_THAT(out_, HasSubstr("shrunk 604 -> 3 values: kept/mutant-tail-unmasked-bound-"));
  EXPECT_EQ(Run("kept/*.safetensors"), 0) << out_ << err_;
  EXPECT_EQ(Run("kept/*.safetensors --target mutant:tail-unmasked"), 1) << out_ << err_;
  EXPECT_EQ(Run("d.safetensors --out none"), 0);
  EXPECT_FALSE(std::filesystem::exists(work_ / "none"));
}

// A case holds every third of these 1100 columns, so label 21 becomes 7. Fails if the row is then taken
// for an ignored one, and no case is found.
TEST_F(Check, NoLabelOfACaseBecomesIgnored) {
  SafeTensors dump = Inputs(1, 1100, 8192);
  dump.tensors["labels"].SetInt(0, 21);
  dump.metadata["ignore_index"] = "7";
  WriteDump(work_ / "d.safetensors", dump);
  EXPECT_EQ(Run("d.safetensors --target mutant:tail-unmasked --out kept"), 1) << err_;
  EXPECT_THAT(out_, HasSubstr(" -> 3 values: kept/mutant-tail-unmasked-bound-"));
}

// Fails if the oracle's sweep, which may take minutes, does not test the flag that a signal sets, or if
// a part of a verdict is reported as a whole one.
TEST_F(Check, InterruptedWhileJudging) {
  const std::filesystem::path path = WriteDump(work_ / "d.safetensors", FlatDump(40, 37, 8));
  std::string error;
  const std::unique_ptr<Dump> dump = OpenDump(path, &error);
  ASSERT_TRUE(dump) << error;
  const DumpSample sample(*dump, ChooseRows(*dump, 0, 1));
  std::atomic<bool> interrupt{false};
  JudgeDumpOptions options;
  options.interrupt = &interrupt;
  EXPECT_FALSE(JudgeDump(sample, sample.given(), {}, options).interrupted);
  interrupt = true;
  EXPECT_TRUE(JudgeDump(sample, sample.given(), {}, options).interrupted);
  Console console;
  console.interrupt = &interrupt;
  CheckCommand command;
  command.paths = {path};
  EXPECT_EQ(CommandCheck(command, console), ExitStatus::kInterrupted);
}

// Fails if a wrong use, a target that does not load or one wrong dump of several ends in another
// status.
TEST_F(Check, EveryOtherEnd) {
  WriteDump(work_ / "d.safetensors", FlatDump(4, 37, 8));
  EXPECT_EQ(Run("absent.safetensors"), 2);
  EXPECT_THAT(err_, HasSubstr("absent.safetensors"));
  EXPECT_EQ(Run(""), 2);
  EXPECT_EQ(Run("d.safetensors --rows 0"), 2);
  EXPECT_EQ(Run("d.safetensors --rows some"), 2);
  EXPECT_EQ(Run("d.safetensors --target mutant:nope"), 4);
  EXPECT_EQ(Run("d.safetensors --run --target plugin:/nowhere.so"), 4);
  EXPECT_EQ(Run("--help"), 0);
  EXPECT_THAT(out_, HasSubstr("fuzz/check/CHECK.md"));
  // Several dumps are given: each is reported, and the worst of them is the verdict.
  SafeTensors wrong = FlatDump(4, 37, 8);
  wrong.tensors["lse"].SetFloat(0, 7);
  WriteDump(work_ / "w.safetensors", wrong);
  EXPECT_EQ(Run("w.safetensors d.safetensors"), 1);
  EXPECT_THAT(out_, HasSubstr("plumb: verdict=findings cases=2 judged=2 findings=1 status=1"));
}

}  // namespace
}  // namespace plumbline::fuzz
