// SPDX-License-Identifier: Apache-2.0

#include "fuzz/cases/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <string>

#include "fuzz/cases/name.h"
#include "fuzz/problem/safetensors.h"
#include "tests/fuzz/support/workplace.h"

namespace plumbline::fuzz {
namespace {

using kernel::DType;
using kernel::Reduction;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using testing::Workplace;

// Everything present and nothing at its default: a field that is not stored comes back different.
Case Example() {
  Case c;
  OwnedProblem& p = c.problem;
  p.hidden = HostTensor::Zeros(DType::kBf16, {2, 3});
  p.weight = HostTensor::Zeros(DType::kBf16, {4, 3});
  p.labels = HostTensor::Zeros(DType::kI32, {2});
  for (int64_t i = 0; i < 6; ++i) p.hidden.SetFloat(i, static_cast<float>(i) - 2.5F);
  for (int64_t i = 0; i < 12; ++i) p.weight.SetFloat(i, static_cast<float>(i) * 0.25F);
  p.labels.SetInt(0, 3);
  p.labels.SetInt(1, 7);
  p.temperature = HostTensor::Zeros(DType::kF32, {2});
  p.temperature->SetFloat(0, 0.5F);
  p.temperature->SetFloat(1, 2);
  p.grad_logprob = HostTensor::Zeros(DType::kF32, {});
  p.grad_logprob->SetFloat(0, -1.5F);
  p.grad_entropy = HostTensor::Zeros(DType::kF32, {2});
  p.grad_entropy->SetBits(1, 0x7fc01234);  // a NaN with a payload
  p.ignore_index = 7;
  p.reduction = Reduction::kMean;
  p.layout = {.weight_hidden_major = true,
              .hidden_padding = 1,
              .weight_padding = 2,
              .label_offset = 3,
              .grad_stride = 4};
  p.wanted = {
      .entropy = false, .lse = false, .grad_hidden = false, .grad_weight = true, .fp32_grads = true};
  c.state = CaseState::kRegression;
  c.bucket = {"non-finite:grad_weight V>2", "0123abcd"};
  c.target = "mutant:tail-unmasked";
  c.drawn_by = "a ragged tail";
  c.recipe = "v1 regime=ragged-tail";
  c.finding.kind = FindingKind::kNonFinite;
  c.finding.output = "grad_weight";
  c.finding.row = 3;
  c.finding.column = 2;
  c.finding.got = std::numeric_limits<double>::quiet_NaN();
  c.finding.expected = 0.1;
  c.finding.bound = 5e-324;
  c.finding.tightness = std::numeric_limits<double>::infinity();
  c.finding.arbiter = "0.1000000000000000000000000000000000000000";
  c.finding.what = "said \"so\"\n";
  c.extra["shrink"]["tried"] = Json(12);
  c.extra["z"] = Json(0.1);
  return c;
}

Case Parsed(const std::vector<std::byte>& bytes) {
  std::string error;
  const auto c = ParseCase(bytes, &error);
  EXPECT_TRUE(c.has_value()) << error;
  return c.value_or(Case());
}

// Fails if any field is not stored, is stored rounded, or is read into another: Example has no default
// in it. Comparing bytes covers the fields that operator== leaves out, extra among them.
TEST(CaseFile, RoundTrip) {
  const Case c = Example();
  const std::vector<std::byte> bytes = SerializeCase(c);
  const Case back = Parsed(bytes);
  EXPECT_EQ(back, c);
  EXPECT_EQ(back.problem, c.problem);
  EXPECT_EQ(back.extra, c.extra);
  EXPECT_EQ(SerializeCase(back), bytes);
  EXPECT_EQ(back.problem.layout.label_offset, 3);
  EXPECT_EQ(back.problem.grad_entropy->GetBits(1), 0x7fc01234u);
  EXPECT_TRUE(std::isnan(back.finding.got));
}

// Fails if an absent tensor comes back as an empty one, or absent `extra` as an object.
TEST(CaseFile, AbsentStaysAbsent) {
  Case c = Example();
  c.problem.temperature.reset();
  c.problem.grad_logprob.reset();
  c.problem.grad_entropy.reset();
  c.extra = Json();
  const Case back = Parsed(SerializeCase(c));
  EXPECT_FALSE(back.problem.temperature || back.problem.grad_logprob || back.problem.grad_entropy);
  EXPECT_TRUE(back.extra.is_null());
  EXPECT_EQ(back, c);
}

// Fails if two cases that differ in one field are called equal. (operator== leaves out extra by
// design.)
TEST(CaseFile, EqualitySeesEveryField) {
  const std::function<void(Case&)> changes[] = {[](Case& c) { c.problem.ignore_index = 8; },
                                                [](Case& c) { c.state = CaseState::kFixed; },
                                                [](Case& c) { c.bucket.key = "x"; },
                                                [](Case& c) { c.bucket.id = "01234567"; },
                                                [](Case& c) { c.target = "host"; },
                                                [](Case& c) { c.drawn_by = ""; },
                                                [](Case& c) { c.recipe = ""; },
                                                [](Case& c) { c.finding.kind = FindingKind::kBound; },
                                                [](Case& c) { c.finding.output = "lse"; },
                                                [](Case& c) { c.finding.row = 0; },
                                                [](Case& c) { c.finding.column = 0; },
                                                [](Case& c) { c.finding.got = 1; },
                                                [](Case& c) { c.finding.expected = 0.2; },
                                                [](Case& c) { c.finding.bound = 0; },
                                                [](Case& c) { c.finding.tightness = 1; },
                                                [](Case& c) { c.finding.arbiter = ""; },
                                                [](Case& c) { c.finding.what = ""; }};
  for (const auto& change : changes) {
    Case changed = Example();
    change(changed);
    EXPECT_FALSE(changed == Example()) << &change - changes;
    EXPECT_EQ(Parsed(SerializeCase(changed)), changed) << &change - changes;
  }
  Case other_extra = Example();
  other_extra.extra = Json();
  EXPECT_EQ(other_extra, Example());
}

// A case file whose JSON or tensors were changed by hand, and what the refusal must name.
std::string RefusalOf(const std::function<void(SafeTensors&, Json&)>& change) {
  std::string error;
  SafeTensors content = *ReadSafeTensors(SerializeCase(Example()), &error);
  Json json = *Json::Parse(content.metadata.at("case"), &error);
  change(content, json);
  if (content.metadata.contains("case") && !json.is_null()) content.metadata["case"] = json.Dump();
  error.clear();
  EXPECT_FALSE(ParseCase(WriteSafeTensors(content), &error).has_value());
  return error;
}

// Each fails if the fault named is let through; files may come from anybody.
TEST(CaseFile, Refusals) {
  struct Row {
    const char* names;
    std::function<void(SafeTensors&, Json&)> change;
  };
  using S = SafeTensors&;
  const Row rows[] = {
      {"no key \"case\"", [](S s, Json&) { s.metadata.clear(); }},
      {"metadata \"case\": ", [](S s, Json& j) { s.metadata["case"] = "{", j = Json(); }},
      {"case is [], not an object", [](S, Json& j) { j = Json::Array(); }},
      {"case.format is \"other\"", [](S, Json& j) { j["format"] = "other"; }},
      {"case.version is 2", [](S, Json& j) { j["version"] = 2; }},
      {"case.state is \"done\"", [](S, Json& j) { j["state"] = "done"; }},
      {"case.bucket.id is \"../../x\"", [](S, Json& j) { j["bucket"]["id"] = "../../x"; }},
      {"case.bucket is 7", [](S, Json& j) { j["bucket"] = 7; }},
      {"case.target is 3, not a string", [](S, Json& j) { j["target"] = 3; }},
      {"case.note is an unknown key", [](S, Json& j) { j["note"] = "x"; }},
      {"case.extra is [], not an object", [](S, Json& j) { j["extra"] = Json::Array(); }},
      {"case.finding.kind is missing", [](S, Json& j) { j["finding"] = Json::Object(); }},
      {"problem is null", [](S, Json& j) { j["problem"] = Json(); }},
      {"problem.reduction is \"max\"", [](S, Json& j) { j["problem"]["reduction"] = "max"; }},
      {"problem.ignore_index is 1.5", [](S, Json& j) { j["problem"]["ignore_index"] = 1.5; }},
      {"problem.layout is null", [](S, Json& j) { j["problem"]["layout"] = Json(); }},
      {"problem.layout.hidden_padding is -1",
       [](S, Json& j) { j["problem"]["layout"]["hidden_padding"] = -1; }},
      {"problem.layout.grad_stride is 4611686018427387904",
       [](S, Json& j) { j["problem"]["layout"]["grad_stride"] = int64_t{1} << 62; }},
      {"problem.layout.order is an unknown key",
       [](S, Json& j) { j["problem"]["layout"]["order"] = 1; }},
      {"problem.wanted.lse is 1, not a boolean", [](S, Json& j) { j["problem"]["wanted"]["lse"] = 1; }},
      {"\"hidden\" is missing", [](S s, Json&) { s.tensors.erase("hidden"); }},
      {"\"labels\" is missing", [](S s, Json&) { s.tensors.erase("labels"); }},
      {"unknown tensor \"bias\"",
       [](S s, Json&) { s.tensors["bias"] = HostTensor::Zeros(DType::kF32, {4}); }},
      // Problems that fuzz/problem/owned_problem.h calls inconsistent.
      {"weight", [](S s, Json&) { s.tensors["weight"] = HostTensor::Zeros(DType::kBf16, {4, 2}); }},
      {"hidden", [](S s, Json&) { s.tensors["hidden"] = HostTensor::Zeros(DType::kBf16, {2}); }},
      {"labels", [](S s, Json&) { s.tensors["labels"] = HostTensor::Zeros(DType::kF32, {2}); }},
      {"grad_logprob", [](S, Json& j) { j["problem"]["reduction"] = "none"; }},
  };
  for (const Row& row : rows) EXPECT_THAT(RefusalOf(row.change), HasSubstr(row.names));
}

// A tensor without elements takes no bytes in a file, whatever its extents. Fails if such a case is
// accepted: it would be judged for ever.
TEST(CaseFile, RefusesHugeEmptyTensors) {
  const auto extents = [](int64_t v, int64_t h) {
    return RefusalOf([&](SafeTensors& s, Json&) {
      s.tensors["hidden"] = HostTensor{DType::kBf16, {0, h}, {}};
      s.tensors["weight"] = HostTensor{DType::kBf16, {v, h}, {}};
      s.tensors["labels"] = HostTensor{DType::kI32, {0}, {}};
      s.tensors["temperature"] = HostTensor{DType::kF32, {0}, {}};
      s.tensors["grad_entropy"] = HostTensor{DType::kF32, {0}, {}};
    });
  };
  EXPECT_THAT(extents(int64_t{1} << 40, 0), HasSubstr("above"));
  EXPECT_THAT(extents(0, int64_t{1} << 40), HasSubstr("above"));
  EXPECT_THAT(extents((int64_t{1} << 28) + 1, 0), HasSubstr("above"));
}

// Fails if the document and a truncated file are told apart by luck.
TEST(CaseFile, RefusesEveryTruncation) {
  const std::vector<std::byte> bytes = SerializeCase(Example());
  for (size_t size = 0; size < bytes.size(); size += 7) {
    std::string error;
    EXPECT_FALSE(ParseCase(std::span(bytes).first(size), &error).has_value()) << size;
    EXPECT_NE(error, "");
  }
}

// Fails if a written file differs from the serialised bytes, or a temporary name is left behind.
TEST(CaseFile, WritesAndReads) {
  const Workplace place;
  const auto path = place / "a.safetensors";
  std::string error;
  ASSERT_TRUE(WriteCase(path, Example(), &error)) << error;
  ASSERT_TRUE(WriteCase(path, Example(), &error)) << "over an existing file: " << error;
  int files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(place.path())) ++files;
  EXPECT_EQ(files, 1);
  EXPECT_EQ(std::filesystem::file_size(path), SerializeCase(Example()).size());
  const auto back = ReadCase(path, &error);
  ASSERT_TRUE(back.has_value()) << error;
  EXPECT_EQ(*back, Example());
}

// Fails if an error does not name the path and the reason, or a failed write leaves something.
TEST(CaseFile, FileErrors) {
  const Workplace place;
  std::string error;
  EXPECT_FALSE(WriteCase(place / "none/a.safetensors", Example(), &error));
  EXPECT_THAT(error, AllOf(HasSubstr("none/a.safetensors"), HasSubstr("No such file")));
  std::filesystem::create_directory(place / "folder");
  EXPECT_FALSE(WriteCase(place / "folder", Example(), &error)) << "a folder is in the way";
  EXPECT_FALSE(ReadCase(place / "missing", &error).has_value());
  EXPECT_THAT(error, AllOf(HasSubstr("missing"), HasSubstr("No such file")));
  EXPECT_FALSE(ReadCase(place / "folder", &error).has_value());
  EXPECT_THAT(error, HasSubstr("not a regular file"));
  std::ofstream(place / "short") << "abc";
  EXPECT_FALSE(ReadCase(place / "short", &error).has_value());
  EXPECT_THAT(error, AllOf(HasSubstr("short"), HasSubstr("3 bytes")));
  int files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(place.path())) ++files;
  EXPECT_EQ(files, 2) << "the folder and the short file";
}

