// SPDX-License-Identifier: Apache-2.0
//
// Sends and receives whole messages over a stream socket between the supervisor and a worker. A message
// is the four bytes "PLB1", the length of the payload as 8 bytes in this machine's form, and the
// payload. Either end may die at any byte: the receiver gets a whole payload or a status that says why
// not, never a part.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace plumbline::fuzz {

enum class MessageStatus : uint8_t {
  kOk,
  kClosed,    // the other end closed, between messages
  kBroken,    // closed inside a message, or the bytes are no message
  kTimedOut,  // the deadline passed
  kGivenUp,   // keep_waiting returned false
};

// The limits of a wait. keep_waiting, if set, is called about ten times a second while no bytes arrive.
struct Patience {
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  std::function<bool()> keep_waiting;
};

// A longer length is refused as a broken message. It is above the largest case, kMaxElements of 4 bytes
// and text.
inline constexpr uint64_t kMaxMessage = uint64_t{1} << 33;

// The socket must be a stream socket (a closed peer is then a status, not a SIGPIPE).
MessageStatus SendMessage(int socket, std::span<const std::byte> payload,
                          const Patience& patience = {});
MessageStatus ReceiveMessage(int socket, std::vector<std::byte>* payload,
                             const Patience& patience = {});

}  // namespace plumbline::fuzz
