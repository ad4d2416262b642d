// SPDX-License-Identifier: Apache-2.0
#include "fuzz/base/disk_space.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>

namespace plumbline::fuzz {
namespace {

constexpr int64_t kMoreThanThereIs = int64_t{1} << 62;

// Fails if a shortage is not seen, or is not said with its folder and its bytes.
TEST(DiskSpace, NamesFolderAndBytesWhereThereIsTooLittle) {
  EXPECT_EQ(DiskShortage(".", 1), "");
  EXPECT_THAT(DiskShortage("/tmp", kMoreThanThereIs),
              ::testing::AllOf(::testing::HasSubstr("bytes are free in /tmp"),
                               ::testing::HasSubstr("4611686018427387904")));
}

// A campaign asks about a folder that it has made. If somebody removes it, or its file system does not
// answer, the next file that cannot be written ends the campaign with the reason; a full disk would be
// the wrong one. Fails if a folder that cannot be asked is said to be full.
TEST(DiskSpace, SaysNothingOfAFolderThatIsNotThere) {
  const std::filesystem::path gone = std::filesystem::temp_directory_path() / "plumbline-nowhere" / "x";
  ASSERT_FALSE(std::filesystem::exists(gone));
  EXPECT_EQ(DiskShortage(gone, kMoreThanThereIs), "");
}

}  // namespace
}  // namespace plumbline::fuzz
