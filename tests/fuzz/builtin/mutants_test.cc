// SPDX-License-Identifier: Apache-2.0

#include "fuzz/builtin/mutants/mutants.h"
#include "fuzz/builtin/mutants/table.h"
#include "fuzz/recipe/expand/expand.h"
#include "fuzz/target/catalogue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/builtin/host.h"
#include "fuzz/examine/examine.h"
#include "fuzz/examine/placement.h"
#include "fuzz/recipe/recipe.h"
#include "fuzz/target/target.h"

namespace plumbline::fuzz {
namespace {

using ::testing::Contains;

Recipe Parsed(const std::string& line) {
  Recipe recipe;
  std::string error;
  EXPECT_TRUE(Parse(line, &recipe, &error)) << line << ": " << error;
  return recipe;
}

// Returns the line with one key changed, wherever the key stands.
std::string WithKey(std::string line, const std::string& change) {
  const size_t begin = line.find(" " + change.substr(0, change.find('=') + 1));
  if (begin != std::string::npos) line.erase(begin, line.find(' ', begin + 1) - begin);
  return line + " " + change;
}

std::unique_ptr<Target> Load(const std::string& name) {
  std::string error;
  auto target = LoadTarget(name, &error);
  EXPECT_NE(target, nullptr) << error;
  return target;
}

void AppendBits(const std::optional<kernel::Tensor>& output, std::vector<uint64_t>* bits) {
  if (!output) return;
  const size_t width = kernel::SizeOf(output->dtype);
  const int64_t rows = output->rank > 0 ? output->shape[0] : 1;
  const int64_t columns = output->rank > 1 ? output->shape[1] : 1;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      const int64_t at =
          (rows > 1 ? i * output->stride[0] : 0) + (columns > 1 ? j * output->stride[1] : 0);
      uint64_t element = 0;
      std::memcpy(&element, static_cast<const char*>(output->data) + at * static_cast<int64_t>(width),
                  width);
      bits->push_back(element);
    }
  }
}

// The names under which a mutant of the host is a target: those of stretches are on host-hopper alone.
std::vector<std::string> TargetsOf(const MutantRow& mutant) {
  const std::string name(mutant.name);
  if (mutant.stretches) return {"hopper-mutant:" + name};
  return {"mutant:" + name, "hopper-mutant:" + name};
}

// The bits of every output element of a run of the target.
std::vector<uint64_t> BitsOf(const Target& target, const Recipe& recipe) {
  const OwnedProblem problem = Expand(recipe);
  Placement placement(problem);
  placement.Poison(0);
  const RunOutcome outcome = target.Run(placement.problem(), placement.results());
  EXPECT_EQ(outcome.status, RunStatus::kOk) << target.name() << ": " << outcome.message;
  EXPECT_TRUE(placement.Inspect().empty()) << target.name();
  const kernel::Results& r = placement.results();
  std::vector<uint64_t> bits;
  for (const auto* output : {&r.logprob, &r.loss, &r.entropy, &r.lse, &r.grad_hidden, &r.grad_weight,
                             &r.first_invalid_row}) {
    AppendBits(*output, &bits);
  }
  return bits;
}

// Fails if a mutant of the host is added without an exhibit that shows it.
TEST(Mutants, EachHasAnExhibit) {
  for (const MutantRow& mutant : kHopperMutants) {
    EXPECT_FALSE(mutant.recipe.empty() || mutant.signature.empty() || mutant.twin.empty())
        << mutant.name;
  }
}

// Fails if a name stands for two mutants of a device, so that one of them is never run.
TEST(Mutants, NoTwoHaveAName) {
  for (size_t i = 0; i < kMutants.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const bool one_device = (i < kHopperMutants.size()) == (j < kHopperMutants.size());
      EXPECT_FALSE(one_device && kMutants[i].name == kMutants[j].name) << kMutants[i].name;
    }
  }
}

