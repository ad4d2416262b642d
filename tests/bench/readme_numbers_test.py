#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests README.md's section "How good", every number of which has a link to a stored result, or to a page made of them, and
its table of public kernels; and the numbers of kernel/WHY.md and kernel/TORCH.md."""

import re
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
from report import beside_fastest
from report.benchmark_entry import memory_of
from report.comparison_page import short_table
from report.pages import CAMPAIGNS, PAGES
from report.speed_page import HEAD, entries
from report.stored import ROOT, find
from report.tightness import campaigns, cell

SECTION = "How good"
LINK = re.compile(r"\[([^\]]*)\]\(([^)]*)\)")
STORED = re.compile("|".join([r"bench/results/[^/]+\.json", *(re.escape(page.path) for page in PAGES.values())]))
DIGITS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
NUMBER = re.compile(r"(?<![\w.^])\d")


def section(text: str) -> str:
    """Returns what stands under "## How good"; '' where there is no such heading."""
    found = re.search(rf"^## {SECTION}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return found[1] if found else ""


def items(text: str) -> list[str]:
    """Returns the rows of tables, items of lists and paragraphs that hold a number outside of a link's address. Names in
    backquotes, powers' exponents and what a table's head says are no numbers of ours."""
    blocks = re.split(r"\n\s*\n|\n(?=[*|-] ?)", text.strip())
    return [block for block in blocks if NUMBER.search(re.sub(r"`[^`]*`", "", LINK.sub(r"\1", block)))]


def figures(text: str) -> set[float]:
    """Returns the numbers in a text, 3·10⁵ and 10⁶ among them."""
    text = re.sub(r"(?<=\d) (?=\d{3}\b)", "", re.sub(r"`[^`]*`", "", LINK.sub(r"\1", text)))
    found = set()
    for mantissa, exponent in re.findall(r"(?<![\w.^⁻-])(\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)(?:·10([⁰¹²³⁴-⁹⁻]+))?", text):
        found.add(float(f"{mantissa}e{exponent.translate(DIGITS)}" if exponent else mantissa))
    return found | {float(f"1e{exponent.translate(DIGITS)}") for exponent in re.findall(r"(?<!·)10([⁰¹²³⁴-⁹⁻]+)", text)}


class ReadmeNumbers(unittest.TestCase):
    # Fails if the section is gone, has fewer than six numbers, or one without a link to a stored result that exists.
    def test_every_number_is_a_link(self):
        found = items(section((ROOT / "README.md").read_text(encoding="utf-8")))
        self.assertGreaterEqual(len(found), 6, f'README.md has no section "{SECTION}" with six numbers')
        for item in found:
            links = [target.split("#")[0] for _, target in LINK.findall(item) if ":" not in target]
            stored = [target for target in links if STORED.fullmatch(target)]
            self.assertTrue(stored, f"no link to a stored result: {item}")
            for target in links:
                self.assertTrue((ROOT / target).is_file(), f"{target} is not there: {item}")

    # Fails if a result was made anew and README.md still has the number of the one before.
    def test_every_number_is_in_what_it_links_to(self):
        for item in items(section((ROOT / "README.md").read_text(encoding="utf-8"))):
            linked = [target.split("#")[0] for _, target in LINK.findall(item) if ":" not in target]
            there = set().union(*(figures((ROOT / target).read_text(encoding="utf-8")) for target in linked))
            self.assertLessEqual(figures(item) - {10.0}, there, item)

    # Fails if the comparison was made anew and README.md still has the table of the one before.
    def test_the_comparison(self):
        self.assertIn(short_table(find("comparison.json").data["targets"]), (ROOT / "README.md").read_text(encoding="utf-8"))

    # Fails if one of these rows says another number than the results do, be it one that stands elsewhere in the page.
    def test_rows_say_what_was_measured(self):
        largest = max(value for pattern in CAMPAIGNS for tally in campaigns(find(pattern).data)
                      for (_, dtype), output, value in tally["tightness"] if (dtype, output) == ("bf16", "logprob"))
        speed = entries(find("regimes-h200.json").data)
        ratios = [speed[f"sustained/{name}/{HEAD}"]["ratio"] for name in ("forward", "backward")]
        steps = beside_fastest.figures(find("fastest-h200.json").data["shapes"])
        there = [row[5].split()[0] for row in steps if row[0] == HEAD]
        ranges = [sorted(row[5].split()[0] for row in steps if row[1] == regime) for regime in ("sustained", "burst")]
        found = find("selftest.json").data["result"]["statistics"]["mutants"]
        hunts, killed = (sum(defect[name] for defect in found) for name in ("hunts", "killed"))
        text = section((ROOT / "README.md").read_text(encoding="utf-8"))
        for row, says in [("largest error over bound", cell(largest)),
                          ("planted defects found", f"{killed} of {hunts}"),
                          ("forward; backward", "; ".join(f"{ratio:.2f}" for ratio in ratios)),
                          ("step with logits kept", "; ".join(there)),
                          ("… at eleven shapes", "; ".join(f"{found[0]} to {found[-1]}" for found in ranges))]:
            cells = re.findall(rf"^\| {row}[^|]*\| ([^|]*) \|", text, re.MULTILINE)
            self.assertEqual(cells, [says], row)

    # Fails if one of these results was made anew and kernel/WHY.md still says the numbers of the one before.
    def test_why_says_what_was_measured(self):
        bf16 = next(each for each in find("production-sight.json").data["targets"] if each["target"] == "bf16_logits")
        errors = {said.split()[0]: re.search(r"root mean square (\S+), honest (\S+),", said).groups() for said in bf16["says"]}
        wrong, honest = zip(*(errors[name] for name in ("logprob", "entropy", "lse")))
        honest = [figure.replace("e-06", "·10⁻⁶") for figure in honest]
        forward = entries(find("regimes-h200.json").data)[f"sustained/forward/{HEAD}"]
        rollout = find("rollout-h200.json").data
        factors = next(each["factors"] for each in rollout["trunk"][0]["ratios"]
                       if (each["rollout"], each["training"]) == ("bf16", "plumbline"))
        ours = next(each for each in rollout["same_hidden"]["heads"] if each["head"] == "plumbline")
        self.assertEqual({each["share_equal"] for each in ours["compared"]}, {1.0})
        text = " ".join((ROOT / "kernel/WHY.md").read_text(encoding="utf-8").split())
        for says in ("err by {} (root mean square), the entropy by {} and lse by {};".format(*wrong),
                     "fp32 logits err by {}, {} and {} on the same rows".format(*honest),
                     f"Forward takes {forward['ratio']:.2f} times cuBLAS's bf16 product alone and {memory_of(forward):.0f} MiB",
                     f"independent errors of {wrong[0]} in both move it by {100 * 2**0.5 * float(wrong[0]):.1f} %",
                     f"moved the log-ratio by {factors['head']['rms']:.2g} (root mean square)"):
            self.assertIn(says, text)

    # Fails if plumbline.torch was measured anew and kernel/TORCH.md still says the numbers of before.
    def test_torch_says_what_was_measured(self):
        here, there = (find(name).data for name in ("torch-operator.json", "torch-operator-h200.json"))
        (ours, linear), (ours_there, linear_there) = (
            (found["host"]["forward_and_backward"], found["host"]["linear_alone"]["median_us"]) for found in (here, there))
        ratios = {shape: sorted(step["ratio"] for step in there["steps"] if step["shape"] == shape)
                  for shape in dict.fromkeys(step["shape"] for step in there["steps"])}
        large, small = (f"{each[0]:.3f} to {each[-1]:.3f}" for each in ratios.values())
        text = " ".join((ROOT / "kernel/TORCH.md").read_text(encoding="utf-8").split())
        for says in (f"`torch-operator.json`, {here['date']}) | {ours['median_us']:.0f} µs", f"| {linear:.0f} |",
                     f"| {ours_there['median_us']}, the least of 15 rounds {ours_there['least_us']} | {linear_there:.0f} |",
                     f"takes {large} of what the two C++ calls take alone, and one of 128 rows {small}."):
            self.assertIn(says, text)

    # Fails if a number is read as another one.
    def test_figures(self):
        self.assertEqual(figures("[1.02](a5) of 10⁶; 3·10⁵, `7` bf16 H200, 6·10⁻⁶ 1 000 000"),
                         {1.02, 10.0, 1e6, 3e5, 6e-6})

    # Fails if a number without a link would pass.
    def test_what_has_a_number(self):
        text = "# x\n## How good\nwords\n\n* no finding in 10⁶ cases\n* `sm_90` alone\n* [1.02](bench/results/a.json) of it\n\n## On\n7\n"
        self.assertEqual(items(section(text)), ["* no finding in 10⁶ cases", "* [1.02](bench/results/a.json) of it"])
        self.assertEqual(section("## Other\n5\n"), "")


if __name__ == "__main__":
    unittest.main()
