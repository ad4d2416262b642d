# SPDX-License-Identifier: Apache-2.0
"""The workflow of GitHub Actions that users copy (fuzz/examples/github/plumb.yml): what it pins, and that its commands
run."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap
import unittest

from support import HERE, PACKAGE, PLUMB

OFFLINE = "sudo -E unshare --net setpriv --reuid={} --regid={} --init-groups --no-new-privs"
WORKFLOW = HERE.parents[2] / "fuzz/examples/github/plumb.yml"
# `columns` are those that the softmax sums over.
KERNEL = """
import numpy as np

def linear_cross_entropy(hidden, weight, labels):
    if ((labels < 0) | (labels >= len(weight))).any():
        raise ValueError("a label is outside the vocabulary")
    x = hidden.astype(np.float64) @ weight.astype(np.float64).T
    x = x - x.max(axis=1, keepdims=True)
    columns = COLUMNS
    return {"logprob": (x[np.arange(len(labels)), labels] - np.log(np.exp(columns).sum(axis=1))).astype(np.float32)}
"""


def commands(text: str) -> list[str]:
    """The shell texts of `run:` that call plumb."""
    found = re.findall(r"^( +)run: \|\n((?:\1  .*\n)+)", text, re.MULTILINE)
    return [textwrap.dedent(script) for _, script in found if "plumb " in script]


def runs(*words: str) -> bool:
    """Whether this machine lets us run a program so."""
    return subprocess.run([*words, "true"], capture_output=True, check=False).returncode == 0


class Workflow(unittest.TestCase):
    # Fails if an action is not pinned to a commit, a job may write, a token is left behind, or a package has no hash.
    def test_what_is_pinned(self):
        text = WORKFLOW.read_text(encoding="utf-8")
        uses = re.findall(r"uses: (\S+)( # v[0-9.]+)?$", text, re.MULTILINE)
        self.assertEqual(len(uses), 9)
        for action, version in uses:
            self.assertRegex(action, r"^actions/[a-z-]+@[0-9a-f]{40}$")
            self.assertTrue(version, action)
        self.assertEqual(re.findall(r"permissions:\n  (.*)", text), ["contents: read"])
        self.assertNotIn("pull_request_target", text)
        self.assertEqual(text.count("persist-credentials: false"), text.count("actions/checkout@"))
        for line in re.findall(r"run: (.*pip install.*)", text):
            self.assertIn("--require-hashes", line)

    # Fails if a job runs the kernel with a network, as root, or as a user that its machine does not have.
    def test_kernels_run_offline(self):
        text = WORKFLOW.read_text(encoding="utf-8")
        jobs = dict(re.findall(r"^  ([\w-]+):\n((?:    .*\n|\n)+)", text[text.index("\njobs:\n"):], re.MULTILINE))
        self.assertEqual(set(jobs), {"gate", "gate-on-a-gpu", "hunt"})
        hosted = re.findall(r"^  OFFLINE: (.+)$", text, re.MULTILINE)
        self.assertEqual(hosted, [OFFLINE.format("runner", "runner")])
        for name, job in jobs.items():
            calls = [line.strip() for script in commands(job) for line in script.splitlines() if '"$KERNEL"' in line]
            self.assertEqual(len(calls), 1, name)
            self.assertTrue(calls[0].startswith('$OFFLINE env "PATH=$PATH" "PYTHONPATH=$PYTHONPATH" plumb '), name)
            before = job[: job.index(calls[0])]
            own = re.findall(r'run: echo "OFFLINE=(.+)" >> "\$GITHUB_ENV"\n', before)
            self.assertEqual(own, [] if "runs-on: ubuntu-" in job else [OFFLINE.format("$(id -u)", "$(id -g)")], name)

    # Fails if a command has an option that plumb lacks, needs a network, ends otherwise than a kernel deserves, or the summary
    # is empty.
    def test_the_commands_run(self):
        scripts = commands(WORKFLOW.read_text(encoding="utf-8"))
        self.assertEqual(len(scripts), 6)
        offline = next((words for words in ("unshare --net", "unshare --net --map-root-user") if runs(*words.split())), "")
        for columns, status in (("x", 0), ("x[:, : x.shape[1] // 4 * 4] if x.shape[1] > 4 else x", 1)):
            for at in range(0, len(scripts), 2):
                with self.subTest(columns=columns, job=at // 2), tempfile.TemporaryDirectory() as folder:
                    work = pathlib.Path(folder)
                    (work / ".plumbline").mkdir()
                    (work / ".plumbline/gate.json").write_text('{"cases": 80}')
                    (work / "my_kernels.py").write_text(KERNEL.replace("COLUMNS", columns))
                    environment = os.environ | {
                        "KERNEL": "python:my_kernels:linear_cross_entropy", "OFFLINE": offline, "BUDGET": "80cases", "GITHUB_RUN_NUMBER": "7",
                        "GITHUB_STEP_SUMMARY": str(work / "summary.md"), "PLUMBLINE_PYTHON": sys.executable,
                        "PYTHONPATH": f"{PACKAGE}{os.pathsep}.",
                        "PATH": os.pathsep.join((str(PLUMB.parent), os.environ["PATH"])),
                    }  # fmt: skip
                    script = scripts[at].replace("--cases 1000", "")  # the number of the file
                    ran = subprocess.run(["bash", "-e", "-c", script], cwd=work, env=environment, capture_output=True,
                                         text=True, check=False, timeout=200)
                    self.assertEqual(ran.returncode, status, (ran.stdout + ran.stderr)[-3000:])
                    summed = subprocess.run(["bash", "-e", "-c", scripts[at + 1]], cwd=work, env=environment,
                                            capture_output=True, text=True, check=False, timeout=100)
                    self.assertEqual(summed.returncode, 0, summed.stderr[-2000:])
                    self.assertIn("my_kernels", (work / "summary.md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    unittest.main()