// Fails if a list holds other mutants than the table, or in another order.
TEST(Mutants, ListsAreThoseOfTheTable) {
  const auto names = [](const auto& mutants, const std::string& prefix = "") {
    std::vector<std::string> all;
    for (const auto& mutant : mutants) all.push_back(prefix + std::string(mutant.name));
    return all;
  };
  const auto on_cuda = std::span(kMutants).subspan(kHopperMutants.size());
  EXPECT_EQ(names(Mutants()), names(kHostMutants, "mutant:"));
  EXPECT_EQ(names(HopperMutants()), names(kHopperMutants, "hopper-mutant:"));
  EXPECT_LT(kHostMutants.size(), kHopperMutants.size());  // a sum in stretches has mutants of its own
  EXPECT_EQ(names(CudaMutants()), names(on_cuda, "cuda-mutant:"));
}

// Fails if a defect is missing, or a check of the harness no longer sees what it is there for: each
// mutant fails on one case, with a finding that its row names.
TEST(Mutants, EachDiesOfOneCase) {
  for (const MutantRow& mutant : kHopperMutants) {
    const Recipe recipe = Parsed(std::string(mutant.recipe));
    for (const std::string& name : TargetsOf(mutant)) {
      const auto target = Load(name);
      std::vector<std::string> signatures;
      const CaseResult result =
          Examine(Expand(recipe), *target, {.seed = recipe.seed, .arbiter = false});
      for (const Finding& finding : result.findings) signatures.push_back(finding.Signature());
      EXPECT_THAT(signatures, Contains(std::string(mutant.signature)))
          << target->name() << " on " << mutant.recipe;
    }
  }
}

// Fails if a mutant differs from the operator beyond its trigger. With one key of its line changed it
// has the operator's bits, on both arithmetics, and the finding that it failed with is not there on the
// operator either. It runs twice, since some defects show in every second call.
TEST(Mutants, EachComputesTheTwinAsTheOperatorDoes) {
  const auto host = Load("host"), hopper = Load("host-hopper");
  for (const MutantRow& mutant : kHopperMutants) {
    const std::string line(mutant.recipe);
    const std::string twin = WithKey(line, std::string(mutant.twin));
    const Recipe recipe = Parsed(twin);
    ASSERT_NE(recipe, Parsed(line)) << mutant.name << ": the twin is the line itself";
    for (const std::string& name : TargetsOf(mutant)) {
      const Target& sound = name.starts_with("mutant:") ? *host : *hopper;
      const auto target = Load(name);
      for (int run = 0; run < 2; ++run)
        EXPECT_EQ(BitsOf(*target, recipe), BitsOf(sound, recipe)) << name << " on " << twin;
    }
    const Target& operator_ = mutant.stretches ? *hopper : *host;
    const CaseResult sound =
        Examine(Expand(Parsed(line)), operator_, {.seed = recipe.seed, .arbiter = false});
    EXPECT_TRUE(sound.findings.empty()) << operator_.name() << " on " << line;
  }
}

// Fails if a mutant's line does not say which bug it is modelled on, or what class of bug.
TEST(Mutants, EachNamesItsBug) {
  EXPECT_GE(kHostMutants.size(), 44u);
  for (const MutantRow& mutant : kHopperMutants) {
    EXPECT_NE(mutant.what.find('('), std::string_view::npos) << mutant.name;
    EXPECT_EQ(mutant.what.back(), ')') << mutant.name;
  }
}

// Memory for the split form, aligned as targets expect it.
struct Memory {
  explicit Memory(size_t size) : bytes(size + 64) {}
  void* get() {
    void* base = bytes.data();
    size_t space = bytes.size();
    return std::align(64, 1, base, space);
  }
  std::vector<std::byte> bytes;
};

