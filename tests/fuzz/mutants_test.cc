// SPDX-License-Identifier: Apache-2.0

#include "fuzz/targets/mutants.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fuzz/target.h"
#include "fuzz/targets/host.h"

namespace plumbline::fuzz {
namespace {

using kernel::DType;

constexpr int64_t kTile = 64;  // the host's; 64 columns leave no ragged tail

// A problem with H = 1 and one fp32 output, made so that a single defect can show in it: the comment on
// each says why no other does. Logits are hidden * weight, exact.
struct Exhibit {
  std::string mutant;
  std::vector<float> hidden, weight;
  std::vector<int64_t> labels;
  std::vector<float> g;  // empty: forward only
  enum class Shown { kLogprob, kEntropy, kGradHidden, kGradWeight } shown;
  float temperature = 1;
  std::vector<float> k = {};  // empty: 0
};

std::vector<float> Columns(int64_t count, float value) {
  return std::vector<float>(static_cast<size_t>(count), value);
}

std::vector<Exhibit> Exhibits() {
  using Shown = Exhibit::Shown;
  constexpr int64_t kLast = kTile - 1;  // labels are there: no further column to be looked up instead
  std::vector<float> apart = Columns(kTile, 0);
  apart[kLast] = 1;
  std::vector<float> fine = apart;
  fine[kLast] = 1 + 0x1p-10F;
  std::vector<float> rising = Columns(2 * kTile, 0);
  for (size_t v = kTile; v < 2 * kTile; ++v) rising[v] = 1;
  return {
      // Two logits of 0, the value that phantom columns have: no maximum, offset or rounding can
      // differ.
      {"tail-unmasked", {1}, {0, 0}, {0}, {}, Shown::kEntropy},
      // A full tile, all equal and exact in bf16; the entropy does not see how logprob is formed.
      {"max-from-zero", {1}, Columns(kTile, -200), {0}, {}, Shown::kEntropy},
      // A large positive offset, exact in bf16, in a full tile.
      {"plain-logprob", {1}, Columns(kTile, 1000), {0}, {}, Shown::kLogprob},
      // The only one with a logit that bf16 cannot hold.
      {"logits-rounded", {1}, fine, {0}, {}, Shown::kEntropy},
      // The only one with a gradient of probabilities that bf16 cannot hold; one row, so g[0] is its
      // own.
      {"probability-rounded", {1}, apart, {kLast}, {1}, Shown::kGradWeight},
      // All logits 0: p = 1/64 is exact in bf16.
      {"first-grad-for-all", {0, 0}, apart, {kLast, kLast}, {1, 2}, Shown::kGradHidden},
      // The only one with two tiles: the maximum moves from 0 to 1 after 64 columns.
      {"entropy-not-rebased", {1}, rising, {0}, {}, Shown::kEntropy},
      // The only one with an ignored row; what it holds must reach nothing.
      {"ignored-row-leaks", {std::nanf("")}, apart, {-100}, {1}, Shown::kGradWeight},
      // All logits 0, p = 1/64, and the only one whose label has a column to its right.
      {"label-off-by-one", {1}, Columns(kTile, 0), {5}, {1}, Shown::kGradWeight},
      // The only one with a temperature; logits and p as above.
      {"backward-temperature", {1}, Columns(kTile, 0), {kLast}, {1}, Shown::kGradWeight, 2},
      // The only one with k, and that NaN, so that no rounding of p can show.
      {"entropy-grad-dropped", {1}, apart, {kLast}, {0}, Shown::kGradWeight, 1, {std::nanf("")}},
      // All logits 0 by hidden, so p is exact; 63/64 (1 + 2^-10) takes more bits than bf16 has.
      {"grad-hidden-accumulator", {0}, fine, {kLast}, {1}, Shown::kGradHidden},
  };
}

std::vector<uint32_t> BitsOf(const std::string& name, const Exhibit& e) {
  const auto n = static_cast<int64_t>(e.hidden.size()), v = static_cast<int64_t>(e.weight.size());
  kernel::Problem p;
  p.hidden = {e.hidden.data(), DType::kF32, 2, {n, 1}, {1, 1}};
  p.weight = {e.weight.data(), DType::kF32, 2, {v, 1}, {1, 1}};
  p.labels = {e.labels.data(), DType::kI64, 1, {n, 1}, {1, 1}};
  p.temperature = {&e.temperature, DType::kF32, 0, {1, 1}, {1, 1}};
  if (!e.g.empty()) p.grad_logprob = {e.g.data(), DType::kF32, 1, {n, 1}, {1, 1}};
  if (!e.k.empty()) p.grad_entropy = {e.k.data(), DType::kF32, 1, {n, 1}, {1, 1}};
  const bool by_vocab = e.shown == Exhibit::Shown::kGradWeight;
  std::vector<float> out(static_cast<size_t>(by_vocab ? v : n));
  kernel::Results r;
  switch (e.shown) {
    case Exhibit::Shown::kLogprob:
      r.logprob = {out.data(), DType::kF32, 1, {n, 1}, {1, 1}};
      break;
    case Exhibit::Shown::kEntropy:
      r.entropy = {out.data(), DType::kF32, 1, {n, 1}, {1, 1}};
      break;
    case Exhibit::Shown::kGradHidden:
      r.grad_hidden = {out.data(), DType::kF32, 2, {n, 1}, {1, 1}};
      break;
    case Exhibit::Shown::kGradWeight:
      r.grad_weight = {out.data(), DType::kF32, 2, {v, 1}, {1, 1}};
      break;
  }
  std::string error;
  const auto target = Target::Load(name, &error);
  EXPECT_NE(target, nullptr) << error;
  const RunOutcome outcome = target->Run(p, r);
  EXPECT_EQ(outcome.status, RunStatus::kOk) << name << ": " << outcome.message;
  std::vector<uint32_t> bits;
  for (const float value : out) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

// Fails if a mutant has no defect, has another's, or has one more beside its own.
TEST(Mutants, EachHasItsOwnDefectAndNoOther) {
  const std::vector<Exhibit> exhibits = Exhibits();
  ASSERT_EQ(exhibits.size(), Mutants().size());
  for (const Exhibit& exhibit : exhibits) {
    const std::vector<uint32_t> host = BitsOf("host", exhibit), hopper = BitsOf("host-hopper", exhibit);
    for (const Mutant& mutant : Mutants()) {
      const std::string name(mutant.name);
      EXPECT_EQ(BitsOf("mutant:" + name, exhibit) == host, name != exhibit.mutant)
          << name << " on the exhibit of " << exhibit.mutant;
      EXPECT_EQ(BitsOf("hopper-mutant:" + name, exhibit) == hopper, name != exhibit.mutant)
          << name << " on host-hopper, on the exhibit of " << exhibit.mutant;
    }
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
