// SPDX-License-Identifier: Apache-2.0
#include "fuzz/base/disk_space.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plumbline::fuzz {
namespace {

TEST(DiskSpace, NamesFolderAndBytesWhereThereIsTooLittle) {
  EXPECT_EQ(DiskShortage(".", 1), "");
  constexpr int64_t kMoreThanThereIs = int64_t{1} << 62;
  EXPECT_THAT(DiskShortage("/tmp", kMoreThanThereIs),
              ::testing::AllOf(::testing::HasSubstr("bytes are free in /tmp"),
                               ::testing::HasSubstr("4611686018427387904")));
  EXPECT_EQ(DiskShortage("/nowhere", kMoreThanThereIs), "");
}

}  // namespace
}  // namespace plumbline::fuzz
