// SPDX-License-Identifier: Apache-2.0

#include "tests/fuzz/builtin/mutant_exhibits.h"

#include <array>

namespace plumbline::fuzz::testing {
namespace {

constexpr std::array kExhibits = std::to_array<Exhibit>({
    {"hidden-tail-dropped",
     "v1 seed=90f3f63220ef3e9b n=1 v=1 h=17 values=cancel exp=10 label_dtype=int32 grads=random "
     "entropy_grads=random temperature=0x1p+1",
     "bound:lse", "h=16"},
    {"inputs-tf32",
     "v1 seed=fd8c41b1872b1d0c dtype=fp32 n=5 v=1 h=1 values=cancel exp=14 grads=none reduction=mean "
     "layout=hidden-major grad_stride=2",
     "bound:lse", "dtype=bf16"},
    {"weight-stride-assumed",
     "v1 seed=9c7887ddebf98332 dtype=fp32 n=1 v=2 h=1 values=confident exp=3 label_dtype=int32 "
     "entropy_grads=wide pad=1 fp32_grads=1",
     "non-finite:logprob", "pad=0"},
    {"row-offset-32", "v1 seed=1 n=2 v=3 h=2 exp=1 grads=none wide=hidden", "non-finite:logprob",
     "wide=none"},
    {"label-off-by-one",
     "v1 seed=e43bd9a68a7724fd dtype=fp32 n=1 v=2 h=1 values=lattice exp=1 pad=8 fp32_grads=1",
     "bound:logprob", "labels=last"},
    {"label-truncated",
     "v1 seed=7824df956b0119f9 dtype=fp16 n=5 v=1 h=1 exp=3 labels=invalid grads=random",
     "non-finite:logprob", "labels=random"},
    {"label-clamped",
     "v1 seed=824282258ef98463 n=5 v=1 h=1 values=constant exp=4 labels=invalid label_dtype=int32 "
     "grads=random pad=1",
     "non-finite:logprob", "labels=random"},
    {"label-shard-offset",
     "v1 seed=9a0725304cf169f0 n=1 v=128 h=1 values=huge temperature_per_row=1 layout=hidden-major "
     "grad_stride=2 fp32_grads=1",
     "bound:logprob", "labels=first"},
    {"label-in-tail-lost",
     "v1 seed=957743bbf1f34dd0 n=2 v=80 h=1 values=all-negative exp=4 label_dtype=int32 grad_stride=0",
     "sign:logprob", "labels=first"},
    {"ignore-index-fixed",
     "v1 seed=97a04c75add4d456 n=3 v=2 h=1 exp=3 labels=ignored-nan grads=wide entropy_grads=wide "
     "temperature=0x1p+1 grad_stride=0",
     "non-finite:logprob", "labels=random"},
    {"first-temperature-for-all",
     "v1 seed=cf89008bfe012ee6 dtype=fp16 n=2 v=1 h=2 values=constant exp=3 grads=random "
     "temperature_per_row=1",
     "bound:lse", "temperature_per_row=0"},
    {"first-grad-for-all",
     "v1 seed=3fe0d789aa017cc0 dtype=fp16 n=2 v=2 h=1 values=lattice grads=random entropy_grads=random",
     "bound:grad_hidden", "reduction=sum"},
    {"grad-stride-assumed",
     "v1 seed=d5da31797ef35f96 dtype=fp16 n=2 v=2 h=1 values=confident exp=26 labels=argmax "
     "entropy_grads=random grad_stride=2",
     "non-finite:grad_hidden", "grad_stride=1"},
    {"grad-broadcast-assumed",
     "v1 seed=97a04c75add4d456 n=3 v=2 h=1 exp=3 labels=ignored-nan grads=wide entropy_grads=wide "
     "temperature=0x1p+1 grad_stride=0",
     "bound:grad_hidden", "grad_stride=1"},
    {"invalid-row-unreported",
     "v1 seed=824282258ef98463 n=5 v=1 h=1 values=constant exp=4 labels=invalid label_dtype=int32 "
     "grads=random pad=1",
     "status:first_invalid_row", "labels=random"},
    {"invalid-row-forgotten",
     "v1 seed=824282258ef98463 n=5 v=1 h=1 values=constant exp=4 labels=invalid label_dtype=int32 "
     "grads=random pad=1",
     "non-finite:grad_weight", "labels=random"},
    {"tail-unmasked",
     "v1 seed=d8b4e6d626de65d8 dtype=fp16 n=1 v=1 h=1 values=lattice exp=4 labels=last "
     "layout=hidden-major fp32_grads=1",
     "bound:logprob", "v=64"},
    {"tail-sentinel",
     "v1 seed=943e5144363e8d78 n=4 v=1 h=1 values=huge exp=53 label_dtype=int32 temperature=0x1p+1 "
     "pad=8",
     "bound:logprob", "v=16"},
    {"tail-dropped",
     "v1 seed=5a11df3c48addb5a dtype=fp32 n=1 v=77 h=1 values=lattice label_dtype=int32 grads=wide "
     "pad=1",
     "bound:logprob", "v=16"},
    {"backward-tail-unmasked",
     "v1 seed=d8b4e6d626de65d8 dtype=fp16 n=1 v=1 h=1 values=lattice exp=4 labels=last "
     "layout=hidden-major fp32_grads=1",
     "bound:grad_hidden", "grads=none"},
    {"max-from-zero",
     "v1 seed=239f6d913c1942b0 n=1 v=1 h=1 values=lattice exp=4 labels=first entropy_grads=random "
     "reduction=sum temperature=0x1.4p+3 fp32_grads=1",
     "bound:loss", "temperature=1"},
    {"max-from-sentinel",
     "v1 seed=943e5144363e8d78 n=4 v=1 h=1 values=huge exp=53 label_dtype=int32 temperature=0x1p+1 "
     "pad=8",
     "non-finite:logprob", "v=16"},
    {"merge-max-from-zero",
     "v1 seed=84678530c6f315d4 n=1 v=97 h=1 values=all-negative exp=8 label_dtype=int32 grads=random "
     "temperature_per_row=1 pad=8 fp32_grads=1",
     "non-finite:logprob", "v=16"},
    {"empty-tile-nan",
     "v1 seed=d3f79e09bbd28b03 n=3 v=65 h=5 exp=3 labels=some-ignored grads=random temperature=0x1p-1 "
     "special=minus-inf",
     "non-finite:logprob", "special=none"},
    {"logits-rounded",
     "v1 seed=e43bd9a68a7724fd dtype=fp32 n=1 v=2 h=1 values=lattice exp=1 pad=8 fp32_grads=1",
     "bound:logprob", "dtype=bf16"},
    {"logits-fp16", "v1 seed=8ddca03048a9a18c n=1 v=1 h=1 values=huge labels=first fp32_grads=1",
     "non-finite:logprob", "values=lattice"},
    {"nan-dropped",
     "v1 seed=df6b7e79cb8b9b99 n=6 v=3 h=2 exp=2 labels=first grads=random temperature=0x1.4cccccp+0 "
     "pad=3 special=weight-nan",
     "non-finite:logprob", "special=none"},
    {"infinity-clamped",
     "v1 seed=d4df27be3f082bbd dtype=fp32 n=7 v=3 h=1 exp=-2 labels=some-ignored grads=random "
     "entropy_grads=random layout=hidden-major special=plus-inf",
     "non-finite:logprob", "special=none"},
    {"exponential-flushed",
     "v1 seed=bbb7b8364d05e62e n=2 v=6 h=1 values=small-lse exp=6 labels=argmax grads=random "
     "entropy_grads=random pad=3 fp32_grads=1",
     "bound:grad_weight", "exp=8"},
    {"exponential-base",
     "v1 seed=9c7887ddebf98332 dtype=fp32 n=1 v=2 h=1 values=confident exp=3 label_dtype=int32 "
     "entropy_grads=wide pad=1 fp32_grads=1",
     "bound:logprob", "exp=0"},
    {"entropy-not-rebased",
     "v1 seed=5a11df3c48addb5a dtype=fp32 n=1 v=77 h=1 values=lattice label_dtype=int32 grads=wide "
     "pad=1",
     "bound:entropy", "v=16"},
    {"entropy-p-log-p", "v1 seed=56dc4f356f0937ae n=1 v=3 h=1 values=huge exp=8 labels=argmax",
     "non-finite:entropy", "values=constant"},
    {"stale-scratch", "v1 seed=21d0bd0d9cb80d4f dtype=fp32 n=2 v=2 h=1 values=lattice exp=3 grads=none",
     "bound:entropy", "n=1"},
    {"splits-not-merged",
     "v1 seed=5a11df3c48addb5a dtype=fp32 n=1 v=77 h=1 values=lattice label_dtype=int32 grads=wide "
     "pad=1",
     "bound:logprob", "v=16"},
    {"odd-split-dropped",
     "v1 seed=d47452345cca1d2a n=1 v=133 h=1 values=small-lse exp=4 label_dtype=int32 "
     "entropy_grads=random reduction=mean temperature_per_row=1 pad=3",
     "bound:entropy", "v=128"},
    {"large-vocab-unmerged", "v1 seed=1 n=1 v=65600 h=1 exp=1 grads=none", "bound:logprob", "v=32768"},
    {"merge-without-rescale",
     "v1 seed=5a11df3c48addb5a dtype=fp32 n=1 v=77 h=1 values=lattice label_dtype=int32 grads=wide "
     "pad=1",
     "bound:logprob", "v=16"},
    {"merge-order-by-run",
     "v1 seed=3779361fdfe9ea61 n=1 v=249 h=1 values=confident exp=13 labels=argmax grads=random "
     "entropy_grads=random layout=hidden-major fp32_grads=1",
     "nondeterministic:entropy", "v=16"},
    {"merge-order-by-batch",
     "v1 seed=276966087bba5d99 dtype=fp32 n=2 v=192 h=1 values=lattice exp=2 label_dtype=int32 "
     "grads=random entropy_grads=ones layout=hidden-major",
     "batch-variant:entropy", "dtype=bf16"},
    {"plain-logprob",
     "v1 seed=9dd891fe55c5c2f1 dtype=fp16 n=1 v=3 h=1 values=lattice exp=5 grads=random",
     "bound:logprob", "v=16"},
    {"plain-entropy",
     "v1 seed=52c5ada6397e6790 n=1 v=2 h=1 values=confident exp=17 labels=argmax pad=3 fp32_grads=1",
     "bound:entropy", "exp=0"},
    {"label-temperature",
     "v1 seed=dd8f6d0b92ad26c3 dtype=fp32 n=2 v=3 h=1 exp=-1 label_dtype=int32 grads=one-hot "
     "entropy_grads=random temperature=0x1p+1 fp32_grads=1",
     "bound:logprob", "temperature=1"},
    {"lse-temperature",
     "v1 seed=239f6d913c1942b0 n=1 v=1 h=1 values=lattice exp=4 labels=first entropy_grads=random "
     "reduction=sum temperature=0x1.4p+3 fp32_grads=1",
     "bound:lse", "temperature=1"},
    {"logprob-rounded",
     "v1 seed=9c7887ddebf98332 dtype=fp32 n=1 v=2 h=1 values=confident exp=3 label_dtype=int32 "
     "entropy_grads=wide pad=1 fp32_grads=1",
     "bound:logprob", "reduction=sum"},
    {"saved-sum-rounded",
     "v1 seed=9c7887ddebf98332 dtype=fp32 n=1 v=2 h=1 values=confident exp=3 label_dtype=int32 "
     "entropy_grads=wide pad=1 fp32_grads=1",
     "bound:grad_hidden", "exp=0"},
    {"ignored-row-leaks",
     "v1 seed=97a04c75add4d456 n=3 v=2 h=1 exp=3 labels=ignored-nan grads=wide entropy_grads=wide "
     "temperature=0x1p+1 grad_stride=0",
     "non-finite:grad_weight", "labels=random"},
    {"ignored-row-unwritten",
     "v1 seed=f90fb7f9e73e76fb dtype=fp32 n=1 v=2 h=2 values=huge labels=some-ignored "
     "temperature=0x1p+1 temperature_per_row=1",
     "non-finite:logprob", "labels=random"},
    {"ignored-row-entropy",
     "v1 seed=97a04c75add4d456 n=3 v=2 h=1 exp=3 labels=ignored-nan grads=wide entropy_grads=wide "
     "temperature=0x1p+1 grad_stride=0",
     "non-finite:entropy", "labels=random"},
    {"rows-beyond-grid", "v1 seed=1 n=65537 v=2 h=1 exp=1 grads=none", "non-finite:logprob", "n=65535"},
    {"padding-scratch",
     "v1 seed=e04f60a0214658a8 n=3 v=1 h=1 exp=3 labels=argmax label_dtype=int32 grads=wide "
     "entropy_grads=first-zero pad=1",
     "guard-band", "pad=0"},
    {"output-overrun",
     "v1 seed=d8b4e6d626de65d8 dtype=fp16 n=1 v=1 h=1 values=lattice exp=4 labels=last "
     "layout=hidden-major fp32_grads=1",
     "guard-band", "reduction=sum"},
    {"mean-over-all-rows",
     "v1 seed=b9c85881dcca9318 dtype=fp32 n=2 v=4 h=2 values=small-lse exp=2 labels=some-ignored "
     "label_dtype=int32 reduction=mean temperature_per_row=1",
     "bound:loss", "reduction=none"},
    {"chunk-means-added",
     "v1 seed=cd8362119e247aef dtype=fp16 n=7 v=3 h=1 values=all-negative exp=14 label_dtype=int32 "
     "grads=none reduction=mean",
     "bound:loss", "reduction=none"},
    {"mean-of-nothing",
     "v1 seed=aa6f104a78aeb70c dtype=fp16 n=5 v=1 h=4 labels=all-ignored grads=wide reduction=mean "
     "layout=hidden-major pad=3 grad_stride=2",
     "non-finite:loss", "reduction=none"},
    {"loss-rounded",
     "v1 seed=3a845ea0f388191d dtype=fp32 n=1 v=3 h=1 values=confident exp=17 labels=first "
     "label_dtype=int32 grads=random entropy_grads=random reduction=mean fp32_grads=1",
     "bound:loss", "reduction=none"},
    {"loss-grad-sign",
     "v1 seed=3a845ea0f388191d dtype=fp32 n=1 v=3 h=1 values=confident exp=17 labels=first "
     "label_dtype=int32 grads=random entropy_grads=random reduction=mean fp32_grads=1",
     "bound:grad_hidden", "reduction=none"},
    {"mean-grad-undivided",
     "v1 seed=11c1f874d4ed969e dtype=fp16 n=2 v=3 h=1 values=confident exp=1 labels=argmax "
     "reduction=mean layout=hidden-major grad_stride=0 fp32_grads=1",
     "bound:grad_hidden", "reduction=none"},
    {"mean-grad-over-all-rows",
     "v1 seed=b9c85881dcca9318 dtype=fp32 n=2 v=4 h=2 values=small-lse exp=2 labels=some-ignored "
     "label_dtype=int32 reduction=mean temperature_per_row=1",
     "bound:grad_hidden", "reduction=none"},
    {"plain-grad-divided",
     "v1 seed=3fe0d789aa017cc0 dtype=fp16 n=2 v=2 h=1 values=lattice grads=random entropy_grads=random",
     "bound:grad_hidden", "reduction=sum"},
    {"grad-in-place",
     "v1 seed=239f6d913c1942b0 n=1 v=1 h=1 values=lattice exp=4 labels=first entropy_grads=random "
     "reduction=sum temperature=0x1.4p+3 fp32_grads=1",
     "input-written", "reduction=none"},
    {"grad-twice",
     "v1 seed=c0cac81d5acc4ed5 dtype=fp16 n=1 v=2 h=1 values=confident exp=22 labels=argmax "
     "grads=random entropy_grads=random pad=1 fp32_grads=1",
     "bound:grad_weight", "grads=ones"},
    {"logprob-grad-dropped",
     "v1 seed=c0cac81d5acc4ed5 dtype=fp16 n=1 v=2 h=1 values=confident exp=22 labels=argmax "
     "grads=random entropy_grads=random pad=1 fp32_grads=1",
     "bound:grad_weight", "entropy_grads=none"},
    {"entropy-grad-dropped",
     "v1 seed=9c7887ddebf98332 dtype=fp32 n=1 v=2 h=1 values=confident exp=3 label_dtype=int32 "
     "entropy_grads=wide pad=1 fp32_grads=1",
     "bound:grad_hidden", "entropy_grads=none"},
    {"entropy-grad-extra-one",
     "v1 seed=239f6d913c1942b0 n=1 v=1 h=1 values=lattice exp=4 labels=first entropy_grads=random "
     "reduction=sum temperature=0x1.4p+3 fp32_grads=1",
     "bound:grad_hidden", "entropy_grads=none"},
    {"entropy-grad-without-h",
     "v1 seed=9c7887ddebf98332 dtype=fp32 n=1 v=2 h=1 values=confident exp=3 label_dtype=int32 "
     "entropy_grads=wide pad=1 fp32_grads=1",
     "bound:grad_hidden", "entropy_grads=none"},
    {"entropy-grad-p-log-p",
     "v1 seed=1ada7ed77ec01277 n=3 v=3 h=1 values=lattice exp=5 entropy_grads=ones",
     "non-finite:grad_hidden", "entropy_grads=none"},
    {"backward-temperature",
     "v1 seed=3ad56ca1fe8336ee n=1 v=2 h=2 values=confident exp=17 labels=argmax temperature=0x1p+1 "
     "fp32_grads=1",
     "bound:grad_hidden", "temperature=1"},
    {"temperature-twice",
     "v1 seed=d57a4fe02ea8667d dtype=fp16 n=1 v=2 h=2 values=confident exp=5 labels=argmax "
     "grads=random entropy_grads=random temperature=0x1p+1",
     "bound:grad_hidden", "temperature=1"},
    {"probability-rounded",
     "v1 seed=9c7887ddebf98332 dtype=fp32 n=1 v=2 h=1 values=confident exp=3 label_dtype=int32 "
     "entropy_grads=wide pad=1 fp32_grads=1",
     "bound:grad_hidden", "exp=0"},
    {"d-logits-rounded",
     "v1 seed=9c7887ddebf98332 dtype=fp32 n=1 v=2 h=1 values=confident exp=3 label_dtype=int32 "
     "entropy_grads=wide pad=1 fp32_grads=1",
     "bound:grad_hidden", "dtype=bf16"},
    {"small-p-skipped", "v1 seed=d95fbab569b53ee8 n=1 v=2 h=1 values=confident exp=18 fp32_grads=1",
     "bound:grad_weight", "labels=first"},
    {"first-ignored-stops-all",
     "v1 seed=a3fe6d4fffd017bf dtype=fp32 n=2 v=2 h=2 exp=2 labels=some-ignored layout=hidden-major "
     "pad=1",
     "bound:grad_hidden", "labels=random"},
    {"ignored-row-backward",
     "v1 seed=f90fb7f9e73e76fb dtype=fp32 n=1 v=2 h=2 values=huge labels=some-ignored "
     "temperature=0x1p+1 temperature_per_row=1",
     "not-zero:grad_hidden", "labels=random"},
    {"zero-grad-unwritten",
     "v1 seed=80a540f64a5d4610 dtype=fp16 n=3 v=3 h=1 values=lattice exp=3 grads=first-zero "
     "temperature=0x1p-1 pad=8 grad_stride=2 fp32_grads=1",
     "not-zero:grad_hidden", "grads=ones"},
    {"early-return",
     "v1 seed=f90fb7f9e73e76fb dtype=fp32 n=1 v=2 h=2 values=huge labels=some-ignored "
     "temperature=0x1p+1 temperature_per_row=1",
     "not-zero:grad_hidden", "labels=random"},
    {"grad-hidden-accumulator",
     "v1 seed=9c7887ddebf98332 dtype=fp32 n=1 v=2 h=1 values=confident exp=3 label_dtype=int32 "
     "entropy_grads=wide pad=1 fp32_grads=1",
     "bound:grad_hidden", "exp=0"},
    {"grad-hidden-partial",
     "v1 seed=91bce45b44a75428 dtype=fp16 n=1 v=1025 h=1 exp=3 label_dtype=int32 grads=random "
     "layout=hidden-major pad=3",
     "bound:grad_hidden", "grads=none"},
    {"grad-weight-accumulator",
     "v1 seed=9c7887ddebf98332 dtype=fp32 n=1 v=2 h=1 values=confident exp=3 label_dtype=int32 "
     "entropy_grads=wide pad=1 fp32_grads=1",
     "bound:grad_weight", "exp=0"},
    {"grad-weight-row-tail",
     "v1 seed=9c7887ddebf98332 dtype=fp32 n=1 v=2 h=1 values=confident exp=3 label_dtype=int32 "
     "entropy_grads=wide pad=1 fp32_grads=1",
     "bound:grad_weight", "n=4"},
    {"grad-weight-tail-unwritten",
     "v1 seed=d8b4e6d626de65d8 dtype=fp16 n=1 v=1 h=1 values=lattice exp=4 labels=last "
     "layout=hidden-major fp32_grads=1",
     "non-finite:grad_weight", "grads=none"},
});

}  // namespace

std::span<const Exhibit> Exhibits() { return kExhibits; }

}  // namespace plumbline::fuzz::testing
