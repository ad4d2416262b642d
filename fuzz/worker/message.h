// SPDX-License-Identifier: Apache-2.0
//
// Whole messages over a stream socket between the supervisor and a worker. A message is the
// four bytes "PLB1", the length of the payload as 8 little-endian bytes, and the payload. Either end
// may die at any byte: what arrives is a whole payload or a status that says why not, never half of
// one.

#ifndef PLUMBLINE_FUZZ_WORKER_MESSAGE_H_
#define PLUMBLINE_FUZZ_WORKER_MESSAGE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace plumbline::fuzz {

enum class MessageStatus : uint8_t {
  kOk,
  kClosed,    // the other end is gone, between messages
  kBroken,    // gone inside a message, or what came is no message
  kTimedOut,  // the deadline passed
  kGivenUp,   // keep_waiting said so
};

// The limits of a wait. keep_waiting, where set, is asked about ten times a second while nothing moves.
struct Patience {
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  std::function<bool()> keep_waiting;
};

// A longer length is refused as a broken message: above the largest case, kMaxElements of 4 bytes and
// text.
inline constexpr uint64_t kMaxMessage = uint64_t{1} << 33;

// The socket must be a stream socket (a closed peer is then a status, not a SIGPIPE).
MessageStatus SendMessage(int socket, std::span<const std::byte> payload,
                          const Patience& patience = {});
MessageStatus ReceiveMessage(int socket, std::vector<std::byte>* payload,
                             const Patience& patience = {});

}  // namespace plumbline::fuzz

#endif  // PLUMBLINE_FUZZ_WORKER_MESSAGE_H_