// Fails if a name holds a character that a shell or a file system minds, hides its target or its
// reason, or depends on anything but target, signature and problem.
TEST(CaseFile, Names) {
  Case c = Example();
  const std::string name = CaseFileName(c);
  EXPECT_THAT(name, MatchesRegex("mutant-tail-unmasked-non-finite-grad_weight-0123abcd-[0-9a-f]{8}\\."
                                 "safetensors"));
  const auto hash = [](const Case& of) {
    const std::string text = CaseFileName(of);
    return text.substr(text.size() - 20, 8);
  };
  Case again = c;
  again.extra = Json();
  again.drawn_by = "another day";
  again.finding.what = "other words";
  EXPECT_EQ(CaseFileName(again), name);
  Case moved = c;
  moved.problem.hidden.SetFloat(0, 1);
  EXPECT_NE(hash(moved), hash(c));
  moved = c;
  moved.problem.layout.label_offset = 0;
  EXPECT_NE(hash(moved), hash(c));

  c.target = "plugin:/tmp/a b/My_Kernel.v2.so";
  EXPECT_THAT(CaseFileName(c), MatchesRegex("plugin-my_kernel\\.v2-non-finite-.*"));
  const std::string plain = CaseFileName(c);
  c.target += "@fp32";
  EXPECT_THAT(CaseFileName(c), MatchesRegex("plugin-my_kernel\\.v2-fp32-non-finite-.*"));
  EXPECT_NE(hash(c), plain.substr(plain.size() - 20, 8));
  c.target = "plugin:/tmp/My_Kernel.so@/tmp/a/mine.json";
  const std::string one = CaseFileName(c);
  EXPECT_THAT(one, MatchesRegex("plugin-my_kernel-mine-non-finite-.*"));
  c.target = "plugin:/tmp/My_Kernel.so@/tmp/b/mine.json";
  EXPECT_NE(CaseFileName(c), one);
  c.target = "plugin:../x/" + std::string(200, 'k') + ".so";
  EXPECT_LT(CaseFileName(c).size(), 200u);
  c.target = "../../etc/passwd";
  EXPECT_THAT(CaseFileName(c), MatchesRegex("[a-z0-9_.-]+"));
  EXPECT_THAT(CaseFileName(c), Not(HasSubstr("/")));
}

