// SPDX-License-Identifier: Apache-2.0

#include "fuzz/target/target.h"
#include "fuzz/recipe/expand/expand.h"
#include "fuzz/target/catalogue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "fuzz/builtin/cuda.h"
#include "fuzz/builtin/cuda_forward_backward.h"
#include "fuzz/builtin/mutants/mutants.h"
#include "fuzz/examine/examine.h"
#include "fuzz/recipe/regimes.h"
#include "fuzz/target/interface/cuda_device.h"
#include "kernel/host/tensor_core.h"
#include "kernel/host/tiling.h"
#include "tests/fuzz/support/workplace.h"

namespace plumbline::fuzz {
namespace {

using kernel::DType;
using kernel::Tensor;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using testing::Workplace;

std::unique_ptr<Target> Loaded(const std::string& name) {
  std::string error;
  auto target = LoadTarget(name, &error);
  EXPECT_NE(target, nullptr) << error;
  return target;
}

std::string Refusal(const std::string& name) {
  std::string error;
  EXPECT_EQ(LoadTarget(name, &error), nullptr) << name;
  return error;
}

// Compiles tests/fuzz/plugins/table.c with these flags.
std::string Table(const Workplace& place, const std::string& flags,
                  const std::string& compiler = "cc") {
  static int count = 0;
  const std::string library = (place / ("table" + std::to_string(count++) + ".so")).string();
  const std::string command = compiler + " -shared -fPIC -I" PLUMBLINE_SOURCE_DIR " " + flags +
                              " " PLUMBLINE_SOURCE_DIR "/tests/fuzz/plugins/table.c -o " + library;
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
  return "plugin:" + library;
}

// A problem of one row over the vocabulary {0, 0, 0, 0}: every result is known in closed form.
struct Ties {
  std::vector<float> hidden{0}, weight{1, 2, 3, 4}, g{1};
  std::vector<int64_t> labels{2};
  float logprob = NAN, entropy = NAN, lse = NAN, grad_hidden = NAN;
  std::vector<float> grad_weight = std::vector<float>(4, NAN);
  int64_t first_invalid_row = -9;

