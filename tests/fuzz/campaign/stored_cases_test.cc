// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/stored_cases.h"
#include "fuzz/recipe/expand/expand.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fuzz/cases/file.h"
#include "fuzz/recipe/recipe.h"
#include "tests/fuzz/support/workplace.h"

namespace plumbline::fuzz {
namespace {

using ::testing::HasSubstr;

class CampaignCorpus : public ::testing::Test {
 protected:
  void Keep(const std::string& name, uint64_t seed) const {
    Case c;
    Recipe recipe;
    recipe.seed = seed;
    c.problem = Expand(recipe);
    std::string error;
    ASSERT_TRUE(WriteCase(work_ / name, c, &error)) << error;
  }
  testing::Workplace work_;
  CampaignOptions options_;
  std::string error_;
};

// Fails if a resumed campaign takes other cases for those that its journal names.
TEST_F(CampaignCorpus, AResumedCampaignReplaysTheSameOrNone) {
  std::filesystem::create_directory(work_ / "c");
  Keep("c/a.safetensors", 1);
  Keep("c/b.safetensors", 2);
  options_.corpus = work_ / "c";
  const auto stored = ListStoredCases(options_, &error_);
  ASSERT_TRUE(stored) << error_;
  EXPECT_EQ(stored->files.size(), 2U);
  options_.corpus_stamp = stored->stamp;
  EXPECT_TRUE(ListStoredCases(options_, &error_)) << error_;
  Keep("c/b.safetensors", 3);  // another content
  EXPECT_FALSE(ListStoredCases(options_, &error_));
  Keep("c/b.safetensors", 2);
  EXPECT_TRUE(ListStoredCases(options_, &error_)) << error_;
  std::filesystem::rename(work_ / "c/b.safetensors", work_ / "c/d.safetensors");  // another name
  EXPECT_FALSE(ListStoredCases(options_, &error_));
  std::filesystem::rename(work_ / "c/d.safetensors", work_ / "c/b.safetensors");
  Keep("c/c.safetensors", 2);  // one more
  EXPECT_FALSE(ListStoredCases(options_, &error_));
  EXPECT_THAT(error_, HasSubstr("2 then, 3 now"));
}

// Fails if a folder that does not exist is taken for an empty one, or is refused without its name.
TEST_F(CampaignCorpus, WhatCannotBeListedIsNamed) {
  EXPECT_TRUE(ListStoredCases(options_, &error_)->files.empty());
  options_.corpus = work_ / "nowhere";
  EXPECT_FALSE(ListStoredCases(options_, &error_));
  EXPECT_THAT(error_, HasSubstr("nowhere"));
}

}  // namespace
}  // namespace plumbline::fuzz
