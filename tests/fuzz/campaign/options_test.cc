// SPDX-License-Identifier: Apache-2.0
#include "fuzz/campaign/options.h"

#include <gtest/gtest.h>

#include <string>

namespace plumbline::fuzz {
namespace {

// Fails if a resumed campaign has another lag than the one that began, or if one that cannot be is
// taken from a file.
TEST(CampaignOptions, TheirJsonKeepsTheLag) {
  CampaignOptions options;
  options.targets = {"host"};
  EXPECT_EQ(ToJson(options).Find("lag"), nullptr);
  std::string error;
  EXPECT_EQ(FromJson<CampaignOptions>(ToJson(options), "campaign", &error)->lag, kLeastLag);
  options.lag = 16;
  const auto read = FromJson<CampaignOptions>(ToJson(options), "campaign", &error);
  ASSERT_TRUE(read) << error;
  EXPECT_EQ(read->lag, 16);
  options.lag = kMostLag + 1;
  EXPECT_FALSE(FromJson<CampaignOptions>(ToJson(options), "campaign", &error));
  EXPECT_EQ(error, "campaign.lag is 65, not a number of generations");
}

}  // namespace
}  // namespace plumbline::fuzz