  kernel::Problem problem() const {
    kernel::Problem p;
    p.hidden = {hidden.data(), DType::kF32, 2, {1, 1}, {1, 1}};
    p.weight = {weight.data(), DType::kF32, 2, {4, 1}, {1, 1}};
    p.labels = {labels.data(), DType::kI64, 1, {1, 1}, {1, 1}};
    p.grad_logprob = {g.data(), DType::kF32, 1, {1, 1}, {1, 1}};
    return p;
  }
  kernel::Results results() {
    kernel::Results r;
    r.logprob = {&logprob, DType::kF32, 1, {1, 1}, {1, 1}};
    r.entropy = {&entropy, DType::kF32, 1, {1, 1}, {1, 1}};
    r.lse = {&lse, DType::kF32, 1, {1, 1}, {1, 1}};
    r.grad_hidden = {&grad_hidden, DType::kF32, 2, {1, 1}, {1, 1}};
    r.grad_weight = {grad_weight.data(), DType::kF32, 2, {4, 1}, {1, 1}};
    r.first_invalid_row = {&first_invalid_row, DType::kI64, 0, {}, {}};
    return r;
  }
  void ExpectRight() const {
    const float ln4 = 1.3862944F;  // nearest fp32 to 1.386294361119890618...
    EXPECT_FLOAT_EQ(logprob, -ln4);
    EXPECT_FLOAT_EQ(entropy, ln4);
    EXPECT_FLOAT_EQ(lse, ln4);
    EXPECT_EQ(grad_hidden, 3 - 2.5F);  // w_y minus the mean of the weights
    EXPECT_EQ(grad_weight, std::vector<float>(4, 0));
    EXPECT_EQ(first_invalid_row, -1);
  }
};

// Fails if a tensor reaches the operator in another's place, or an output is not passed on.
TEST(Target, HostComputes) {
  const auto host = Loaded("host");
  Ties ties;
  const RunOutcome outcome = host->Run(ties.problem(), ties.results());
  EXPECT_EQ(outcome.status, RunStatus::kOk) << outcome.message;
  ties.ExpectRight();
}

// Fails if a refusal loses its message or its kind. Invalid data are no refusal if first_invalid_row
// reports them, since the outputs are there to be judged; without that output the status must report
// them.
TEST(Target, HostRefuses) {
  const auto host = Loaded("host");
  Ties ties;
  ties.labels[0] = 70000;
  RunOutcome outcome = host->Run(ties.problem(), ties.results());
  EXPECT_EQ(outcome.status, RunStatus::kOk);
  EXPECT_TRUE(std::isnan(ties.logprob));
  EXPECT_EQ(ties.first_invalid_row, 0);
  kernel::Results silent = ties.results();
  silent.first_invalid_row.reset();
  outcome = host->Run(ties.problem(), silent);
  EXPECT_EQ(outcome.status, RunStatus::kInvalid);
  EXPECT_THAT(outcome.message, HasSubstr("70000"));

  kernel::Problem broken = ties.problem();
  broken.labels.dtype = DType::kF32;
  outcome = host->Run(broken, ties.results());
  EXPECT_EQ(outcome.status, RunStatus::kInvalid);
  EXPECT_THAT(outcome.message, HasSubstr("labels"));
}

// Fails if the claim and the implementation differ: bounds would then be judged for another summation.
TEST(Target, HostClaimsItsOwnTiling) {
  const oracle::Contract contract = Loaded("host")->description().contract;
  EXPECT_EQ(contract.tile, kernel::host::kTile);
  EXPECT_EQ(contract.splits, kernel::host::kMaxSplits);
  // Lanes: each lane adds tile/lanes elements, then a tree halves the lanes.
  EXPECT_EQ(contract.tile_depth, kernel::host::kTile / kernel::host::kLanes - 1 +
                                     static_cast<int64_t>(std::log2(kernel::host::kLanes)));
}

// Fails if a built-in cannot be loaded by the name it is listed under, two share a name, or a mutant
// claims another contract than that of the target it is a mutant of (a looser one would hide its
// defect).
TEST(Target, EveryBuiltInLoads) {
  std::set<std::string> names;
  for (const BuiltIn& built_in : BuiltInTargets()) {
    EXPECT_TRUE(names.insert(built_in.name).second) << built_in.name;
    EXPECT_FALSE(built_in.what.empty());
    if (built_in.name.starts_with("cuda")) continue;  // below
    const auto target = Loaded(built_in.name);
    ASSERT_NE(target, nullptr);
    EXPECT_EQ(target->name(), built_in.name);
    EXPECT_EQ(target->description().name, built_in.name);
    std::string text(target->description_text());
    const std::string original =
        built_in.name.find("hopper") == std::string::npos ? "host" : "host-hopper";
    text.replace(text.find("\"" + built_in.name + "\""), built_in.name.size() + 2,
                 "\"" + original + "\"");
    EXPECT_EQ(text, Loaded(original)->description_text());
  }
  EXPECT_EQ(names.size(), 6 + Mutants().size() + HopperMutants().size() + CudaMutants().size());
  EXPECT_GE(CudaMutants().size(), 12U);
}

// Fails if a target on a device that is missing here loads, or does not say what is missing; or if one
// of the targets on a device claims another arithmetic than the rest, so that they could not be judged
// together.
TEST(Target, DeviceTargetsNeedTheirDevice) {
  std::string missing;
  const bool here = CudaDevice(&missing) != nullptr;
  std::string contract;
  std::vector<const plumbline_target_v1*> tables = {CudaTarget(), CudaPortableTarget(),
                                                    CudaForwardBackwardTarget()};
  for (const BuiltIn& mutant : CudaMutants()) tables.push_back(mutant.table);
  for (const plumbline_target_v1* table : tables) {
    std::string error;
    const auto description = ParseDescription(table->describe(), &error);
    ASSERT_TRUE(description) << error;
    EXPECT_EQ(description->device, "cuda");
    std::string text = table->describe();
    const std::string named = "\"name\":\"" + description->name + "\"";
    ASSERT_NE(text.find(named), std::string::npos) << text;
    text.erase(text.find(named), named.size());
    if (contract.empty()) contract = text;
    EXPECT_EQ(text, contract);
    if (here) {
      EXPECT_NE(Loaded(description->name), nullptr);
    } else {
      EXPECT_EQ(Refusal(description->name), description->name + ": " + missing);
    }
  }
}

// Fails if one device's tensor cores are held to the sums of another's, or if a path without them is
// held to theirs.
TEST(Target, CudaClaimsTheSumsOfItsDevice) {
  using kernel::CudaPath, oracle::Accumulate;
  const auto claimed = [](CudaPath path, int capability) {
    std::string error;
    const auto description = ParseDescription(CudaDescription("x", path, capability), &error);
    EXPECT_TRUE(description) << error;
    return description ? description->contract : oracle::Contract();
  };
  for (const CudaPath path : {CudaPath::kBest, CudaPath::kPortable}) {
    EXPECT_EQ(claimed(path, 75).accumulate, Accumulate::kFp32);
    for (const int ampere : {80, 86, 87, 89}) {
      const oracle::Contract contract = claimed(path, ampere);
      EXPECT_EQ(contract.accumulate, Accumulate::kTensorCore) << ampere;
      EXPECT_EQ(contract.block, 8) << ampere;
      EXPECT_EQ(contract.extra_bits, 1) << ampere;
    }
    const oracle::Contract hopper = claimed(path, 90);
    EXPECT_EQ(hopper.accumulate, Accumulate::kTensorCore);
    EXPECT_EQ(hopper.block, kernel::host::kTensorCoreBlock);
    EXPECT_EQ(hopper.extra_bits, 2);
    for (const int later : {100, 103, 120}) {
      EXPECT_EQ(claimed(path, later).accumulate, Accumulate::kUnknown) << later;
    }
  }
  for (const int capability : {75, 80, 90, 100}) {
    EXPECT_EQ(claimed(CudaPath::kSimt, capability).accumulate, Accumulate::kFp32) << capability;
  }
}

// Fails if targets are judged by a contract that is not theirs, or if a name is passed over silently.
TEST(Target, TogetherIfTheyClaimTheSame) {
  std::string error;
  EXPECT_EQ(LoadTogether("host", &error).size(), 1U);
  const auto two = LoadTogether("host+mutant:tail-unmasked", &error);
  ASSERT_EQ(two.size(), 2U) << error;
  EXPECT_EQ(two[1]->name(), "mutant:tail-unmasked");
  EXPECT_TRUE(LoadTogether("host+host-hopper", &error).empty());
  EXPECT_THAT(error, HasSubstr("host-hopper and host do not claim the same"));
  for (const char* names : {"host+", "+host", "", "host++host"}) {
    EXPECT_TRUE(LoadTogether(names, &error).empty()) << names;
    EXPECT_THAT(error, HasSubstr("there is no target ''")) << names;
  }
}

// Fails if the error does not help: it must repeat the name, name one that is near, and say what kinds
// there are, without a page of mutants.
TEST(Target, UnknownNames) {
  for (const char* name : {"", "hots", "mutant:", "mutant:nothing", "mutant:host", "HOST"}) {
    EXPECT_THAT(Refusal(name),
                AllOf(HasSubstr("there is no target '" + std::string(name) + "'"), HasSubstr("host, "),
                      HasSubstr("mutant:NAME"), HasSubstr("plugin:PATH.so")));
    EXPECT_LT(Refusal(name).size(), 300U);
  }
  EXPECT_THAT(Refusal("hots"), HasSubstr("Did you mean host?"));
  EXPECT_THAT(Refusal("HOST"), HasSubstr("Did you mean host?"));
  EXPECT_THAT(Refusal("mutant:tail-unmaskd"), HasSubstr("Did you mean mutant:tail-unmasked?"));
}

// Fails if a name is refused that may load, or one passed that cannot, before anything is loaded.
TEST(Target, WhyThereIsNone) {
  for (const char* name : {"host", "host@fp32", "host+mutant:tail-unmasked", "plugin:/nowhere.so"}) {
    EXPECT_EQ(WhyNoTarget(name), "") << name;
  }
  for (const char* name : {"hots", "host+", "host@nothing", "/nowhere.so"}) {
    EXPECT_THAT(WhyNoTarget(name), HasSubstr("there is no target '" + std::string(name) + "'"));
  }
}

// Fails if a library's fault is not reported in words that lead to it.
TEST(Target, RefusesWhatIsNoPlugin) {
  const Workplace place;
  EXPECT_THAT(Refusal("plugin:" + (place / "none.so").string()),
              AllOf(HasSubstr("none.so"), HasSubstr("No such file")));
  std::ofstream(place / "text.so") << "not a library\n";
  EXPECT_THAT(Refusal("plugin:" + (place / "text.so").string()), HasSubstr("text.so"));
  EXPECT_THAT(Refusal(Table(place, "-DNO_SYMBOL")), EndsWith("exports no plumbline_target()"));
  // A symbol that is not resolved at loading would crash in the middle of a campaign.
  EXPECT_THAT(Refusal(Table(place,
                            "-DSTATUS='missing_function()' -Dmissing_function=absent_function "
                            "-Wno-implicit-function-declaration")),
              HasSubstr("absent_function"));
}

// Each fails if the table's fault named is not checked for before the table is used.
TEST(Target, RefusesBrokenTables) {
  const Workplace place;
  EXPECT_THAT(Refusal(Table(place, "-DABI=2")), HasSubstr("abi_version is 2"));
  EXPECT_THAT(Refusal(Table(place, "-DABI=0")), HasSubstr("abi_version is 0"));
  EXPECT_THAT(Refusal(Table(place, "-DSIZE=24")), HasSubstr("struct_size is 24"));
  EXPECT_THAT(Refusal(Table(place, "-DRUN=NULL")), HasSubstr("run is null"));
  EXPECT_THAT(Refusal(Table(place, "-DDESCRIBE=NULL")), HasSubstr("describe is null"));
  EXPECT_THAT(Refusal(Table(place, "-DTABLE=NULL")), HasSubstr("plumbline_target() returned null"));
  EXPECT_THAT(Refusal(Table(place, "-DSIZES=Sizes")), HasSubstr("all three or none"));
  EXPECT_THAT(Refusal(Table(place, "-DTEXT=NULL")), HasSubstr("describe() returned null"));
  EXPECT_THAT(Refusal(Table(place, R"(-DTEXT='"{}"')")), HasSubstr("description.name"));
  std::string error;
  const std::string on_device = Table(place, R"(-DTEXT='"{\"name\":\"x\",\"device\":\"cuda\"}"')");
  const auto none = [](std::string* why) -> Device* { return *why = "all sold", nullptr; };
  EXPECT_EQ(LoadTarget(on_device, &error, none), nullptr);
  EXPECT_EQ(error, on_device + ": all sold");
  // A table of a later version is longer, and loads.
  EXPECT_NE(Loaded(Table(place, "-DSIZE=sizeof\\(plumbline_target_v1\\)+8")), nullptr);
}

// Fails if a status is taken for another, if an unknown one passes as success, or if messages are lost.
TEST(Target, StatusesOfPlugins) {
  const Workplace place;
  const auto run = [&](const std::string& flags, const std::string& compiler = "cc") {
    const auto target = Loaded(Table(place, flags, compiler));
    Ties ties;
    return target->Run(ties.problem(), ties.results());
  };
  EXPECT_EQ(run("").status, RunStatus::kOk);
  EXPECT_EQ(run("-DSTATUS=1").status, RunStatus::kUnsupported);
  EXPECT_EQ(run("-DSTATUS=2").status, RunStatus::kInvalid);
  EXPECT_EQ(run("-DSTATUS=3").status, RunStatus::kFailed);
  for (const char* status : {"4", "-1", "17"}) {
    const RunOutcome outcome = run("-DSTATUS=" + std::string(status));
    EXPECT_EQ(outcome.status, RunStatus::kFailed);
    EXPECT_THAT(outcome.message, HasSubstr("returned " + std::string(status)));
  }
  // Text that fills the buffer to its last byte must be cut, not read past.
  const RunOutcome shouting = run("-DSTATUS=3 -DSAYS=\"'x'\"");
  EXPECT_EQ(shouting.message.find_first_not_of('x'), std::string::npos);
  EXPECT_GT(shouting.message.size(), 100u);
  EXPECT_LT(shouting.message.size(), 5000u);
  // An exception that comes through the C interface is the plug-in's failure, not the end of the
  // process.
  const RunOutcome thrown = run("'-DSTATUS=(throw 1),0'", "c++ -x c++");
  EXPECT_EQ(thrown.status, RunStatus::kFailed);
  EXPECT_THAT(thrown.message, HasSubstr("threw"));
}

// Builds the example as its own first lines say. Fails if the command, the example or the header no
// longer fit together.
std::string Example(const Workplace& place) {
  std::ifstream file(PLUMBLINE_SOURCE_DIR "/fuzz/examples/plugin.c");
  std::string line;
  while (std::getline(file, line) && !line.starts_with(" *   cc ")) {
  }
  const size_t output = line.find("plugin.so");
  EXPECT_NE(output, std::string::npos) << "no command in fuzz/examples/plugin.c";
  if (output == std::string::npos) return "";
  const std::string library = (place / "plugin.so").string();
  line.replace(output, 9, library);
  const std::string program = PLUMB_PROGRAM;
  const std::string command =
      "cd " PLUMBLINE_SOURCE_DIR " && PATH=" + program.substr(0, program.rfind('/')) + ":$PATH && " +
      line.substr(5);
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
  return "plugin:" + library;
}

TEST(ExamplePlugin, Computes) {
  const Workplace place;
  const auto target = Loaded(Example(place));
  ASSERT_NE(target, nullptr);
  Ties ties;
  EXPECT_EQ(target->Run(ties.problem(), ties.results()).status, RunStatus::kOk);
  ties.ExpectRight();
}

// Judges the example by its declaration, over all that it declares. Fails if its arithmetic is not that
// of its contract, or if it declares other limits than it needs.
TEST(ExamplePlugin, KeepsItsContract) {
  const Workplace place;
  const auto target = Loaded(Example(place));
  ASSERT_NE(target, nullptr);
  int judged = 0;
  for (uint64_t i = 0; i < 80; ++i) {
    Recipe recipe = DrawRecipe(7, i);
    recipe.dtype = DType::kF32;
    recipe.label_dtype = DType::kI64;
    recipe.hidden_major = false;
    recipe.temperature = 1;
    recipe.temperature_per_row = false;
    recipe.reduction = kernel::Reduction::kNone;
    recipe.pad = 0;
    recipe.grad_stride = 1;
    const CaseResult result = Examine(Expand(recipe), *target, {.seed = i});
    EXPECT_EQ(result.harness_fault, "");
    for (const Finding& finding : result.findings)
      ADD_FAILURE() << finding.what << "\n" << Format(recipe);
    judged += result.verdict == oracle::Verdict::kPass;
  }
  EXPECT_GE(judged, 40) << "the rest may have ignored rows, which it does not do";
}

// Fails if the example outgrows what the header calls it: 60 lines.
TEST(ExamplePlugin, IsShort) {
  std::ifstream file(PLUMBLINE_SOURCE_DIR "/fuzz/examples/plugin.c");
  int lines = 0;
  for (std::string line; std::getline(file, line);) ++lines;
  EXPECT_GT(lines, 0);
  EXPECT_LE(lines, 60);
}

}  // namespace
}  // namespace plumbline::fuzz
