// SPDX-License-Identifier: Apache-2.0
//
// Hashes what the oracle requires of every output element (value, radius, bound and kind), so that the
// oracles of two revisions can be told to be the same. tests/same_bits/run builds it in either
// revision, so it uses names alone that both have.
//
// Every recipe has a contract of its own, drawn from all switches of oracle/contract.h. Cases of the
// corpus have 16 each.

#include <hwy/targets.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/base/mix.h"
#include "fuzz/cases/corpus.h"
#include "fuzz/cases/file.h"
#include "fuzz/recipe/expand/expand.h"
#include "fuzz/recipe/regimes.h"
#include "kernel/problem.h"
#include "oracle/contract.h"
#if __has_include("oracle/judge/expectation.h")  // in earlier revisions
#include "oracle/judge/expectation.h"
#else
#include "oracle/judge/judge.h"
#endif
#include "tests/same_bits/infinite_labels.h"

namespace plumbline::same_bits {
namespace {

constexpr const char* kUsage =
    "usage: elements CORPUS FIRST END SEED best|avx2|sse2 [--except-infinite-labels]\n"
    "Prints a hash for the corpus and for each hundred of the recipes FIRST to END - 1, as the oracle\n"
    "computes them with that instruction set; without the gradients of problems in which a label has "
    "a\n"
    "logit of -inf, where these are excepted. Exit status: 0 done, 2 usage, 3 it could not be done.\n";
constexpr int64_t kBatch = 100;

// Bits drawn one field after another.
class Draws {
 public:
  explicit Draws(uint64_t seed) : seed_(seed) {}
  // One of 0..count - 1.
  int Pick(int count) {
    return static_cast<int>(fuzz::Mix(seed_, next_++) % static_cast<uint64_t>(count));
  }
  template <class T>
  T Of(std::initializer_list<T> values) {
    return values.begin()[Pick(static_cast<int>(values.size()))];
  }
  bool Flip() { return Pick(2) == 1; }

