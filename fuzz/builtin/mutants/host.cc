// SPDX-License-Identifier: Apache-2.0

#include "fuzz/builtin/mutants/mutants.h"

#include <array>
#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>

#include "fuzz/builtin/adapter.h"
#include "fuzz/builtin/host.h"
#include "fuzz/builtin/host_hopper.h"
#include "kernel/host/operator.h"

namespace plumbline::fuzz {

using kernel::Problem, kernel::Results, kernel::Status;
using kernel::host::Defect;

// The host's stages are instantiated once for all mutants on one arithmetic. Has is not inline, so that
// its symbol tells which object files hold a defect; the operator's own must not hold any
// (tests/kernel).
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
    Planted{Defect::kHiddenTailDropped, "hidden-tail-dropped",
            "the last H mod 16 products of a logit are left out (the class of verl's kernel, which "
            "refuses H that is no multiple of 128)"},
    Planted{Defect::kInputsRounded, "inputs-tf32",
            "fp32 inputs keep the 10 bits of TF32 in the logits (derived: what a GEMM library's "
            "default may do)"},
    Planted{Defect::kWeightStrideAssumed, "weight-stride-assumed",
            "weight is read as if nothing lay between its rows (the class of TransformerEngine #2746: "
            "one stride checked, another assumed)"},
    Planted{Defect::kRowOffset32, "row-offset-32",
            "row times stride of hidden does not fit (flash-attention #714, CCE #39, "
            "Liger-Kernel #251)"},
    Planted{Defect::kLabelOffByOne, "label-off-by-one",
            "a label is looked up one column further on (the class of verl #3512, #6068: labels that "
            "are shifted against logits)"},
    Planted{Defect::kLabelTruncated, "label-truncated",
            "the lower half of an int64 label is read (the class of Liger-Kernel #588: labels that are "
            "not checked as they came)"},
    Planted{Defect::kLabelClamped, "label-clamped",
            "a label outside the vocabulary is clamped into it and nobody told (Liger-Kernel #588; "
            "RL-Kernel #234, review)"},
    Planted{Defect::kLabelOfFirstSplit, "label-shard-offset",
            "a label's column lacks the offset of its part of the vocabulary (verl's test of tensor "
            "parallelism: labels in one shard only)"},
    Planted{Defect::kLabelInTailLost, "label-in-tail-lost",
            "a label in the last, incomplete tile is not found (the class of CCE PR #59: a label that "
            "meets padded columns)"},
    Planted{Defect::kIgnoreIndexFixed, "ignore-index-fixed",
            "ignore_index is accepted and never used: it is -100 (the class of Liger-Kernel #243: an "
            "argument that is not forwarded)"},
    Planted{Defect::kFirstTemperature, "first-temperature-for-all",
            "every row is divided by temperature[0] (the class of Liger-Kernel #678: a scalar load of "
            "a vector)"},
    Planted{Defect::kFirstGradForAll, "first-grad-for-all",
            "every row is scaled by grad_logprob[0] (Liger-Kernel #678, #968)"},
    Planted{Defect::kGradStrideTwo, "grad-stride-assumed",
            "upstream gradients of stride 2 are read with stride 1 (verl #6960)"},
    Planted{
        Defect::kGradStrideZero, "grad-broadcast-assumed",
        "a broadcast upstream gradient, of stride 0, is read with stride 1 (TransformerEngine #2402)"},
    Planted{Defect::kFirstInvalidUnreported, "invalid-row-unreported",
            "first_invalid_row says that every row is valid (the class of Liger-Kernel #588: a bad "
            "label must be loud)"},
    Planted{Defect::kInvalidRowForgotten, "invalid-row-forgotten",
            "an invalid row is left out of grad_weight instead of making it NaN (the class of PyTorch "
            "PR #195829, which poisons the row)"},
    Planted{Defect::kTailUnmasked, "tail-unmasked",
            "columns past the vocabulary enter the last tile's sum as exp(0 - m) (verl #2656, #2899)"},
    Planted{Defect::kTailSentinel, "tail-sentinel",
            "columns past the vocabulary are logits of -1e4 (the class of unsloth PR #10616: a mask "
            "that ends finite)"},
    Planted{Defect::kTailDropped, "tail-dropped",
            "the last, incomplete tile of the vocabulary is not read (the class of mlxcel #648: a grid "
            "computed wrong)"},
    Planted{Defect::kTailInSavedSum, "backward-tail-unmasked",
            "columns past the vocabulary enter the sum that backward divides by (verl #2656, where "
            "forward alone was mended)"},
    Planted{Defect::kMaxFromZero, "max-from-zero",
            "the running maximum starts at 0, so very negative logits underflow (verl PR #7439)"},
    Planted{Defect::kMaxFromSentinel, "max-from-sentinel",
            "the running maximum starts at -1e4 (the class of verl PR #7439, SkyRL #2141)"},
    Planted{Defect::kMergeMaxFromZero, "merge-max-from-zero",
            "the maximum over parts of the vocabulary starts at 0 (verl PR #7439: in both epilogues)"},
    Planted{Defect::kEmptyTileNaN, "empty-tile-nan",
            "a first tile of -inf logits gives (-inf) - (-inf) (flash-attention #1930)"},
    Planted{Defect::kLogitsRounded, "logits-rounded",
            "logits pass through bf16 before the softmax (Liger-Kernel #1432)"},
    Planted{Defect::kLogitsFp16, "logits-fp16",
            "logits pass through fp16 before the softmax (Liger-Kernel #1334, #1370: staged in shared "
            "memory)"},
    Planted{Defect::kNaNDropped, "nan-dropped",
            "a NaN logit counts as no column (the class of Highway 1.0.3: Exp(NaN) is 0)"},
    Planted{Defect::kInfinityClamped, "infinity-clamped",
            "a logit of +inf becomes the largest finite one, and the row looks clean (derived from how "
            "NaN are papered over)"},
    Planted{Defect::kExponentialFlushed, "exponential-flushed",
            "subnormal weights are flushed to 0 (the class of Liger-Kernel #1266: ex2.approx.ftz)"},
    Planted{
        Defect::kExponentialBase, "exponential-base",
        "exponentials are powers of two with log2 e rounded to bf16 (the class of Liger-Kernel #1266)"},
    Planted{
        Defect::kEntropyNotRebased, "entropy-not-rebased",
        "the entropy's sum is not moved when the running maximum moves (derived: no public bug known)"},
    Planted{Defect::kEntropyPLogP, "entropy-p-log-p", "p ln p is NaN at p = 0 (TRL #7221)"},
    Planted{Defect::kStaleScratch, "stale-scratch",
            "the entropy's sum starts from what the row before left behind (the class of mlx-lm #1700: "
            "scratch that is used again)"},
    Planted{Defect::kSplitsNotMerged, "splits-not-merged",
            "the first part of the vocabulary is taken for all (flash-attention abf04a56)"},
    Planted{Defect::kOddSplitDropped, "odd-split-dropped",
            "parts of the vocabulary are merged in pairs, and an odd last one is left out (the class "
            "of flash-attention aaa14741)"},
    Planted{Defect::kLargeVocabUnmerged, "large-vocab-unmerged",
            "beyond 32 768 columns the parts of the vocabulary are not merged (the class of "
            "flash-attention abf04a56: a path of its own above 64k)"},
    Planted{Defect::kMergeWithoutRescale, "merge-without-rescale",
            "sums under different maxima are added as they are (flashinfer #4796, review: the wrong "
            "maximum in a sum)"},
    Planted{Defect::kMergeOrderOfRun, "merge-order-by-run",
            "parts of the vocabulary are merged in an order that changes from run to run (CCE's "
            "forward: a spin lock)"},
    Planted{Defect::kMergeOrderOfBatch, "merge-order-by-batch",
            "parts of the vocabulary are merged in an order that depends on the number of rows "
            "(derived from how split counts are tuned)"},
    Planted{Defect::kPlainLogprob, "plain-logprob",
            "logprob = x_y - lse, which a common offset eats (PyTorch PR #195829)"},
    Planted{Defect::kPlainEntropy, "plain-entropy",
            "entropy = lse - sum p x, which a common offset eats (the same in the entropy: verl)"},
    Planted{Defect::kLabelTemperature, "label-temperature",
            "the label's logit is not divided by the temperature (verl #3133)"},
    Planted{Defect::kLseTemperature, "lse-temperature",
            "the maximum is not divided by the temperature in lse (the class of TRL #3029, unsloth-zoo "
            "#832)"},
    Planted{Defect::kLogprobRounded, "logprob-rounded",
            "logprob is stored with the bits of bf16 (verl #5662)"},
    Planted{Defect::kSavedRounded, "saved-sum-rounded",
            "backward divides by a sum saved with the bits of bf16 (the class of verl #5662: a buffer "
            "that inherits bf16)"},
    Planted{
        Defect::kIgnoredRowLeaks, "ignored-row-leaks",
        "ignored rows are multiplied by zero, and 0 * NaN is NaN (derived from how masked GEMMs fail)"},
    Planted{Defect::kIgnoredRowUnwritten, "ignored-row-unwritten",
            "the kernel returns early on an ignored row and writes nothing (Liger-Kernel #1338)"},
    Planted{Defect::kIgnoredRowEntropy, "ignored-row-entropy",
            "an ignored row has the entropy of its logits (derived: a mask applied to the loss alone)"},
    Planted{Defect::kRowsBeyondGrid, "rows-beyond-grid",
            "rows from 65 535 on are not computed (Liger-Kernel #1294, flash-linear-attention #1174: "
            "rows on grid.y)"},
    Planted{Defect::kPaddingScratch, "padding-scratch",
            "scratch is kept in the padding behind a row of hidden (the class of SkyRL #1648: modify, "
            "then restore)"},
    Planted{Defect::kOutputOverrun, "output-overrun",
            "logprob is written in groups of four rows, past its end (the class of flash-attention "
            "c79de85f: illegal access)"},
    Planted{Defect::kLossOverAllRows, "mean-over-all-rows",
            "the mean divides the loss by all rows (TransformerEngine #2476)"},
    Planted{Defect::kLossChunkMeans, "chunk-means-added",
            "the means of chunks of 4 rows are added up (NeMo Automodel #3803)"},
    Planted{Defect::kLossOfNothing, "mean-of-nothing",
            "the mean of no rows is 0 / 0 (unsloth-zoo #616, Liger-Kernel #153)"},
    Planted{Defect::kLossRounded, "loss-rounded",
            "loss is stored with the bits of bf16 (Liger-Kernel #1430)"},
    Planted{Defect::kLossGradSign, "loss-grad-sign",
            "the gradient of the loss is taken for that of the log-probability: the other sign (the "
            "class of flash-linear-attention #1073)"},
    Planted{
        Defect::kMeanGradUndivided, "mean-grad-undivided",
        "the gradient of a mean is not divided by the number of rows (the class of Megatron #1627)"},
    Planted{Defect::kMeanGradOverAllRows, "mean-grad-over-all-rows",
            "the gradient of a mean is divided by all rows (TransformerEngine #2476)"},
    Planted{
        Defect::kPlainGradDivided, "plain-grad-divided",
        "gradients are divided by the number of rows without a reduction (TransformerEngine #1879)"},
    Planted{Defect::kGradInPlace, "grad-in-place",
            "the upstream gradient is scaled in place (quack #209)"},
    Planted{Defect::kGradTwice, "grad-twice",
            "a row is scaled by its upstream gradient twice (the class of quack #209: saved gradients "
            "scaled again)"},
    Planted{Defect::kLogprobGradDropped, "logprob-grad-dropped",
            "grad_logprob is not used where grad_entropy is present (the mirror of TRL #6625)"},
    Planted{Defect::kEntropyGradDropped, "entropy-grad-dropped",
            "grad_entropy is accepted and never used (TRL #6625)"},
    Planted{Defect::kEntropyGradExtraOne, "entropy-grad-extra-one",
            "the entropy's gradient keeps the 1 that cancels (derived in verl's test of its kernel)"},
    Planted{Defect::kEntropyGradWithoutH, "entropy-grad-without-h",
            "the entropy's gradient lacks the entropy (derived in verl's test of its kernel)"},
    Planted{Defect::kEntropyGradPLogP, "entropy-grad-p-log-p",
            "the entropy's gradient is NaN at p = 0 (SkyRL #2259, VeOmni #720)"},
    Planted{Defect::kBackwardTemperature, "backward-temperature",
            "d_logits are not divided by the temperature (the class of TRL #3029, verl #3133)"},
    Planted{Defect::kTemperatureTwice, "temperature-twice",
            "the entropy's part of d_logits is divided by the temperature twice (the class of "
            "unsloth-zoo #930: a scale that backward has wrong)"},
    Planted{Defect::kProbabilityRounded, "probability-rounded",
            "p is rounded to bf16 before 1 is subtracted at the label (Liger-Kernel #1419, #1329)"},
    Planted{Defect::kDLogitsRounded, "d-logits-rounded",
            "d_logits of fp32 inputs pass through bf16 (the class of Liger-Kernel #1268, "
            "TransformerEngine #3193)"},
    Planted{Defect::kSmallPSkipped, "small-p-skipped",
            "columns with p < 2^-12 have no gradient (CCE #14, #18)"},
    Planted{Defect::kFirstIgnoredStopsAll, "first-ignored-stops-all",
            "where row 0 is ignored, no row has a gradient (Liger-Kernel #968)"},
    Planted{Defect::kIgnoredRowBackward, "ignored-row-backward",
            "backward does not look at ignore_index (the class of Liger-Kernel #1298: what forward "
            "masks, backward must)"},
    Planted{Defect::kZeroGradUnwritten, "zero-grad-unwritten",
            "a row without an upstream gradient is skipped and its grad_hidden not written (the class "
            "of Liger-Kernel #1338)"},
    Planted{Defect::kEarlyReturn, "early-return",
            "where no row takes part, neither gradient is written (the class of Liger-Kernel #1338, "
            "aiter #5165)"},
    Planted{Defect::kGradHiddenAccumulator, "grad-hidden-accumulator",
            "grad_hidden is accumulated in bf16 over chunks of the vocabulary (Megatron #2739)"},
    Planted{Defect::kGradHiddenPartial, "grad-hidden-partial",
            "grad_hidden keeps the last chunk of the vocabulary only (the class of CCE #42, SkyRL "
            "#1886: a partial sum)"},
    Planted{
        Defect::kGradWeightAccumulator, "grad-weight-accumulator",
        "grad_weight is accumulated in bf16 over chunks of rows (axolotl #1601, Liger-Kernel #512)"},
    Planted{Defect::kGradWeightRowTail, "grad-weight-row-tail",
            "the last N mod 4 rows have no part in grad_weight (derived: the depth of its product is "
            "cut to whole steps)"},
    Planted{Defect::kGradWeightTailUnwritten, "grad-weight-tail-unwritten",
            "the last V mod 16 rows of grad_weight are not written (the class of Liger-Kernel #1338)"},
};

template <class Dots, size_t kIndex>
struct MutantOperator {
  static constexpr PlantedDefect<Dots> kDefect{kPlanted[kIndex].defect};

  static constexpr DLDeviceType kDevice = kDLCPU;
  static Status Run(const Problem& problem, const Results& results, void*) {
    return kernel::host::RunImpl(problem, results, /*threads=*/0, kDefect);
  }
  static Status GetSizes(const Problem& problem, const Results& results, kernel::Sizes* sizes) {
    return kernel::GetSizes(problem, results, {}, sizes);
  }
  static Status Forward(const Problem& problem, const Results& results, void* workspace, void* saved,
                        void*) {
    return kernel::host::ForwardImpl(problem, results, /*threads=*/0, workspace, saved, kDefect);
  }
  static Status Backward(const Problem& problem, const Results& results, void* workspace,
                         const void* saved, void*) {
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
