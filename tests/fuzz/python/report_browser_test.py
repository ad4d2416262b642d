# SPDX-License-Identifier: Apache-2.0
"""The pages of a campaign, a comparison, a check and a benchmark in a browser: no message on the console, nothing wider than a
telephone, light and dark; screenshots are kept in the build's Testing/report/."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from large_campaign import large_campaign
from support import PACKAGE, PLUMB

ROOT = pathlib.Path(__file__).resolve().parents[3]
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
SHOTS = PACKAGE.parent / "Testing" / "report"
# Says how wide the page is, what has no name for those who do not see it, and how many tables scroll the names of rows away.
PROBE = """<script>addEventListener("load", () => {
  const unnamed = [...document.querySelectorAll("button, [role=img], [role=region]")].filter((e) => !e.getAttribute("aria-label"));
  document.querySelectorAll("details").forEach((each) => { each.open = true; });
  const lost = [...document.querySelectorAll(".counts")].filter((each) => {
    each.scrollLeft = 1e6;
    return each.querySelector("th[scope=row]").getBoundingClientRect().left < each.getBoundingClientRect().left;
  });
  const said = `wide ${document.documentElement.scrollWidth} of ${innerWidth} unnamed ${unnamed.length} lost ${lost.length}`;
  document.title = said;
  if (parent !== window) parent.postMessage(said, "*");
});</script>"""


def browse(page, width, height, *words):
    """What a browser without a window says on its two outputs."""
    with tempfile.TemporaryDirectory() as profile:
        command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", f"--user-data-dir={profile}",
                   "--hide-scrollbars", f"--window-size={width},{height}", "--virtual-time-budget=3000", *words, page.as_uri()]  # fmt: skip
        ended = subprocess.run(command, capture_output=True, timeout=120, check=False)
    return ended.stdout.decode(), ended.stderr.decode()


@unittest.skipIf(BROWSER is None, "no Chromium is installed")
class Browser(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.scratch.name)
        environment = {**os.environ, "PLUMBLINE_PYTHON": sys.executable}
        hunt = [PLUMB, "fuzz", "--target", "mutant:logits-rounded", "--budget", "400cases", "--seed", "1", "--jobs", "1",
                "--out", "hunt"]  # fmt: skip
        compare = [PLUMB, "compare", "host", "mutant:plain-logprob", "--cases", "60", "--problems", "1", "--out", "compared"]
        check = [PLUMB, "check", ROOT / "corpus/real/minilm-64.safetensors", "--rows", "8", "--json"]
        for words, status in ((hunt, 1), (compare, 1), (check, 0)):
            said = cls.ran(words, status, environment)
        (cls.folder / "check.json").write_bytes(said)
        large_campaign(cls.folder / "large", cls.folder / "hunt")
        for month in ("01", "02"):
            entries = [{"name": f"forward/{rows}", "real_time": 2.5, "time_unit": "ms", "ratio": 0.5} for rows in (8, 4096)]
            result = {"context": {"date": f"2026-{month}-01", "device": "A"}, "benchmarks": entries}
            (cls.folder / f"bench-{month}.json").write_text(json.dumps(result), encoding="utf-8")
        cls.pages = []
        for inputs in (["hunt"], ["large"], ["compared"], ["check.json"], ["bench-01.json", "bench-02.json"]):
            cls.pages.append(cls.folder / f"{inputs[0]}.html")
            cls.ran([PLUMB, "report", *inputs, "--out", cls.pages[-1]], 0, environment)
        SHOTS.mkdir(parents=True, exist_ok=True)

    @classmethod
    def ran(cls, words, status, environment):
        """What a program prints that ends with this status."""
        ended = subprocess.run(words, cwd=cls.folder, env=environment, capture_output=True, timeout=300, check=False)
        assert ended.returncode == status, (ended.stdout + ended.stderr).decode()[-2000:]
        return ended.stdout

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    # Fails if a page's script or policy faults, something on it asks for what there is not, or it is 2 MB or more.
    def test_console_is_silent(self):
        for page in self.pages:
            with self.subTest(page.name):
                self.assertLess(page.stat().st_size, 2_000_000)
                dom, said = browse(page, 1000, 800, "--dump-dom")
                self.assertTrue("</footer>" in dom)
                self.assertEqual([line for line in said.splitlines() if "CONSOLE" in line], [])

    # Fails if a long word, a table or a figure makes the page wider than its window, a control has no name, or a table of cases
    # scrolls the regimes out of sight.
    def test_fits(self):
        probed, frame = self.folder / "probed.html", self.folder / "frame.html"
        frame.write_text(f'<iframe width="400" height="800" src="{probed.as_uri()}"></iframe>'
                         '<script>addEventListener("message", (e) => { document.title = e.data; });</script>', encoding="utf-8")  # fmt: skip
        for page in self.pages:
            probed.write_text(page.read_text(encoding="utf-8").replace("</body>", PROBE + "</body>"), encoding="utf-8")
            # 500 is the least that a window of Chromium has.
            for shown, width, inner in ((probed, 500, 500), (probed, 1000, 1000), (frame, 800, 400)):
                with self.subTest(page.name, width=inner):
                    dom, _ = browse(shown, width, 900, "--dump-dom")
                    told = re.search(r"<title>wide (\d+) of (\d+) unnamed (\d+) lost (\d+)", dom)
                    self.assertTrue(told, dom[:200])
                    wide, window, *faults = map(int, told.groups())
                    self.assertEqual((window, faults), (inner, [0, 0]))
                    self.assertLessEqual(wide, window)

    # Fails if a page is not drawn in one of the two schemes: both screenshots would be the same, or empty.
    def test_light_and_dark(self):
        sizes = {}
        for scheme, number in (("light", 1), ("dark", 0)):
            shot = SHOTS / f"{scheme}.png"
            shot.unlink(missing_ok=True)
            browse(self.pages[0], 1000, 2400, f"--blink-settings=preferredColorScheme={number}", f"--screenshot={shot}")
            sizes[scheme] = shot.read_bytes()
            self.assertGreater(len(sizes[scheme]), 50_000)
        self.assertNotEqual(sizes["light"], sizes["dark"])


if __name__ == "__main__":
    unittest.main()
