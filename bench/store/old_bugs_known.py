# SPDX-License-Identifier: Apache-2.0
"""Known defects of public kernels: the release that has each, the one that mends it, and which finding is it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Bug:
    """A known defect. `shows` is a regular expression on `SIGNATURE: WORDS` of a finding, or of a part of one."""

    package: str  # its name on the index, also the project's
    has: str  # the release that is hunted
    mends: str  # the release that is its control
    public: str  # issue or pull request
    wrong: str
    target: str  # MODULE:FUNCTION
    shows: str
    requires: tuple[str, ...] = ()  # by pip, besides PyTorch, Triton, NumPy and what these need
    interpreted: bool = False  # a Triton kernel, in Triton's interpreter
    gpu: bool = False  # it takes a GPU to be seen
    note: str = ""  # what else is to be known


# What these projects need of other packages to be imported.
_VERL = ("tensordict==0.15.3", "ray==2.60.0", "omegaconf==2.3.1", "hydra-core==1.3.8", "transformers==5.24.0",
         "codetiming==1.4.0")
_TRL = ("accelerate==1.15.0", "datasets==5.2.0", "transformers==5.24.0")
_DEEPSPEED = ("hjson==3.1.0", "msgpack==1.2.4", "ninja==1.13.2", "py-cpuinfo==9.0.0", "psutil==7.2.2", "pydantic==2.14.4",
              "tqdm==4.70.1", "einops==0.8.2")
# A gradient that is wrong by its own size: logits rounded to bf16, which are in every release, err by less.
_FAR_OFF = r"^bound:grad_(hidden|weight): .*off by (\d{3,}|\d\S*e\+\d+) times the bound"
_FUNCTIONAL = "liger_kernel.transformers.functional:liger_fused_linear_cross_entropy"

BUGS = {
    "trl-entropy-gradient": Bug(
        "trl", "1.12.0", "1.13.0", "huggingface/trl#6625",
        "Backward takes the upstream gradient of the entropy and does not use it.",
        "trl_trainer_functions:chunked_logprob", r"^bound:grad_(hidden|weight): \S+, \d+\] = -?0 where", _TRL),
    "verl-phantom-columns": Bug(
        "verl", "0.7.0", "0.7.1", "verl-project/verl#2656, #2899, #5349",
        "Columns past the vocabulary, up to the end of the last tile, enter the sum of exponentials as exp(0 - m).",
        "verl_on_cpu:linear_cross_entropy", r"^bound:(logprob|loss|entropy|lse): ", _VERL, interpreted=True,
        note="0.7.1 has NaN and infinities where every logit is negative: its maximum starts from 0 (#7439, open)."),
    "verl-phantom-columns-compiled": Bug(
        "verl", "0.7.0", "0.7.1", "verl-project/verl#2656, #2899, #5349", "The same kernel, by its own name.",
        "verl.utils.kernel.linear_cross_entropy:linear_cross_entropy", r"^bound:(logprob|loss|entropy|lse): ", _VERL,
        gpu=True),
    "verl-hidden-gradient": Bug(
        "verl", "0.8.0", "0.9.0", "verl-project/verl#3765, #7235",
        "No gradient is given to a hidden of three dimensions that is copied when it is flattened.",
        "verl_functions:time_major", r"no gradient reaches hidden", _VERL),
    "liger-no-grad": Bug(
        "liger-kernel", "0.6.3", "0.6.4", "linkedin/Liger-Kernel#930",
        "Forward raises UnboundLocalError where hidden needs no gradient.",
        _FUNCTIONAL, r"UnboundLocalError: .*grad_weight", interpreted=True),
    "liger-nothing-counted": Bug(
        "liger-kernel", "0.2.1", "0.3.0", "linkedin/Liger-Kernel#177",
        "Forward raises ZeroDivisionError where every label is ignore_index.",
        "liger_kernel.ops.fused_linear_cross_entropy:LigerFusedLinearCrossEntropyFunction",
        r"ZeroDivisionError", interpreted=True,
        note="Another failure of these versions: a second backward finds scaled gradients."),
    "liger-first-gradient": Bug(
        "liger-kernel", "0.8.0", "0.8.2", "linkedin/Liger-Kernel#968, #1298",
        "With reduction none backward multiplies every gradient by the upstream gradient of the first row.",
        _FUNCTIONAL, _FAR_OFF, interpreted=True),
    "liger-first-gradient-of-logits": Bug(
        "liger-kernel", "0.5.8", "0.5.9", "linkedin/Liger-Kernel#678, #680",
        "The same of the cross-entropy of logits.",
        "liger_functions:cross_entropy", _FAR_OFF, ("transformers==4.51.3",), interpreted=True),
    "liger-none-is-summed": Bug(
        "liger-kernel", "0.4.2", "0.5.3", "linkedin/Liger-Kernel#421, #435",
        "With reduction none the losses of all rows come back as their sum.",
        "liger_functions:cross_entropy", r"status[^ ]*: .*has shape \[\] where", ("transformers==4.46.3",), interpreted=True,
        note="Mended in 0.5.0, which takes trl to be imported; 0.5.2 returns 0 in the interpreter (#507, #508)."),
    "deepspeed-shard-means": Bug(
        "deepspeed", "0.19.7", "0.19.8", "deepspeedai/DeepSpeed#8587",
        "Backward differentiates the mean of each shard of the rows and divides by the number of shards, where forward "
        "weights the shards by their rows that count.",
        "deepspeed_functions:tiled_loss", r"^bound:grad_(hidden|weight): ", _DEEPSPEED,
        note="0.19.8 removes the function; the control is the loss that it called for each shard, on all rows."),
    "nemo-chunk-means": Bug(
        "nemo-automodel", "0.6.0", "0.7.0", "NVIDIA-NeMo/Automodel#3803",
        "With reduction mean the means of chunks of 32 rows are added, with none their rows.",
        "nemo_functions:chunked", r"^status[^ ]*: .*(must match the size of tensor b|has shape \[)",
        ("transformers==5.24.0",),
        note="The issue is open, without a word of a maintainer; 0.7.0 has other code."),
}
