// SPDX-License-Identifier: Apache-2.0

#include "fuzz/targets/mutants.h"

#include <array>
#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>

#include "fuzz/targets/entry.h"
#include "fuzz/targets/host.h"
#include "fuzz/targets/host_hopper.h"
#include "kernel/host/operator.h"

namespace plumbline::fuzz {

using kernel::Problem, kernel::Results, kernel::Status;
using kernel::host::Defect;

// One instantiation of the host's stages for all mutants on one arithmetic. Has is not inline, so that
// its symbol tells which object files hold a defect; the operator's own must not (tests/kernel).
template <class DotPolicy>
struct PlantedDefect {
  using Dots = DotPolicy;
  Defect active;
  [[gnu::noinline]] bool Has(Defect defect) const { return defect == active; }
};

namespace {

struct Planted {
  Defect defect;
  std::string_view name;
  std::string_view what;
};

constexpr std::array kPlanted = {
    Planted{Defect::kTailUnmasked, "tail-unmasked",
            "columns past the vocabulary enter the last tile's sum as exp(0 - m) (verl #2656, #2899)"},
    Planted{Defect::kMaxFromZero, "max-from-zero",
            "the running maximum starts at 0, so very negative logits underflow (verl PR #7439)"},
    Planted{Defect::kPlainLogprob, "plain-logprob",
            "logprob = x_y - lse, which a common offset eats (PyTorch PR #195829)"},
    Planted{Defect::kLogitsRounded, "logits-rounded",
            "logits pass through bf16 before the softmax (Liger-Kernel #1432)"},
    Planted{Defect::kProbabilityRounded, "probability-rounded",
            "p is rounded to bf16 before 1 is subtracted at the label (Liger-Kernel #1419, #1329)"},
    Planted{Defect::kFirstGradForAll, "first-grad-for-all",
            "every row is scaled by grad_logprob[0] (Liger-Kernel #678, #968)"},
    Planted{
        Defect::kEntropyNotRebased, "entropy-not-rebased",
        "the entropy's sum is not moved when the running maximum moves (derived: no public bug known)"},
    Planted{
        Defect::kIgnoredRowLeaks, "ignored-row-leaks",
        "ignored rows are multiplied by zero, and 0 * NaN is NaN (derived from how masked GEMMs fail)"},
    Planted{Defect::kLabelOffByOne, "label-off-by-one",
            "a label is looked up one column further on (the class of verl #3512, #6068: labels that "
            "are shifted against logits)"},
    Planted{Defect::kBackwardTemperature, "backward-temperature",
            "d_logits are not divided by the temperature (the class of TRL #3029, verl #3133)"},
    Planted{Defect::kEntropyGradDropped, "entropy-grad-dropped",
            "grad_entropy is accepted and never used (TRL #6625)"},
    Planted{Defect::kGradHiddenAccumulator, "grad-hidden-accumulator",
            "grad_hidden is accumulated in bf16 over chunks of the vocabulary (Megatron #2739)"},
};

template <class Dots, size_t kIndex>
struct MutantOperator {
  static constexpr PlantedDefect<Dots> kDefect{kPlanted[kIndex].defect};

  static Status Run(const Problem& problem, const Results& results) {
    return kernel::host::RunImpl(problem, results, /*threads=*/0, kDefect);
  }
  static Status GetSizes(const Problem& problem, const Results& results, kernel::Sizes* sizes) {
    return kernel::GetSizes(problem, results, {}, sizes);
  }
  static Status Forward(const Problem& problem, const Results& results, void* workspace, void* saved) {
    return kernel::host::ForwardImpl(problem, results, /*threads=*/0, workspace, saved, kDefect);
  }
  static Status Backward(const Problem& problem, const Results& results, void* workspace,
                         const void* saved) {
    return kernel::host::BackwardImpl(problem, results, /*threads=*/0, workspace, saved, kDefect);
  }
  static const char* Describe() {
    constexpr bool kHost = std::is_same_v<Dots, kernel::host::FusedChains>;
    const std::string name(kPlanted[kIndex].name);
    static const std::string description =
        kHost ? HostDescription("mutant:" + name) : HostHopperDescription("hopper-mutant:" + name);
    return description.c_str();
  }
};

template <class Dots, size_t... kIndices>
auto MakeMutants(std::index_sequence<kIndices...>) {
  return std::array{Mutant{kPlanted[kIndices].name, kPlanted[kIndices].what,
                           Entry<MutantOperator<Dots, kIndices>>::Table()}...};
}

}  // namespace

std::span<const Mutant> Mutants() {
  static const auto mutants =
      MakeMutants<kernel::host::FusedChains>(std::make_index_sequence<kPlanted.size()>());
  return mutants;
}

std::span<const Mutant> HopperMutants() {
  static const auto mutants =
      MakeMutants<kernel::host::TensorCores>(std::make_index_sequence<kPlanted.size()>());
  return mutants;
}

}  // namespace plumbline::fuzz
