# SPDX-License-Identifier: Apache-2.0
"""The page of a report in a browser: no message on its console, nothing wider than a telephone, light and dark; screenshots
are kept in the build's Testing/report/."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from support import PACKAGE, PLUMB

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
SHOTS = PACKAGE.parent / "Testing" / "report"
# Says how wide the page is, and what has no name for those who do not see it.
PROBE = """<script>addEventListener("load", () => {
  const unnamed = [...document.querySelectorAll("button, [role=img], [role=region]")].filter((e) => !e.getAttribute("aria-label"));
  document.querySelectorAll("details").forEach((each) => { each.open = true; });
  document.title = `wide ${document.documentElement.scrollWidth} of ${innerWidth} unnamed ${unnamed.length}`;
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
        hunt = [PLUMB, "fuzz", "--target", "mutant:logits-rounded", "--budget", "400cases", "--seed", "1", "--jobs", "1", "--out", "hunt"]
        for words, status in ((hunt, 1), ([PLUMB, "report", "hunt"], 0)):
            ended = subprocess.run(words, cwd=cls.folder, env=environment, capture_output=True, timeout=300, check=False)
            assert ended.returncode == status, (ended.stdout + ended.stderr).decode()[-2000:]
        cls.page = cls.folder / "report.html"
        SHOTS.mkdir(parents=True, exist_ok=True)

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    # Fails if the page's script or policy faults, or something on the page asks for what there is not.
    def test_console_is_silent(self):
        _, said = browse(self.page, 1000, 800, "--dump-dom")
        self.assertEqual([line for line in said.splitlines() if "CONSOLE" in line], [])

    # Fails if a long word, a table or a figure makes the page wider than its window, or a control has no name.
    def test_fits(self):
        probed = self.folder / "probed.html"
        probed.write_text(self.page.read_text(encoding="utf-8").replace("</body>", PROBE + "</body>"), encoding="utf-8")
        for width in (500, 1000):  # 500 is the least that a window of Chromium has
            dom, _ = browse(probed, width, 800, "--dump-dom")
            wide, window, unnamed = map(int, re.search(r"<title>wide (\d+) of (\d+) unnamed (\d+)", dom).groups())
            self.assertLessEqual(wide, window)
            self.assertEqual(unnamed, 0)
        frame = self.folder / "frame.html"
        frame.write_text(f'<iframe id="f" width="400" height="800" src="{probed.as_uri()}"></iframe><script>addEventListener("message", '
                         '(e) => { document.title = e.data; });</script>', encoding="utf-8")  # fmt: skip
        told = probed.read_text(encoding="utf-8").replace("document.title = `", "parent.document.title = `")
        told = told.replace("parent.document.title = ", 'parent.postMessage(').replace("unnamed ${unnamed.length}`;", 'unnamed ${unnamed.length}`, "*");')
        probed.write_text(told, encoding="utf-8")
        dom, _ = browse(frame, 800, 900, "--dump-dom")
        wide, window = map(int, re.search(r"<title>wide (\d+) of (\d+)", dom).groups())
        self.assertEqual(window, 400)
        self.assertLessEqual(wide, 400)

    # Fails if a page is not drawn in one of the two schemes: both screenshots would be the same, or empty.
    def test_light_and_dark(self):
        sizes = {}
        for scheme, number in (("light", 1), ("dark", 0)):
            shot = SHOTS / f"{scheme}.png"
            shot.unlink(missing_ok=True)
            browse(self.page, 1000, 2400, f"--blink-settings=preferredColorScheme={number}", f"--screenshot={shot}")
            sizes[scheme] = shot.read_bytes()
            self.assertGreater(len(sizes[scheme]), 50_000)
        self.assertNotEqual(sizes["light"], sizes["dark"])


if __name__ == "__main__":
    unittest.main()
