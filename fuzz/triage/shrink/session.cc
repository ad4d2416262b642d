// SPDX-License-Identifier: Apache-2.0

#include "fuzz/triage/shrink/session.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>

#include "fuzz/base/harness_defect.h"
#include "fuzz/base/mix.h"
#include "fuzz/triage/shrink/order.h"

namespace plumbline::fuzz {
namespace {

class Hash {
 public:
  void Add(uint64_t value) { state_ = Mix(state_, value); }

  void Add(std::span<const std::byte> bytes) {
    for (size_t i = 0; i < bytes.size(); i += 8) {
      uint64_t word = 0;
      std::memcpy(&word, bytes.data() + i, std::min<size_t>(8, bytes.size() - i));
      // One multiplication a word keeps this fast: large problems are hashed for every candidate.
      state_ = (state_ ^ word) * 0x9e37'79b9'7f4a'7c15u;
      state_ ^= state_ >> 29;
    }
    Add(bytes.size());
  }

  void Add(const HostTensor& tensor) {
    Add(static_cast<uint64_t>(tensor.dtype));
    Add(std::as_bytes(std::span(tensor.shape)));
    Add(std::span(tensor.bytes));
  }

  uint64_t state() const { return state_; }

 private:
  uint64_t state_ = 0;
};

}  // namespace

uint64_t Fingerprint(const OwnedProblem& p) {
  Hash hash;
  ForEachTensor(p, [&](std::string_view, const HostTensor* tensor) {
    hash.Add(tensor != nullptr ? 1u : 0u);
    if (tensor != nullptr) hash.Add(*tensor);
  });
  hash.Add(std::span<const std::byte>(ToBytes(p)));
  return hash.state();
}

Focus FocusOf(const ShrinkHint& hint, const OwnedProblem& problem) {
  const auto within = [](int64_t index, int64_t extent) { return index < extent ? index : -1; };
  Focus focus;
  if (hint.output == "grad_weight") {
    focus.vocab = within(hint.row, problem.vocab());
  } else {
    focus.row = within(hint.row, problem.rows());
  }
  if (hint.output == "grad_weight" || hint.output == "grad_hidden") {
    focus.column = within(hint.column, problem.hidden_size());
  }
  return focus;
}

ShrinkSession::ShrinkSession(const OwnedProblem& problem, const Focus& focus,
                             const StillFails& still_fails, const ShrinkOptions& options)
    : result_{.problem = problem},
      focus_(focus),
      still_fails_(still_fails),
      options_(options),
      start_(std::chrono::steady_clock::now()),
      cost_(Cost(problem)),
      options_score_(OptionsScore(problem)),
      rank_sum_(RankSum(problem)) {}

bool ShrinkSession::Exhausted() const {
  if (result_.accepted >= options_.max_accepted || (options_.should_stop && options_.should_stop()))
    return true;
  if (options_.max_tries) return result_.tried >= *options_.max_tries;
  const auto excused = std::min<std::chrono::steady_clock::duration>(compiling_, options_.time_limit);
  return std::chrono::steady_clock::now() - start_ >= options_.time_limit + excused &&
         !Planted(HarnessDefect::kTimeLimitIgnored);
}

void ShrinkSession::AllowFirstCalls(int64_t most) {
  first_calls_allowed_ = most;
  refused_ = 0;
}

bool ShrinkSession::Confirm() {
  ++result_.tried;
  judged_.insert(Fingerprint(result_.problem));
  return still_fails_(result_.problem);
}

bool ShrinkSession::IsSimpler(const OwnedProblem& candidate) const {
  const int64_t cost = Cost(candidate);
  if (cost != cost_) return cost < cost_;
  const int64_t options_score = OptionsScore(candidate);
  if (options_score != options_score_) return options_score < options_score_;
  return RankSum(candidate) < rank_sum_;
}

bool ShrinkSession::Allows(bool new_shape) const {
  if (!new_shape || result_.first_calls < first_calls_allowed_ ||
      Planted(HarnessDefect::kShapesAreFree)) {
    return true;
  }
  // Where one new shape in four is compiled for, the others cost nothing.
  constexpr int64_t kEnough = 8;
  return new_shapes_ >= kEnough && 4 * result_.first_calls <= new_shapes_ &&
         result_.first_calls < options_.compiles->first_calls;
}

bool ShrinkSession::Try(OwnedProblem candidate, const Focus* focus) {
  if (Exhausted() || !IsSimpler(candidate) || Inconsistency(candidate)) return false;
  const bool new_shape = options_.compiles && options_.compiles->is_new(candidate);
  if (!Allows(new_shape)) {
    ++refused_;
    return false;
  }
  if (!judged_.insert(Fingerprint(candidate)).second) return false;
  ++result_.tried;
  const auto begin = std::chrono::steady_clock::now();
  const bool fails = still_fails_(candidate);
  const auto took = std::chrono::steady_clock::now() - begin;
  new_shapes_ += new_shape ? 1 : 0;
  if (options_.compiles && took >= options_.compiles->least) {
    result_.first_calls += new_shape ? 1 : 0;
    compiling_ += took;
  }
  if (!fails && !Planted(HarnessDefect::kPassingIsTaken)) return false;
  const bool audited = options_.audit && (result_.accepted + 1) % kAuditEvery == 0;
  if (audited && !options_.audit(candidate)) return false;
  ++result_.accepted;
  result_.problem = std::move(candidate);
  if (focus != nullptr) focus_ = *focus;
  cost_ = Cost(result_.problem);
  options_score_ = OptionsScore(result_.problem);
  rank_sum_ = RankSum(result_.problem);
  if (options_.on_accept) options_.on_accept(result_.problem);
  return true;
}

}  // namespace plumbline::fuzz
