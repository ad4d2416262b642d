# SPDX-License-Identifier: Apache-2.0
"""usage: python3 bench/store false-alarms [--small N] [--large N] [--first SEED] [--threads N] [--from FILE… [--others FILE…]]
       [--commands]

Counts how often the second tier (fuzz/baseline) suspects an honest kernel, by tests/fuzz/false_alarms, from the release
build, and stores bench/results/false-alarms.json:

  small  N problems [0] of at most 10^6 multiply-adds: the verdicts, how many are suspect, the limit of their rate
  large  N problems [0] each of V = 32003 and 151936, H = 4096: that, and the tail beyond the threshold, extrapolated

A verdict is one problem of one kernel: all outputs, rows and statistics together. Problems are numbered from `--first`
[1]: what was mended on some is counted anew on others. Lines are kept in build/campaigns/false-alarms/ and are not
computed again. `--from` takes lines that another machine wrote in place of running anything; `--commands` prints what to
carry there and what to run. Lines of other sources are refused, but for those of `--others`: a set of them counts if ten of
its lines at least are also among the present ones, with the same verdicts and ratios within 1 %, and the result says so.

Exit status: 0 no verdict is suspect, 1 some are (stored too), 2 usage, no lines, or lines of another tree, 3 the
program failed.
"""

import argparse
import dataclasses
import subprocess
from collections.abc import Iterable
from pathlib import Path

from report.command_line import Refused

from store import alarm_lines, builds, stored, tail, trees
from store.alarm_lines import Line

ROOT = trees.ROOT
PROGRAM = ROOT / "build/release/tests/fuzz/false_alarms/false_alarms"
ABOUT = ("kernel", "oracle", "second_tier", "honest", "false_alarms")
THRESHOLD = 8.0  # HonestUnits::kSuspect
VOCABULARIES = (32003, 151936)
SHARES = (0.1, 0.05, 0.02)  # of the verdicts, whose tail is fitted
MOST_SUSPECT = 3  # that are named of a kernel, kind of data and output
BINS_AN_OCTAVE = 8
LINE = 250  # small problems of a line


def told(about: dict[str, str]) -> str:
    """The keys of the sources as a line has them."""
    return " ".join(f"{room}={key}" for room, key in sorted(about.items()))


def words(name: str, vocab: int | None, seeds: tuple[int, int], threads: int, about: str, out: str) -> list[str]:
    """The arguments of the program for one set of problems; seeds: the first one and how many."""
    first, count = seeds
    return ["--set", name, *(["--vocab", str(vocab)] if vocab else []), "--seed-first", str(first), "--count", str(count),
            "--line", str(LINE if name == "small" else 1), "--threads", str(threads), "--about", about, "--out", out]


def runs(small: int, large: int) -> list[tuple[str, int | None, int]]:
    """(set, vocabulary, problems) of each run."""
    return ([("small", None, small)] if small else []) + [("large", v, large) for v in VOCABULARIES if large]


def members(line: Line) -> Iterable[tuple[str, str, Line]]:
    """(data, kernel, what was counted) of a line."""
    for data, by_kernel in line["data"].items():
        for kernel, counted in by_kernel.items():
            yield data, kernel, counted


def counted_of(line: Line) -> list[Line]:
    """What counts of a line: all members but those beyond what is known to exist."""
    return [counted for _, kernel, counted in members(line) if not kernel.startswith("beyond:")]


def suspects(counted: Line) -> int:
    """The suspect verdicts: problems, however many of their outputs are suspect."""
    return len({each["seed"] for each in counted.get("suspect", [])})


def totals(lines: list[Line]) -> Line:
    """What is said of a set as a whole."""
    counted = [each for line in lines for each in counted_of(line)]
    verdicts, suspect = sum(each["verdicts"] for each in counted), sum(map(suspects, counted))
    classes: dict[int, list[int]] = {}
    for each in counted:
        for least, bins in each.get("classes", {}).items():
            found = classes.setdefault(int(least), [0, 0])
            found[0] += sum(bins.values())
            found[1] += sum(count for at, count in bins.items() if int(at) >= BINS_AN_OCTAVE * 3)
    return {"problems": sum(line["problems"] for line in lines), "verdicts": verdicts, "suspect": suspect,
            "rate_limit": tail.upper_rate(suspect, verdicts),
            "by_units": [{"units_from": least, "verdicts": found[0], "above_threshold": found[1]}
                         for least, found in sorted(classes.items())],
            "core_seconds": round(sum(line["seconds"] for line in lines))}


def kernels(lines: list[Line]) -> list[Line]:
    """A record of each kernel and kind of data: verdicts, and the largest of each ratio of each output."""
    found: dict[tuple[str, str], Line] = {}
    for line in lines:
        for data, kernel, counted in members(line):
            record = found.setdefault((kernel, data), {"kernel": kernel, "data": data, "verdicts": 0, "suspect": 0,
                                                       "largest": {}})
            record["verdicts"] += counted["verdicts"]
            record["suspect"] += suspects(counted)
            for output, (_, *ratios) in counted.get("outputs", {}).items():
                before = record["largest"].get(output, [0, 0, 0])
                record["largest"][output] = [max(pair) for pair in zip(before, ratios, strict=True)]
    return [found[key] for key in sorted(found)]


