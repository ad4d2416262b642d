// SPDX-License-Identifier: Apache-2.0

#include "fuzz/triage/shrink/session.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "fuzz/base/harness_defect.h"
#include "fuzz/base/mix.h"
#include "fuzz/triage/shrink/order.h"

namespace plumbline::fuzz {
namespace {

class Hash {
 public:
  void Add(uint64_t value) { state_ = Mix(state_, value); }

  void Add(const HostTensor& tensor) {
    Add(static_cast<uint64_t>(tensor.dtype));
    Add(tensor.shape.size());
    for (const int64_t extent : tensor.shape) Add(static_cast<uint64_t>(extent));
    const size_t size = tensor.bytes.size();
    for (size_t i = 0; i < size; i += 8) {
      uint64_t word = 0;
      std::memcpy(&word, tensor.bytes.data() + i, std::min<size_t>(8, size - i));
      // One multiplication a word keeps this fast: large problems are hashed for every candidate.
      state_ = (state_ ^ word) * 0x9e37'79b9'7f4a'7c15u;
      state_ ^= state_ >> 29;
    }
    Add(size);
  }

  void Add(const std::optional<HostTensor>& tensor) {
    Add(tensor.has_value() ? 1u : 0u);
    if (tensor) Add(*tensor);
  }

  uint64_t state() const { return state_; }

 private:
  uint64_t state_ = 0;
};

}  // namespace

uint64_t Fingerprint(const OwnedProblem& p) {
  Hash hash;
  hash.Add(p.hidden);
  hash.Add(p.weight);
  hash.Add(p.labels);
  hash.Add(p.temperature);
  hash.Add(p.grad_logprob);
  hash.Add(p.grad_entropy);
  for (const int64_t value :
       {p.ignore_index, static_cast<int64_t>(p.reduction), int64_t{p.layout.weight_hidden_major},
        p.layout.hidden_padding, p.layout.weight_padding, p.layout.label_offset, p.layout.grad_stride,
        p.layout.label_stride, p.layout.offset, int64_t{p.layout.reversed},
        int64_t{p.layout.hidden_broadcast}, int64_t{p.wanted.entropy}, int64_t{p.wanted.lse},
        int64_t{p.wanted.grad_hidden}, int64_t{p.wanted.grad_weight}, int64_t{p.wanted.fp32_grads}}) {
    hash.Add(static_cast<uint64_t>(value));
  }
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
    : best_(problem),
      focus_(focus),
      still_fails_(still_fails),
      options_(options),
      start_(std::chrono::steady_clock::now()),
      cost_(Cost(problem)),
      options_score_(OptionsScore(problem)),
      rank_sum_(RankSum(problem)) {}

double ShrinkSession::Seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

bool ShrinkSession::Exhausted() const {
  return accepted_ >= options_.max_accepted || (options_.should_stop && options_.should_stop()) ||
         (std::chrono::steady_clock::now() - start_ >= options_.time_limit &&
          !Planted(HarnessDefect::kTimeLimitIgnored));
}

bool ShrinkSession::Confirm() {
  ++tried_;
  judged_.insert(Fingerprint(best_));
  return still_fails_(best_);
}

bool ShrinkSession::IsSimpler(const OwnedProblem& candidate) const {
  const int64_t cost = Cost(candidate);
  if (cost != cost_) return cost < cost_;
  const int64_t options_score = OptionsScore(candidate);
  if (options_score != options_score_) return options_score < options_score_;
  return RankSum(candidate) < rank_sum_;
}

bool ShrinkSession::Try(OwnedProblem candidate, const Focus* focus) {
  if (Exhausted() || !IsSimpler(candidate) || Inconsistency(candidate)) return false;
  if (!judged_.insert(Fingerprint(candidate)).second) return false;
  ++tried_;
  if (!still_fails_(candidate) && !Planted(HarnessDefect::kPassingIsTaken)) return false;
  const bool audited = options_.audit && (accepted_ + 1) % kAuditEvery == 0;
  if (audited && !options_.audit(candidate)) return false;
  ++accepted_;
  best_ = std::move(candidate);
  if (focus != nullptr) focus_ = *focus;
  cost_ = Cost(best_);
  options_score_ = OptionsScore(best_);
  rank_sum_ = RankSum(best_);
  if (options_.on_accept) options_.on_accept(best_);
  return true;
}

}  // namespace plumbline::fuzz
