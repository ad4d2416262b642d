// SPDX-License-Identifier: Apache-2.0
//
// Hands over numbered values in the order of their numbers, whichever comes first.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

namespace plumbline::fuzz {

template <class Value>
class InOrder {
 public:
  // Each number from 0 on comes once, from any thread. `take` is called for every value whose turn has
  // come, by one thread at a time.
  void Add(int64_t number, Value value, const std::function<void(const Value&)>& take) {
    const std::lock_guard lock(mutex_);
    waiting_.emplace(number, std::move(value));
    for (auto first = waiting_.begin(); first != waiting_.end() && first->first == next_;
         first = waiting_.erase(first)) {
      take(first->second);
      ++next_;
    }
  }

 private:
  std::mutex mutex_;
  std::map<int64_t, Value> waiting_;
  int64_t next_ = 0;
};

}  // namespace plumbline::fuzz