def named(lines: list[Line]) -> list[Line]:
    """Some suspect outputs: of each kernel, kind of data and output those of the lowest seeds."""
    found: dict[tuple[str, str, str], list[Line]] = {}
    for line in sorted(lines, key=lambda each: each["seed"]):
        for data, kernel, counted in members(line):
            for each in counted.get("suspect", []):
                some = found.setdefault((kernel, data, each["output"]), [])
                if len(some) < MOST_SUSPECT:
                    some.append({"kernel": kernel, "data": data, **each})
    return [each for key in sorted(found) for each in found[key]]


def ratios(lines: list[Line]) -> tuple[list[float], list[float]]:
    """The largest ratio of each verdict, and that of each problem over all kernels, of lines of one problem."""
    verdicts, problems = [], []
    for line in lines:
        if line["problems"] != 1:
            continue
        of_line = [max(max(values[1:]) for values in counted["outputs"].values())
                   for counted in counted_of(line) if counted["verdicts"]]
        verdicts += of_line
        problems += [max(of_line)] if of_line else []
    return verdicts, problems


def tails(lines: list[Line]) -> list[Line]:
    """Fits of the tails: of verdicts, which share problems, and of problems, which are independent."""
    found = []
    for each, values in zip(("verdict", "problem"), ratios(lines), strict=True):
        for share in SHARES:
            fitted = tail.fit(values, THRESHOLD, share)
            if fitted:
                rounded = {key: float(f"{value:.4g}") for key, value in dataclasses.asdict(fitted).items()}
                found.append({"of_each": each, **rounded})
    return found


def summary(lines: list[Line]) -> list[Line]:
    """A record of each set of problems."""
    sets: dict[tuple[str, int], list[Line]] = {}
    for line in lines:
        sets.setdefault((line["set"], line["vocab"] or 0), []).append(line)
    return [{"set": name, "vocab": vocab or None, "places": sorted({line["places"] for line in those}), **totals(those),
             "tails": tails(those), "kernels": kernels(those), "suspects": named(those)}
            for (name, vocab), those in sorted(sets.items())]


def say(sets: list[Line]) -> None:
    for each in sets:
        print(f"{each['set']} {each['vocab'] or ''}: {each['suspect']} of {each['verdicts']} verdicts suspect "
              f"({each['problems']} problems), below {each['rate_limit']:.2g} at 95 %", flush=True)
        for fitted in each["tails"]:
            print(f"  beyond {THRESHOLD:g}, a {fitted['of_each']}: {fitted['rate']:.2g}, at most {fitted['limit']:.2g} "
                  f"at 95 % ({fitted['excesses']:.0f} above {fitted['threshold']:.3g}, xi {fitted['shape']:.2g})")


def main(given_words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench/store false-alarms")
    parser.add_argument("--small", type=int, default=0)
    parser.add_argument("--large", type=int, default=0)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--from", nargs="+", type=Path, default=[], dest="files")
    parser.add_argument("--others", nargs="+", type=Path, default=[])
    parser.add_argument("--commands", action="store_true")
    given = parser.parse_args(given_words)
    wanted = runs(given.small, given.large)
    if min(given.small, given.large) < 0 or min(given.threads, given.first) < 1 or bool(wanted) == bool(given.files):
        parser.error("--small or --large is needed, or --from; numbers are at least 1")
    if given.others and not given.files:
        parser.error("--others: --from is needed with it")
    if given.small % LINE or given.small and given.first % LINE != 1:
        parser.error(f"--small {given.small} --first {given.first}: a multiple of {LINE}, and one more than that, so that "
                     "lines of two runs do not overlap")
    keys = trees.committed_keys(ROOT, ABOUT)
    about, files = told(keys), list(given.files)
    if wanted:
        builds.release(ROOT, "false_alarms")
    if given.commands:
        print(f"carry {PROGRAM.relative_to(ROOT)} and {PROGRAM.parent.relative_to(ROOT)}/libhwy.so.1, side by side")
        for name, vocab, count in wanted:
            out = f"{name}-{vocab or 0}.jsonl"
            print("./false_alarms", *(f"'{word}'" if " " in word else word
                                      for word in words(name, vocab, (given.first, count), given.threads, about, out)))
        return 0
    folder = ROOT / "build/campaigns/false-alarms"
    for name, vocab, count in wanted:
        folder.mkdir(parents=True, exist_ok=True)
        files.append(folder / f"{name}-{vocab or 0}-{given.first}-{stored.slug_of(keys['false_alarms'] + keys['second_tier'])}.jsonl")
        done = subprocess.run([PROGRAM, *words(name, vocab, (given.first, count), given.threads, about,
                                               str(files[-1]))], check=False)
        if done.returncode:
            raise Refused(f"{name}: status {done.returncode}, nothing stored", 3)
    lines = alarm_lines.read(files, about)
    others, of_others = alarm_lines.taken(given.others, lines) if given.others else ([], [])
    lines += others
    sets = summary(lines)
    machine = {"processors": sorted({line["processor"] for line in lines}),
               "versions": sorted({line["versions"] for line in lines})}
    command = f"--small {given.small} --large {given.large} --first {given.first}" if wanted else "--from …"
    command += " --others …" if given.others else ""
    stored.write(ROOT / "bench/results/false-alarms.json", f"python3 bench/store false-alarms {command}", keys, machine,
                 threshold=THRESHOLD, sets=sets, **({"others": of_others} if of_others else {}))
    say(sets)
    return int(any(each["suspect"] for each in sets))
