// SPDX-License-Identifier: Apache-2.0
//
// A process that has imported a Python target's modules and forks workers from itself. Importing a
// framework takes seconds and a fork milliseconds, and shrinking a crash needs a worker for every try.
// fuzz/python/plumbline/worker/fork_server.py is the other side, and says when it does not fork.

#pragma once

#include <sys/types.h>

#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/base/child_process.h"
#include "fuzz/worker/command.h"

namespace plumbline::fuzz {

class ForkServer {
 public:
  // Returns the server of this target in this process; it is started by its first Fork.
  static ForkServer& Of(const std::string& target, const WorkerCommand& command);

  ForkServer(std::string target, WorkerCommand command)
      : target_(std::move(target)), command_(std::move(command)) {}
  ~ForkServer();
  ForkServer(const ForkServer&) = delete;
  ForkServer& operator=(const ForkServer&) = delete;

  // Returns the process of a new worker with these words, as a child of this process; -1 if none can be
  // forked: it has more threads than one or has touched a GPU, its import failed, or it has ended. Such
  // a server is not asked again. `log` and `shared` are the worker's, as in ChildSpec. Any thread may
  // call.
  pid_t Fork(const std::vector<std::string>& words, int log, int shared);

 private:
  bool Start();
  pid_t Ask(const std::string& request, int log, int shared);

  const std::string target_;
  const WorkerCommand command_;
  std::mutex mutex_;
  ChildProcess process_;
  int socket_ = -1;
  bool started_ = false, able_ = true;
};

}  // namespace plumbline::fuzz
