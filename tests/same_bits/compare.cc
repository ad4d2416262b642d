// SPDX-License-Identifier: Apache-2.0

#include "tests/same_bits/compare.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "fuzz/base/text.h"
#include "fuzz/examine/output_bits.h"
#include "fuzz/examine/placement.h"
#include "fuzz/target/interface/views.h"
#include "kernel/dtype.h"
#include "kernel/saved_header.h"
#include "tests/same_bits/infinite_labels.h"

namespace plumbline::same_bits {
namespace {

using fuzz::Text;

// In the order of OutputBits.
constexpr std::array<std::string_view, 7> kOutputs = {
    "logprob", "loss", "entropy", "lse", "grad_hidden", "grad_weight", "first_invalid_row"};

constexpr size_t kGradHidden = 4, kGradWeight = 5;

constexpr std::byte kScratchFill[2] = {std::byte{0xff}, std::byte{0x5a}};

// Aligned as targets expect workspace and saved state.
class Scratch {
 public:
  explicit Scratch(size_t size) : size_(size), bytes_(::operator new(size + 1, kAlignment)) {}
  ~Scratch() { ::operator delete(bytes_, kAlignment); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  void* Filled(std::byte with) {
    std::memset(bytes_, std::to_integer<int>(with), size_);
    return bytes_;
  }

 private:
  static constexpr std::align_val_t kAlignment{64};
  size_t size_;
  void* bytes_;
};

// What a call came to.
struct Answer {
  int status = PLUMBLINE_FAILED;
  std::string message;
  size_t workspace = 0, saved = 0;  // of sizes()
  bool operator==(const Answer&) const = default;
};

std::string Describe(const Answer& answer) {
  return Text("status %d, workspace %zu, saved %zu, message \"", answer.status, answer.workspace,
              answer.saved) +
         fuzz::Printable(answer.message) + "\"";
}

// Returns whether two answers are the same but for the header with which this tree's saved state
// begins.
bool AreSame(const Answer& older, Answer newer, Except except) {
  if (except == Except::kSizesAndMessages) return older.status == newer.status;
  if (older.saved > 0 && newer.saved == older.saved + sizeof(kernel::SavedHeader))
    newer.saved = older.saved;
  return older == newer;
}

template <class Call>
Answer Called(Call call) {
  std::array<char, 1024> error{};
  Answer answer;
  try {
    answer.status = call(error.data(), error.size());
  } catch (const std::exception& e) {
    return {PLUMBLINE_FAILED, std::string("threw: ") + e.what()};
  }
  error.back() = '\0';
  answer.message = error.data();
  return answer;
}

// What a round leaves behind.
struct Outcome {
  std::vector<Answer> answers;  // one a call
  fuzz::OutputBits bits;
  std::vector<std::byte> memory;
};

class Rounds {
 public:
  // Elements that belong to `excepted` may differ.
  Rounds(const fuzz::OwnedProblem& problem, Except except, std::vector<InfiniteLabel> excepted)
      : except_(except),
        placement_(problem),
        image_(placement_.GetImage()),
        excepted_(std::move(excepted)),
        changed_(excepted_.size(), false) {
    for (const auto& [from, to] : image_.stretches) bytes_ += to - from;
  }

  void Poison(int pattern) {
    if (!fresh_.empty()) Restore();
    placement_.Poison(pattern);
    pattern_ = pattern;
    fresh_ = Memory();
  }

  Outcome Run(const plumbline_target_v1& table) {
    Restore();
    fuzz::AbiCall call(placement_.problem(), placement_.results());
    return Left({Called([&](char* error, size_t capacity) {
      return table.run(call.problem(), call.results(), nullptr, error, capacity);
    })});
  }