// Fails if something that a person needs to see the bug is not shown, or is shown rounded.
TEST(CaseFile, ShowsWhatMatters) {
  Case c = Example();
  c.finding.got = 0.30000000000000004;
  const std::string text = Show(c);
  for (const char* part : {"state: regression",
                           "bucket: 0123abcd non-finite:grad_weight V>2",
                           "mutant:tail-unmasked",
                           "a ragged tail",
                           "v1 regime=ragged-tail",
                           "non-finite:grad_weight",
                           "grad_weight[3, 2]",
                           "0.30000000000000004",
                           "0x1.3333333333334p-2",
                           "N=2 V=4 H=3",
                           "reduction mean",
                           "ignore_index 7",
                           "hidden-major",
                           "hidden padding 1",
                           "weight padding 2",
                           "label offset 3",
                           "gradient stride 4",
                           "gradients in fp32",
                           "hidden bf16 [2, 3]",
                           "-2.5 (-0x1.4p+1)",
                           "2.75 (0x1.6p+1)",
                           "labels int32 [2]",
                           "[1] 7",
                           "temperature fp32 [2]",
                           "grad_logprob fp32 []",
                           "-1.5 (-0x1.8p+0)",
                           "0x7fc01234",
                           "tried 12",
                           "0.1000000000000000000000000000000000000000"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_THAT(text, Not(HasSubstr("more")));
}

// Fails if a large tensor floods the screen, or the place of the finding is what is left out.
TEST(CaseFile, AbridgesLargeTensors) {
  Case c = Example();
  c.problem.weight = HostTensor::Zeros(DType::kBf16, {5000, 300});
  c.problem.hidden = HostTensor::Zeros(DType::kBf16, {2, 300});
  c.problem.weight.SetFloat(4321 * 300 + 123, 42);
  c.finding.row = 4321;
  c.finding.column = 123;
  const std::string text = Show(c);
  EXPECT_LT(text.size(), 8000u);
  EXPECT_THAT(text, HasSubstr("[4321] "));
  EXPECT_THAT(text, HasSubstr("42 (0x1.5p+5)"));
  EXPECT_THAT(text, HasSubstr("4315 more"));
  EXPECT_THAT(text, HasSubstr("[4999] "));
}

// Fails if a part of the layout is not written, or if a part with its default is written, which would
// change the bytes of every older case.
TEST(CaseFile, KeepsUnusualLayouts) {
  Case c = Example();
  c.problem.layout.label_stride = 3;
  c.problem.layout.offset = 2;
  c.problem.layout.reversed = true;
  c.problem.layout.temperature_stride = 4;
  c.problem.layout.output_stride = 5;
  c.problem.layout.gradient_step = 2;
  c.problem.layout.single_stride = 9;
  EXPECT_EQ(Parsed(SerializeCase(c)), c);
  c.problem.layout = {};
  c.problem.layout.hidden_broadcast = true;
  c.problem.layout.weight_padding = int64_t{1} << 31;
  EXPECT_EQ(Parsed(SerializeCase(c)), c);
  c.problem.layout = {};
  const std::vector<std::byte> bytes = SerializeCase(c);
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  for (const char* key : {"label_stride", "\"offset\"", "reversed", "hidden_broadcast",
                          "temperature_stride", "output_stride", "gradient_step", "single_stride"}) {
    EXPECT_THAT(text, Not(HasSubstr(key)));
  }
}

}  // namespace
}  // namespace plumbline::fuzz