 private:
  uint64_t seed_, next_ = 0;
};

oracle::Contract DrawContract(uint64_t seed) {
  using enum oracle::Accumulate;
  Draws draw(seed);
  oracle::Contract c;
  c.accumulate = draw.Of({kUnknown, kFp32, kFp32Truncated, kTensorCore});
  c.block = draw.Of({4, 8, 16});
  c.extra_bits = draw.Of({0, 1, 2});
  c.split = draw.Of({1, 1, 3});
  c.input_planes = draw.Of({1, 1, 3});
  c.input_rounding = draw.Of({0.0, 0.0, 0x1p-11});
  c.flush = draw.Of({oracle::Flush::kNone, oracle::Flush::kResults, oracle::Flush::kOperands});
  c.scale = draw.Of({oracle::Scale::kBefore, oracle::Scale::kAfter});
  c.scale_roundings = draw.Of({0.5, 1.0, 3.0});
  c.scale_exact_powers = draw.Flip();
  c.shift = draw.Of({oracle::Shift::kExactMax, oracle::Shift::kFusedStored, oracle::Shift::kOther});
  c.exp_error = draw.Of({1.0, 2.5, 4.0});
  c.exp_gradual = draw.Flip();
  c.log_error_absolute = draw.Of({0.0, 4.0});
  c.tile = draw.Of<int64_t>({1, 16, 128});
  c.tile_depth = draw.Of<int64_t>({0, 7});
  c.splits = draw.Of<int64_t>({1, 4});
  if (draw.Flip()) c.rescales = draw.Of<int64_t>({0, 2});
  c.label_logit_separate = draw.Flip();
  c.plain_logprob = draw.Pick(4) == 0;
  c.plain_entropy = draw.Pick(4) == 0;
  c.recompute_same_bits = draw.Flip();
  c.probability = draw.Of({oracle::Probability::kRatio, oracle::Probability::kExpOfLse});
  if (draw.Flip())
    c.d_logits = draw.Of({kernel::DType::kF32, kernel::DType::kBf16, kernel::DType::kF16});
  if (draw.Pick(4) == 0) {
    c.accumulator = draw.Of({kernel::DType::kBf16, kernel::DType::kF16});
    c.vocab_chunk = draw.Of<int64_t>({1, 64});
    c.row_chunk = draw.Of<int64_t>({1, 8});
  }
  return c;
}

// Results that ask for all outputs that the problem can have, or all but gradients. The oracle reads
// none.
kernel::Results AskAll(const fuzz::OwnedProblem& p, bool gradients_too) {
  const int64_t n = p.rows(), h = p.hidden_size(), v = p.vocab();
  const kernel::DType fp32 = kernel::DType::kF32;
  const kernel::DType gradients = p.wanted.fp32_grads ? fp32 : p.hidden.dtype;
  const kernel::Tensor row = {nullptr, fp32, 1, {n, 1}, {1, 1}};
  kernel::Results r;
  r.logprob = r.entropy = r.lse = row;
  if (p.reduction != kernel::Reduction::kNone) {
    r.loss = kernel::Tensor{nullptr, fp32, 0, {1, 1}, {1, 1}};
  }
  if (gradients_too && (p.grad_logprob || p.grad_entropy)) {
    r.grad_hidden = kernel::Tensor{nullptr, gradients, 2, {n, h}, {h, 1}};
    r.grad_weight = kernel::Tensor{nullptr, gradients, 2, {v, h}, {h, 1}};
  }
  return r;
}

// What the definition requires. Kinds from 7 on, which a revision before them does not have, say that a
// convention may decide: NaN for lse, else 0.
uint64_t Required(oracle::Expect expect) {
  const auto kind = static_cast<uint64_t>(expect);
  return kind < 7 ? kind
                  : static_cast<uint64_t>(kind == 7 ? oracle::Expect::kNaN : oracle::Expect::kFinite);
}

struct Sum {
  bool except_infinite_labels = false;
  uint64_t hash = 0;
  int64_t elements = 0;
  void Add(const fuzz::OwnedProblem& problem, const oracle::Contract& contract) {
    const bool gradients_too = !except_infinite_labels || InfiniteLabels(problem).empty();
    const oracle::Expectation all =
        oracle::Expected(fuzz::DenseView(problem), AskAll(problem, gradients_too), contract);
    Mix(static_cast<uint64_t>(all.first_invalid_row));
    for (const oracle::ExpectedTensor& tensor : all.outputs) {
      for (const oracle::Element& e : tensor.elements) {
        Mix(Required(e.expect));
        for (const double x : {e.value, e.radius, e.bound}) Mix(std::bit_cast<uint64_t>(x));
        ++elements;
      }
    }
  }
  void Mix(uint64_t word) { hash = fuzz::Mix(hash, word); }
  void Print(const std::string& what) const {
    std::printf("%s: %016llx, %lld elements\n", what.c_str(), static_cast<unsigned long long>(hash),
                static_cast<long long>(elements));
  }
};

void HashCorpus(const std::filesystem::path& folder, uint64_t seed, bool except) {
  Sum sum{except};
  uint64_t drawn = 0;
  for (const std::filesystem::path& path : fuzz::ListCases(folder).files) {
    std::string error;
    const auto read = fuzz::ReadCase(path, &error);
    if (!read) throw std::runtime_error(error);
    for (int i = 0; i < 16; ++i) sum.Add(read->problem, DrawContract(fuzz::Mix(~seed, drawn++)));
  }
  sum.Print("corpus");
}

void HashRecipes(int64_t first, int64_t end, uint64_t seed, bool except) {
  for (int64_t begin = first; begin < end; begin += kBatch) {
    Sum sum{except};
    for (int64_t i = begin; i < std::min(end, begin + kBatch); ++i) {
      const auto index = static_cast<uint64_t>(i);
      sum.Add(fuzz::Expand(fuzz::DrawRecipe(seed, index)), DrawContract(fuzz::Mix(seed, index)));
    }
    sum.Print("recipes from " + std::to_string(begin));
  }
}

int64_t Number(std::string_view text) {
  int64_t value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault == std::errc() && end == text.data() + text.size() && value >= 0) return value;
  throw std::invalid_argument(kUsage);
}

int Main(std::vector<std::string> words) {
  const bool except = !words.empty() && words.back() == "--except-infinite-labels";
  if (except) words.pop_back();
  if (words.size() != 5) throw std::invalid_argument(kUsage);
  constexpr int64_t kAvx512 = HWY_AVX2 - 1;
  if (words[4] == "avx2") {
    hwy::DisableTargets(kAvx512);
  } else if (words[4] == "sse2") {
    hwy::DisableTargets(kAvx512 | HWY_AVX2);
  } else if (words[4] != "best") {
    throw std::invalid_argument(kUsage);
  }
  const auto seed = static_cast<uint64_t>(Number(words[3]));
  HashCorpus(words[0], seed, except);
  HashRecipes(Number(words[1]), Number(words[2]), seed, except);
  return 0;
}

}  // namespace
}  // namespace plumbline::same_bits

int main(int argc, char** argv) {
  try {
    return plumbline::same_bits::Main(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const std::invalid_argument& e) {
    std::fprintf(stderr, "elements: %s\n", e.what());
    return 2;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "elements: %s\n", e.what());
    return 3;
  }
}
