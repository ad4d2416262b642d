// SPDX-License-Identifier: Apache-2.0
//
// Layouts with negative, zero and very wide strides: a target finds the right elements through them,
// and damage beside them is still found.

#include "fuzz/examine/placement_region.h"
#include "fuzz/recipe/expand/expand.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/examine/placement.h"
#include "fuzz/problem/owned_problem.h"
#include "fuzz/recipe/recipe.h"
#include "kernel/checks.h"
#include "kernel/problem.h"

namespace plumbline::fuzz {
namespace {

using kernel::ConstTensor;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

OwnedProblem Expanded(const std::string& keys) {
  Recipe recipe;
  std::string error;
  EXPECT_TRUE(Parse("v1 " + keys, &recipe, &error)) << error;
  return Expand(recipe);
}

std::byte* At(const ConstTensor& t, int64_t i, int64_t j = 0) {
  const int64_t offset = (t.rank > 0 ? i * t.stride[0] : 0) + (t.rank > 1 ? j * t.stride[1] : 0);
  return static_cast<std::byte*>(const_cast<void*>(t.data)) +
         offset * static_cast<int64_t>(kernel::SizeOf(t.dtype));
}

void ExpectSame(const ConstTensor& view, const ConstTensor& dense, const std::string& name) {
  ASSERT_EQ(view.size(), dense.size()) << name;
  const int64_t columns = view.rank > 1 ? view.shape[1] : 1;
  for (int64_t i = 0; i < view.size(); ++i) {
    ASSERT_EQ(std::memcmp(At(view, i / columns, i % columns), At(dense, i / columns, i % columns),
                          kernel::SizeOf(view.dtype)),
              0)
        << name << " element " << i;
  }
}

// Expects that every input of the placement equals that of the dense view, which the oracle reads; that
// the operator accepts it; and that nothing is damaged.
void ExpectFaithful(const OwnedProblem& p) {
  const Placement placement(p);
  const kernel::Problem &view = placement.problem(), dense = DenseView(p);
  ExpectSame(view.hidden, dense.hidden, "hidden");
  ExpectSame(view.weight, dense.weight, "weight");
  ExpectSame(view.labels, dense.labels, "labels");
  if (view.grad_logprob) ExpectSame(*view.grad_logprob, *dense.grad_logprob, "grad_logprob");
  if (view.grad_entropy) ExpectSame(*view.grad_entropy, *dense.grad_entropy, "grad_entropy");
  const kernel::Status status =
      kernel::Check(view, placement.results(), {true, true, true, true, true});
  EXPECT_TRUE(status.ok()) << status.message;
  EXPECT_THAT(placement.Inspect(), IsEmpty());
}

constexpr const char* kGrads = " grads=random entropy_grads=random";

// Fails if a reversed tensor is reversed only once, in memory or in its strides, or if a broadcast row
// is another than row 0.
TEST(PlacementRegion, ReversedAndBroadcastRowsAreFoundThroughTheirStrides) {
  for (const char* layout : {"layout=vocab-major", "layout=hidden-major"}) {
    for (const char* rest :
         {"rows=reversed", "rows=reversed pad=3 label_stride=2 grad_stride=2", "rows=broadcast",
          "rows=broadcast pad=5 label_stride=0", "rows=reversed grad_stride=0 offset=3",
          "label_stride=3 offset=1", "rows=reversed n=1", "rows=reversed n=0", "rows=broadcast n=0"}) {
      const std::string keys = std::string(rest).find(" n=") == std::string::npos ? " n=5" : "";
      SCOPED_TRACE(std::string(layout) + " " + rest);
      ExpectFaithful(Expanded("v=7 h=4 " + std::string(layout) + " " + rest + keys + kGrads));
    }
  }
  const OwnedProblem p = Expanded("n=3 v=4 h=5 rows=reversed" + std::string(kGrads));
  const Placement placement(p);
  EXPECT_EQ(placement.problem().hidden.stride[0], -5);
  EXPECT_EQ(placement.problem().weight.stride[0], -5);
  EXPECT_EQ(placement.problem().labels.stride[0], -1);
  EXPECT_EQ(placement.problem().grad_logprob->stride[0], -1);
  EXPECT_EQ(placement.results().grad_hidden->stride[0], -5);
}

// Fails if an offset is counted in bytes, or applied to one tensor only.
TEST(PlacementRegion, OffsetsAreElementsPastAnAlignedAddress) {
  const Placement placement(
      Expanded("n=3 v=4 h=5 dtype=bf16 offset=3 fp32_grads=1" + std::string(kGrads)));
  const auto past = [](const void* data) { return reinterpret_cast<uintptr_t>(data) % kAlignment; };
  EXPECT_EQ(past(placement.problem().hidden.data), 6u);
  EXPECT_EQ(past(placement.problem().weight.data), 6u);
  EXPECT_EQ(past(placement.problem().grad_logprob->data), 12u);
  EXPECT_EQ(past(placement.results().logprob->data), 12u);
  EXPECT_EQ(past(placement.results().grad_hidden->data), 12u);
}

// The last line of the tensor named lies beyond 2^31 elements, is found there, and damage beside it is
// seen. Fails if a stride is cut to 32 bits anywhere here, or the gap is not mapped.
TEST(PlacementRegion, WideStridesAreSparse) {
  for (const char* wide : {"hidden", "weight", "labels", "grads"}) {
    for (const char* seed : {"1", "2", "3"}) {
      SCOPED_TRACE(std::string(wide) + " " + seed);
      const OwnedProblem p =
          Expanded("n=4 v=6 h=3 wide=" + std::string(wide) + " seed=" + seed + kGrads);
      ASSERT_EQ(Inconsistency(p), std::nullopt);
      ExpectFaithful(p);
      Placement placement(p);
      const kernel::Problem& view = placement.problem();
      const ConstTensor& tensor = *wide == 'h'   ? view.hidden
                                  : *wide == 'w' ? view.weight
                                  : *wide == 'l' ? view.labels
                                                 : *view.grad_entropy;
      const int64_t last = tensor.shape[0] - 1;
      EXPECT_GE(last * tensor.stride[0], int64_t{1} << 31);
      const std::byte kept = *At(tensor, last);
      *At(tensor, last) ^= std::byte{1};
      EXPECT_THAT(placement.Inspect(), SizeIs(1));
      *At(tensor, last) = kept;
      *(At(tensor, last) - 1) ^= std::byte{1};
      EXPECT_THAT(placement.Inspect(), SizeIs(1));
      placement.Poison(1);
      EXPECT_THAT(placement.Inspect(), IsEmpty());
    }
  }
  const OwnedProblem p = Expanded("n=4 v=6 h=3 wide=hidden" + std::string(kGrads));
  Placement placement(p);
  const ConstTensor gradient = kernel::AsConst(*placement.results().grad_hidden);
  *(At(gradient, 3) + 3 * kernel::SizeOf(gradient.dtype)) ^= std::byte{1};
  const auto damage = placement.Inspect();
  ASSERT_THAT(damage, SizeIs(1));
  EXPECT_THAT(damage[0].what, HasSubstr("grad_hidden"));
}

}  // namespace
}  // namespace plumbline::fuzz
