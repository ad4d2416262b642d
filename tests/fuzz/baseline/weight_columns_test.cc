// SPDX-License-Identifier: Apache-2.0
//
// The second tier of grad_weight over many rows, from the target's own lse.

#include "fuzz/baseline/weight_columns.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "tests/fuzz/baseline/drawn_problem.h"

namespace plumbline::fuzz {
namespace {

using kernel::DType;
using testing::Drawn, testing::Shape, testing::Text;

// Fails if an honest kernel is suspect, on ordinary or confident rows, or if one of the two parts is
// not compared.
TEST(WeightColumns, HonestTargetsAreClean) {
  const std::vector<Shape> shapes = {{.n = 300},
                                     {.n = 200, .dtype = DType::kF16, .temperature = 0.7F},
                                     {.n = 120, .dtype = DType::kF32, .hidden = 1, .weight = 1},
                                     {.n = 200, .hidden = 8, .weight = 0.2F},
                                     {.n = 200, .gradients = DType::kBf16}};
  unsigned seed = 20;
  for (const Shape& shape : shapes) {
    Drawn drawn(shape, ++seed);
    for (const auto& [target, contract] : {std::pair{"host", ""},
                                           {"host", "fp32"},
                                           {"host", "black-box"},
                                           {"host-hopper", "black-box"}}) {
      for (const bool lse : {true, false}) {
        const HonestErrors errors = drawn.RunColumns(target, contract, lse);
        ASSERT_EQ(errors.outputs.size(), 2U)
            << (errors.left_out.empty() ? "" : errors.left_out.front());
        for (const OutputErrors& o : errors.outputs) {
          EXPECT_GE(o.units.units, HonestUnits::kLeastUnits);
          EXPECT_FALSE(o.units.Suspect()) << target << " as " << contract << ", shape " << seed << "\n"
                                          << Text(errors.outputs);
        }
      }
    }
  }
}

// Fails if a defect of grad_weight alone, deep inside every bound, is not seen, or not by its name.
TEST(WeightColumns, DefectsAreSuspect) {
  struct OfWeight {
    const char* defect;
    const char* shortcut;  // null: none
  };
  for (const OfWeight& planted :
       {OfWeight{"grad-weight-accumulator", "grad_weight accumulated in bf16"},
        OfWeight{"probability-rounded",
                 "probabilities rounded to bf16 before the label's 1 is subtracted"},
        OfWeight{"small-p-skipped", "no gradient from probabilities below 2^-12"},
        OfWeight{"backward-tail-unmasked", nullptr}}) {
    Drawn drawn({.n = 300, .v = 5001}, 7);
    const HonestErrors errors = drawn.RunColumns(std::string("mutant:") + planted.defect, "");
    EXPECT_TRUE(errors.AnySuspect()) << planted.defect << "\n" << Text(errors.outputs);
    const std::string words = errors.explanation.Words();
    if (planted.shortcut == nullptr) {
      EXPECT_EQ(words, "") << planted.defect;
    } else {
      EXPECT_NE(words.find(planted.shortcut), std::string::npos) << planted.defect << ": " << words;
    }
  }
}

// Fails if rows that have no part in grad_weight are not missed: what no sample of rows can show.
TEST(WeightColumns, DroppedRowsAreSuspect) {
  std::vector<int64_t> last(8);
  std::iota(last.begin(), last.end(), 292);
  Drawn drawn({.n = 300, .gradients = DType::kBf16}, 8);
  const HonestErrors errors = drawn.RunColumns("host", "black-box", true, last);
  EXPECT_TRUE(errors.AnySuspect()) << Text(errors.outputs);
  EXPECT_EQ(errors.explanation.Words(), "");
  EXPECT_EQ(errors.rows, 300);
}

// Fails if what few labels or few columns have is not judged, if a row that takes no part hides the
// others, or if what has no row is not compared with 0.
TEST(WeightColumns, EdgesAreJudged) {
  std::vector<int64_t> half;
  for (int64_t i = 0; i < 200; i += 2) half.push_back(i);
  for (const Shape& shape : {Shape{.n = 200, .v = 5, .h = 16}, Shape{.n = 200, .v = 2, .h = 32}}) {
    EXPECT_FALSE(Drawn(shape, 3).RunColumns("host", "").AnySuspect());
    EXPECT_TRUE(Drawn(shape, 3).RunColumns("host", "", true, half).AnySuspect()) << shape.v;
  }
  Drawn masked({.n = 200}, 4);
  masked.Mask(7);
  EXPECT_FALSE(masked.RunColumns("host", "").AnySuspect());
  EXPECT_TRUE(masked.RunColumns("host", "", true, half).AnySuspect());
  Drawn none({.n = 20}, 5);
  none.RunColumns("host", "");
  for (int64_t i = 0; i < 20; ++i) none.Mask(i);
  const HonestErrors errors =
      CompareWeightColumns(DenseView(none.owned()), none.results(), oracle::Contract{}, {}, 0);
  EXPECT_TRUE(errors.AnySuspect());
}

// Fails if the error of the label's logit hides what confident rows have left, 1 - p of 1e-4.
TEST(WeightColumns, ConfidentRowsAreJudged) {
  std::vector<int64_t> half;
  for (int64_t i = 0; i < 200; i += 2) half.push_back(i);
  Drawn drawn({.n = 200, .v = 60, .h = 64, .dtype = DType::kF32}, 6);
  drawn.Confide(9);
  EXPECT_FALSE(drawn.RunColumns("host", "").AnySuspect());
  EXPECT_TRUE(drawn.RunColumns("host", "", true, half).AnySuspect());
}

}  // namespace
}  // namespace plumbline::fuzz
