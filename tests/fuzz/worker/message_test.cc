// SPDX-License-Identifier: Apache-2.0
#include "fuzz/worker/message.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>

namespace plumbline::fuzz {
namespace {

using namespace std::chrono_literals;

std::vector<std::byte> Bytes(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

class MessageTest : public ::testing::Test {
 protected:
  MessageTest() { EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends_.data()), 0); }
  ~MessageTest() override {
    for (const int end : ends_) {
      if (end >= 0) close(end);
    }
  }
  void CloseSender() {
    close(ends_[0]);
    ends_[0] = -1;
  }
  void SendRaw(std::span<const std::byte> bytes) {
    ASSERT_EQ(write(ends_[0], bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }

  std::array<int, 2> ends_{-1, -1};
  std::vector<std::byte> got_;
};

// Fails if a length is in the wrong unit or byte order, if a payload is joined with the next one, if an
// empty payload is taken for the end, or if only sizes that fit the socket's buffer work.
TEST_F(MessageTest, PayloadsOfEverySizeArriveWholeAndInOrder) {
  std::vector<std::vector<std::byte>> sent;
  for (const size_t size : {0UL, 1UL, 255UL, 256UL, 65'537UL, 5'000'000UL}) {
    std::vector<std::byte> payload(size);
    for (size_t i = 0; i < size; ++i) payload[i] = static_cast<std::byte>(i * 131 + size);
    sent.push_back(std::move(payload));
  }
  std::thread sender([&] {
    for (const auto& payload : sent) EXPECT_EQ(SendMessage(ends_[0], payload), MessageStatus::kOk);
  });
  for (const auto& payload : sent) {
    EXPECT_EQ(ReceiveMessage(ends_[1], &got_), MessageStatus::kOk);
    EXPECT_EQ(got_, payload);
  }
  sender.join();
}

// Fails if half a message is handed on as a whole one. The cut runs over every byte of a message.
TEST_F(MessageTest, ACutMessageIsBrokenAndAnEndBetweenMessagesIsClosed) {
  ASSERT_EQ(SendMessage(ends_[0], Bytes("hello")), MessageStatus::kOk);
  std::array<std::byte, 17> whole;
  ASSERT_EQ(recv(ends_[1], whole.data(), whole.size(), MSG_WAITALL), 17);
  for (size_t cut = 0; cut < whole.size(); ++cut) {
    std::array<int, 2> pair;
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data()), 0);
    ASSERT_EQ(write(pair[0], whole.data(), cut), static_cast<ssize_t>(cut));
    close(pair[0]);
    EXPECT_EQ(ReceiveMessage(pair[1], &got_),
              cut == 0 ? MessageStatus::kClosed : MessageStatus::kBroken)
        << cut;
    EXPECT_TRUE(got_.empty());
    close(pair[1]);
  }
}

// Fails if text on the line is read as a length (a target may write into the descriptor), or if memory
// is allocated before the bytes are there.
TEST_F(MessageTest, WhatIsNoMessageIsRefused) {
  SendRaw(Bytes("a line that some target printed\n"));
  EXPECT_EQ(ReceiveMessage(ends_[1], &got_), MessageStatus::kBroken);
}

// Fails if memory is allocated for a length above kMaxMessage.
TEST_F(MessageTest, ALengthBeyondTheLimitIsRefused) {
  std::vector<std::byte> header = Bytes("PLB1");
  for (int i = 0; i < 8; ++i) header.push_back(std::byte{0x7F});
  SendRaw(header);
  EXPECT_EQ(ReceiveMessage(ends_[1], &got_), MessageStatus::kBroken);
}

// Fails if the wait has no deadline: the test would not end.
TEST_F(MessageTest, TheDeadlineEndsTheWait) {
  const Patience patience{std::chrono::steady_clock::now() + 50ms, nullptr};
  EXPECT_EQ(ReceiveMessage(ends_[1], &got_, patience), MessageStatus::kTimedOut);
  // This peer does not read. The message is far larger than a socket buffer.
  EXPECT_EQ(SendMessage(ends_[0], std::vector<std::byte>(50'000'000), patience),
            MessageStatus::kTimedOut);
}

// Fails if the wait goes on after keep_waiting has returned false.
TEST_F(MessageTest, KeepWaitingEndsTheWait) {
  int asked = 0;
  const Patience patience{std::chrono::steady_clock::time_point::max(), [&] { return ++asked < 3; }};
  EXPECT_EQ(ReceiveMessage(ends_[1], &got_, patience), MessageStatus::kGivenUp);
  EXPECT_EQ(asked, 3);
}

// Fails if a SIGPIPE ends the supervisor when a worker dies before it has read its request.
TEST_F(MessageTest, SendingToADeadPeerIsAStatus) {
  close(ends_[1]);
  ends_[1] = -1;
  EXPECT_EQ(SendMessage(ends_[0], std::vector<std::byte>(1'000'000)), MessageStatus::kClosed);
}

}  // namespace
}  // namespace plumbline::fuzz
