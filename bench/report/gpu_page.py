# SPDX-License-Identifier: Apache-2.0
"""Fills bench/GPU.md: what the acceptance of the CUDA operator measured on one GPU, PyTorch's errors among it."""

from .markdown import table
from .stored import grouped, power

OUTPUTS = ["logprob", "entropy", "grad_hidden", "grad_weight"]


def probe_table(lines: list[dict]) -> str:
    return table(["fact", "claimed", "measured", "samples", "verdict"], "lllrl", (
        [each["what"], each["claim"], each["measured"], grouped(each["samples"]), each["verdict"]] for each in lines))


def name_of(way: str, dtype: str) -> str:
    """Returns what a table calls what tests/gpu/tightness.py compares."""
    if not way.startswith("torch"):
        return f"`{way}`"
    return "PyTorch, logits in " + (dtype if "inputs' dtype" in way else "fp32")


def torch_table(figures: list[dict]) -> str:
    """Returns the largest error over bound over all kinds of inputs and, in brackets, the error there; bold above 1."""
    rows = []
    for dtype, way in dict.fromkeys((each["dtype"], each["by"]) for each in figures):
        cells = []
        for output in OUTPUTS:
            top = max((each for each in figures if (each["dtype"], each["by"], each["output"]) == (dtype, way, output)),
                      key=lambda each: float(each["tightness"]))  # "inf" and "nan" are strings in JSON
            number = f"{float(top['tightness']):.3g}"
            error = "" if top["error"] is None else f" ({top['error']:.1e})"
            cells.append((f"**{number}**" if float(top["tightness"]) > 1 else number) + error)
        rows.append([dtype, name_of(way, dtype), *cells])
    return table(["inputs", "by", *OUTPUTS], "ll" + "r" * len(OUTPUTS), rows)


def sanitizer_table(stages: dict[str, dict]) -> str:
    """Returns what each tool said, after why it has not passed."""
    steps = stages.get("sanitizer", {}).get("steps", {}) | stages.get("races", {}).get("steps", {})
    rows = []
    for name, step in steps.items():
        result = step.get("result", {})
        says = [] if step["outcome"] == "passed" else [f"**{step['outcome']}**: {step['why']}"]
        if "runs" in result:
            says.append(result["summary"])
        rows.append([name, *(str(result.get(key, "")) for key in ("runs", "left_out")), "; ".join(says)])
    return table(["tool", "runs", "cases left out", "says"], "lrrl", rows)


def result_of(stages: dict, stage: str, step: str) -> dict:
    return stages[stage]["steps"][step]["result"]


def stage_table(stages: dict) -> str:
    return table(["stage", "outcome", "seconds"], "llr", (
        [name, stage["outcome"], f"{stage['seconds']:.0f}" if "seconds" in stage else ""] for name, stage in stages.items()))


def production_values(step: dict) -> dict[str, str]:
    result = step["result"]
    # A campaign that went on where it was stopped knows the seconds of its last part alone.
    seconds = "" if "--resume" in step["command"] else f", {result['oracle_seconds']:.1f} s of them in all"
    cases, elements = result["targets"][0]["cases"], result["targets"][0]["elements"]
    return {
        "production_cases": str(cases),
        "production_findings": str(result["findings"]),
        "production_elements": power(elements["pass"] + elements["fail"], 1),
        "production_targets": str(len(result["targets"])),
        "oracle_seconds": seconds,
    }


def values(acceptance: dict) -> dict[str, str]:
    stages = acceptance["stages"]
    campaign, figures = result_of(stages, "small", "campaign"), result_of(stages, "figures", "figures")
    probed = result_of(stages, "probe", "probe")["lines"]
    dots = [each["samples"] for each in probed if "model's bits" in each["claim"]]
    logits = [each["samples"] for each in probed if each["what"].startswith("cuda logits")]
    return {
        "verdict": acceptance["verdict"],
        "stages": stage_table(stages),
        "probe": probe_table(probed),
        "dots": power(sum(dots), 1),
        "logits": grouped(sum(logits)),
        "small_cases": grouped(campaign["cases"]),
        "small_findings": str(campaign["findings"]),
        "small_arbitrated": grouped(sum(each["arbitrated"] for each in campaign["targets"])),
        **production_values(stages["production"]["steps"]["production"]),
        "sanitizer": sanitizer_table(stages),
        "corpus_cases": str(result_of(stages, "corpus", "cuda")["cases"]),
        "shape": "{n} rows, V = {v}, H = {h}".format(**figures["shape"]),
        "torch": torch_table(figures["figures"]),
        "torch_version": figures["torch"],
    }