  Outcome RunSplit(const plumbline_target_v1& table) {
    Restore();
    const kernel::Results& results = placement_.results();
    fuzz::AbiCall unsized(placement_.problem(), {});
    size_t sizes[2] = {};
    std::vector<Answer> answers;
    answers.push_back(
        Called([&](char*, size_t) { return table.sizes(unsized.problem(), &sizes[0], &sizes[1]); }));
    answers.back().workspace = sizes[0];
    answers.back().saved = sizes[1];
    if (answers.back().status != PLUMBLINE_OK) return Left(std::move(answers));

    fuzz::AbiCall call(placement_.problem(), results);
    Scratch workspace(sizes[0]), saved(sizes[1]);
    void* const saved_at = saved.Filled(kScratchFill[pattern_]);
    const auto add = [&](const auto& function) {
      void* const workspace_at = workspace.Filled(kScratchFill[pattern_]);
      answers.push_back(Called([&](char* error, size_t capacity) {
        return function(call.problem(), call.results(), workspace_at, saved_at, nullptr, error,
                        capacity);
      }));
      return answers.back().status == PLUMBLINE_OK;
    };
    if (add(table.forward) && (results.grad_hidden || results.grad_weight)) add(table.backward);
    return Left(std::move(answers));
  }

  // Excepted rows that differed in some round.
  int64_t changed() const { return std::ranges::count(changed_, true); }

  // Empty, or how the two differ; what was compared is counted.
  std::string Difference(const Outcome& older, const Outcome& newer, Counts* counts) {
    counts->calls += static_cast<int64_t>(std::max(older.answers.size(), newer.answers.size()));
    for (size_t i = 0; i < std::min(older.answers.size(), newer.answers.size()); ++i) {
      if (AreSame(older.answers[i], newer.answers[i], except_)) continue;
      return "old " + Describe(older.answers[i]) + "; new " + Describe(newer.answers[i]);
    }
    for (size_t o = 0; o < kOutputs.size(); ++o) {
      const fuzz::ElementBits &was = older.bits.outputs[o], &is = newer.bits.outputs[o];
      counts->outputs += was.empty() ? 0 : 1;
      counts->elements += static_cast<int64_t>(was.size());
      counts->output_bytes += static_cast<int64_t>(was.size() * was.width());
      if (was == is) continue;
      size_t at = 0;
      while (at < was.size() && (was[at] == is[at] || MayDiffer(o, at))) ++at;
      if (at == was.size()) continue;
      return Place(o, at) + Text(": old 0x%llx, new 0x%llx", static_cast<unsigned long long>(was[at]),
                                 static_cast<unsigned long long>(is[at]));
    }
    counts->memory_bytes += static_cast<int64_t>(bytes_);
    const auto [was, is] = std::ranges::mismatch(older.memory, newer.memory);
    if (was == older.memory.end()) return {};
    return Text("byte %td of inputs, padding and guard bands: old 0x%02x, new 0x%02x",
                was - older.memory.begin(), std::to_integer<unsigned>(*was),
                std::to_integer<unsigned>(*is));
  }

 private:
  // Whether an element that differs belongs to an excepted row, which is noted.
  bool MayDiffer(size_t output, size_t at) {
    if (output != kGradHidden && output != kGradWeight) return false;
    const int64_t row = static_cast<int64_t>(at) / placement_.problem().hidden_size();
    bool may = false;
    for (size_t e = 0; e < excepted_.size(); ++e) {
      if (row != (output == kGradHidden ? excepted_[e].row : excepted_[e].label)) continue;
      // A row of grad_weight is a sum over rows, so a row counts by its own grad_hidden if there is
      // one.
      changed_[e] = changed_[e] || output == kGradHidden || !placement_.results().grad_hidden;
      may = true;
    }
    return may;
  }

  // Overwrites the excepted elements, whose bits have been copied, so that memory can be compared.
  void Blank() {
    const kernel::Results& results = placement_.results();
    for (const InfiniteLabel& e : excepted_) {
      if (results.grad_hidden) BlankRow(*results.grad_hidden, e.row);
      if (results.grad_weight) BlankRow(*results.grad_weight, e.label);
    }
  }
  static void BlankRow(const kernel::Tensor& tensor, int64_t row) {
    const auto width = static_cast<int64_t>(kernel::SizeOf(tensor.dtype));
    for (int64_t d = 0; d < tensor.shape[1]; ++d) {
      const int64_t at = row * tensor.stride[0] + d * tensor.stride[1];
      std::memset(static_cast<std::byte*>(tensor.data) + at * width, 0, static_cast<size_t>(width));
    }
  }

