// SPDX-License-Identifier: Apache-2.0

#include "fuzz/worker/fork_server.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <utility>

#include "fuzz/base/json.h"

namespace plumbline::fuzz {
namespace {

// The time to import the target's modules and fork.
constexpr std::chrono::milliseconds kAnswer = std::chrono::minutes(2);

bool SendWithDescriptors(int socket, const std::string& text, std::array<int, 2> descriptors) {
  iovec part{const_cast<char*>(text.data()), text.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof descriptors)> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof descriptors);
  std::memcpy(CMSG_DATA(header), descriptors.data(), sizeof descriptors);
  return sendmsg(socket, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
}

}  // namespace

ForkServer& ForkServer::Of(const std::string& target, const WorkerCommand& command) {
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<ForkServer>> servers;
  const std::lock_guard lock(mutex);
  std::unique_ptr<ForkServer>& server = servers[command.program.string() + " " + target];
  if (!server) server = std::make_unique<ForkServer>(target, command);
  return *server;
}

ForkServer::~ForkServer() {
  if (socket_ >= 0) close(socket_);
}

bool ForkServer::Start() {
  // A worker's parent is a process that the server forked and that has ended: this one inherits it, and
  // can wait for it.
  if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) return false;
  std::array<int, 2> pair;
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair.data()) != 0) return false;
  socket_ = AboveChildDescriptors(pair[0]);
  ChildSpec spec{.program = command_.program, .words = command_.words, .shared = pair[1]};
  spec.words.insert(spec.words.end(), {"fork-server", "--target", target_});
  std::string error;
  const bool started = process_.Start(std::move(spec), &error);
  close(pair[1]);
  return started;
}

pid_t ForkServer::Ask(const std::string& request, int log, int shared) {
  if (!SendWithDescriptors(socket_, request, {log, shared})) return -1;
  pollfd ready{.fd = socket_, .events = POLLIN, .revents = 0};
  std::array<char, 64> reply{};
  if (poll(&ready, 1, static_cast<int>(kAnswer.count())) != 1) return -1;
  if (recv(socket_, reply.data(), reply.size() - 1, 0) <= 0) return -1;
  const long pid = std::strtol(reply.data(), nullptr, 10);
  return pid > 0 ? static_cast<pid_t>(pid) : -1;
}

pid_t ForkServer::Fork(const std::vector<std::string>& words, int log, int shared) {
  const std::lock_guard lock(mutex_);
  if (!able_) return -1;
  if (!std::exchange(started_, true)) able_ = Start();
  Json::Array list(words.begin(), words.end());
  const pid_t pid = able_ ? Ask(Json(std::move(list)).Dump(), log, shared) : -1;
  able_ = pid > 0;
  if (!able_) process_.Kill();
  return pid;
}

}  // namespace plumbline::fuzz