// The split form through the C table: fails if it computes anything else than run, if sizes() promises
// less than is needed, or if a backward pass spoils the saved state for the next.
TEST(Entry, SplitFormGivesTheBitsOfRun) {
  std::vector<int64_t> shape_h = {2, 1}, shape_v = {3, 1}, shape_n = {2};
  std::vector<float> hidden = {1, 2}, weight = {-1, 0.25F, 3}, g = {1, -2};
  std::vector<int64_t> labels = {1, 2};
  const auto tensor = [](void* data, std::vector<int64_t>& shape, DLDataType type = {kDLFloat, 32, 1}) {
    return DLTensor{data, {kDLCPU, 0}, static_cast<int32_t>(shape.size()), type, shape.data(), nullptr,
                    0};
  };
  DLTensor h = tensor(hidden.data(), shape_h), w = tensor(weight.data(), shape_v),
           u = tensor(g.data(), shape_n), y = tensor(labels.data(), shape_n, {kDLInt, 64, 1});
  const plumbline_problem problem{
      sizeof(plumbline_problem), PLUMBLINE_NONE, &h, &w, &y, nullptr, -100, &u, nullptr};
  struct Outputs {
    std::vector<float> logprob = std::vector<float>(2, NAN), entropy = logprob, grad_hidden = logprob,
                       grad_weight = std::vector<float>(3, NAN);
    bool operator==(const Outputs&) const = default;
  };
  const auto results = [&](Outputs& o, std::vector<DLTensor>& tensors) {
    tensors = {tensor(o.logprob.data(), shape_n), tensor(o.entropy.data(), shape_n),
               tensor(o.grad_hidden.data(), shape_h), tensor(o.grad_weight.data(), shape_v)};
    return plumbline_results{sizeof(plumbline_results),
                             &tensors[0],
                             nullptr,
                             &tensors[1],
                             nullptr,
                             &tensors[2],
                             &tensors[3],
                             nullptr};
  };
  char error[256] = "";
  for (const plumbline_target_v1* table : {HostTarget(), Mutants()[0].table}) {
    Outputs whole, split;
    std::vector<DLTensor> whole_tensors, split_tensors;
    plumbline_results whole_results = results(whole, whole_tensors);
    plumbline_results split_results = results(split, split_tensors);
    ASSERT_EQ(table->run(&problem, &whole_results, nullptr, error, sizeof error), PLUMBLINE_OK)
        << error;

    size_t workspace_size = 0, saved_size = 0;
    ASSERT_EQ(table->sizes(&problem, &workspace_size, &saved_size), PLUMBLINE_OK);
    Memory workspace(workspace_size), saved(saved_size);
    ASSERT_EQ(table->forward(&problem, &split_results, workspace.get(), saved.get(), nullptr, error,
                             sizeof error),
              PLUMBLINE_OK)
        << error;
    for (int pass = 0; pass < 2; ++pass) {
      split.grad_hidden = {NAN, NAN};
      split.grad_weight = {NAN, NAN, NAN};
      std::fill(workspace.bytes.begin(), workspace.bytes.end(), std::byte{0xFF});
      split_results = results(split, split_tensors);
      ASSERT_EQ(table->backward(&problem, &split_results, workspace.get(), saved.get(), nullptr, error,
                                sizeof error),
                PLUMBLINE_OK)
          << error;
      EXPECT_EQ(split, whole) << "pass " << pass;
    }
  }
}

// Fails if an error text overruns its buffer, or a null one is written to.
TEST(Entry, ErrorTextIsBounded) {
  const plumbline_problem empty{sizeof(plumbline_problem),
                                PLUMBLINE_NONE,
                                nullptr,
                                nullptr,
                                nullptr,
                                nullptr,
                                -100,
                                nullptr,
                                nullptr};
  plumbline_results results{};
  results.struct_size = sizeof results;
  char error[8] = {'#', '#', '#', '#', '#', '#', '#', '#'};
  EXPECT_EQ(HostTarget()->run(&empty, &results, nullptr, error, 7), PLUMBLINE_INVALID);
  EXPECT_EQ(std::string(error), "hidden");
  EXPECT_EQ(error[7], '#');
  EXPECT_EQ(HostTarget()->run(&empty, &results, nullptr, nullptr, 0), PLUMBLINE_INVALID);
}

}  // namespace
}  // namespace plumbline::fuzz
