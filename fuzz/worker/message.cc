// SPDX-License-Identifier: Apache-2.0
#include "fuzz/worker/message.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace plumbline::fuzz {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::array<unsigned char, 4> kMagic = {'P', 'L', 'B', '1'};
constexpr size_t kHeader = 12;
constexpr std::chrono::milliseconds kTick{100};
// Memory is allocated as the bytes arrive, so that a false length costs no more than this.
constexpr size_t kStep = size_t{64} << 20;

// Waits until the socket is ready for `events`. Returns kOk, kTimedOut or kGivenUp.
MessageStatus Await(int socket, short events, const Patience& patience) {
  for (;;) {
    const auto now = Clock::now();
    if (now >= patience.deadline) return MessageStatus::kTimedOut;
    const auto left = std::min<Clock::duration>(patience.deadline - now, kTick);
    const auto ms = std::chrono::ceil<std::chrono::milliseconds>(left).count();
    pollfd entry{socket, events, 0};
    const int ready = poll(&entry, 1, static_cast<int>(ms));
    if (ready > 0) return MessageStatus::kOk;  // an error or hang-up shows in the next send or recv
    if (ready < 0 && errno != EINTR) return MessageStatus::kBroken;
    if (patience.keep_waiting && !patience.keep_waiting()) return MessageStatus::kGivenUp;
  }
}

// Returns kClosed if the peer ended the stream before the first byte, kBroken if after it.
MessageStatus ReceiveExactly(int socket, std::byte* to, size_t size, const Patience& patience) {
  size_t done = 0;
  while (done < size) {
    const ssize_t got = recv(socket, to + done, size - done, MSG_DONTWAIT);
    if (got > 0) {
      done += static_cast<size_t>(got);
    } else if (got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) {
      return done == 0 ? MessageStatus::kClosed : MessageStatus::kBroken;
    } else if (const MessageStatus s = Await(socket, POLLIN, patience); s != MessageStatus::kOk) {
      return s;
    }
  }
  return MessageStatus::kOk;
}

}  // namespace

MessageStatus SendMessage(int socket, std::span<const std::byte> payload, const Patience& patience) {
  std::vector<std::byte> message(kHeader);
  std::memcpy(message.data(), kMagic.data(), kMagic.size());
  const uint64_t length = payload.size();
  std::memcpy(message.data() + kMagic.size(), &length, sizeof length);
  message.insert(message.end(), payload.begin(), payload.end());
  size_t done = 0;
  while (done < message.size()) {
    const ssize_t sent =
        send(socket, message.data() + done, message.size() - done, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) {
      done += static_cast<size_t>(sent);
    } else if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
      return MessageStatus::kClosed;
    } else if (const MessageStatus s = Await(socket, POLLOUT, patience); s != MessageStatus::kOk) {
      return s;
    }
  }
  return MessageStatus::kOk;
}

MessageStatus ReceiveMessage(int socket, std::vector<std::byte>* payload, const Patience& patience) {
  payload->clear();
  std::array<std::byte, kHeader> header;
  if (const MessageStatus s = ReceiveExactly(socket, header.data(), kHeader, patience);
      s != MessageStatus::kOk) {
    return s;
  }
  if (std::memcmp(header.data(), kMagic.data(), kMagic.size()) != 0) return MessageStatus::kBroken;
  uint64_t length = 0;
  std::memcpy(&length, header.data() + kMagic.size(), sizeof length);
  if (length > kMaxMessage) return MessageStatus::kBroken;
  while (payload->size() < length) {
    const size_t begin = payload->size();
    const size_t step = std::min(kStep, static_cast<size_t>(length) - begin);
    payload->resize(begin + step);
    if (const MessageStatus s = ReceiveExactly(socket, payload->data() + begin, step, patience);
        s != MessageStatus::kOk) {
      payload->clear();
      return s == MessageStatus::kClosed ? MessageStatus::kBroken : s;
    }
  }
  return MessageStatus::kOk;
}

}  // namespace plumbline::fuzz