  std::vector<std::byte> Memory() const {
    std::vector<std::byte> copy(bytes_);
    size_t at = 0;
    for (const auto& [from, to] : image_.stretches) {
      std::memcpy(copy.data() + at, image_.begin + from, to - from);
      at += to - from;
    }
    return copy;
  }

  void Restore() {
    size_t at = 0;
    for (const auto& [from, to] : image_.stretches) {
      std::memcpy(image_.begin + from, fresh_.data() + at, to - from);
      at += to - from;
    }
  }

  Outcome Left(std::vector<Answer> answers) {
    fuzz::OutputBits bits = fuzz::CopyBits(placement_.results());
    Blank();
    return {std::move(answers), std::move(bits), Memory()};
  }

  // "grad_weight[3, 0]" for the element at a place in row-major order.
  std::string Place(size_t output, size_t at) const {
    const kernel::Results& r = placement_.results();
    const std::optional<kernel::Tensor>* const tensors[] = {
        &r.logprob, &r.loss, &r.entropy, &r.lse, &r.grad_hidden, &r.grad_weight, &r.first_invalid_row};
    const kernel::Tensor& tensor = **tensors[output];
    const auto element = static_cast<int64_t>(at);
    if (tensor.rank == 0) return fuzz::Place(kOutputs[output], -1, -1);
    if (tensor.rank == 1) return fuzz::Place(kOutputs[output], element, -1);
    return fuzz::Place(kOutputs[output], element / tensor.shape[1], element % tensor.shape[1]);
  }

  Except except_;
  fuzz::Placement placement_;
  fuzz::Placement::Image image_;
  size_t bytes_ = 0;  // of all stretches
  int pattern_ = 0;
  std::vector<std::byte> fresh_;
  std::vector<InfiniteLabel> excepted_;
  std::vector<bool> changed_;  // by place in excepted_
};

}  // namespace

void Counts::Add(const Counts& other) {
  cases += other.cases;
  not_run += other.not_run;
  different += other.different;
  computed += other.computed;
  calls += other.calls;
  outputs += other.outputs;
  elements += other.elements;
  output_bytes += other.output_bytes;
  memory_bytes += other.memory_bytes;
  rows_excepted += other.rows_excepted;
  rows_changed += other.rows_changed;
}

std::string Compare(const fuzz::OwnedProblem& problem, const plumbline_target_v1& old_target,
                    const plumbline_target_v1& new_target, Except except, Counts* counts) {
  std::vector<InfiniteLabel> excepted;
  if (except == Except::kInfiniteLabels) excepted = InfiniteLabels(problem);
  const auto rows_excepted = static_cast<int64_t>(excepted.size());
  Rounds rounds(problem, except, std::move(excepted));
  bool computed = true;
  for (const int pattern : {0, 1}) {
    // For outputs alone one poison will do: an element that one of the two leaves has its bits.
    if (pattern == 1 && except == Except::kSizesAndMessages) break;
    rounds.Poison(pattern);
    for (const bool split : {false, true}) {
      const auto run = [&](const plumbline_target_v1& table) {
        return split ? rounds.RunSplit(table) : rounds.Run(table);
      };
      // Targets change places in the second round: what one leaves in freed memory, the other may find.
      const Outcome first = run(pattern == 0 ? old_target : new_target);
      const Outcome second = run(pattern == 0 ? new_target : old_target);
      const bool in_order = pattern == 0;
      const std::string difference =
          rounds.Difference(in_order ? first : second, in_order ? second : first, counts);
      if (!difference.empty()) {
        return Text("%s, poison %d: ", split ? "split form" : "run", pattern) + difference;
      }
      if (!split) computed = computed && first.answers[0].status == PLUMBLINE_OK;
    }
  }
  counts->computed += computed ? 1 : 0;
  counts->rows_excepted += rows_excepted;
  counts->rows_changed += rounds.changed();
  return {};
}

}  // namespace plumbline::same_bits
