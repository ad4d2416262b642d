#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""walks.py on a small tree, and on walks through it that do not hold."""

import contextlib
import io
import json
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import walks

LOW = """// Up() and Nothing() in a comment are no calls.
int Low(Callback callback) {
  const char* text = "// High";
  return callback(text) + spawn("high-worker");
}
struct Shape { int Area() const noexcept { return Low(nullptr); } };
Shape::Shape(int a) : a_(a), b_{Low(a)} { Area(); }
"""
HIGH = """#include "fuzz/low/low.cc"
int Lambda() { return Low([](const char*) { return Sum(); }); }
int Sum() { return kernel::Forward(); }
"""


class WalksTest(unittest.TestCase):
    """Each test fails if walks.py stops seeing what its name says."""

    def setUp(self) -> None:
        self.root = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.write("fuzz/low/low.cc", LOW)
        self.write("fuzz/high/high.cc", HIGH)
        self.write("kernel/forward.cc", "int Forward() { return 1; }\n")
        header = "| room | may include |\n|---|---|\n"
        self.write("fuzz/README.md", header + "| `low` | – |\n| `middle` | `low` |\n| `high` | `middle` |\n")
        for page in ("kernel", "kernel/cuda", "oracle"):
            self.write(f"{page}/README.md", header + "| `.` | – |\n")

    def write(self, name: str, text: str) -> None:
        """Writes a file of the tree."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def walk(self, *lines: str, ceiling: int = 0) -> tuple[int, str]:
        """Runs walks.py on one walk; returns the exit status and all that it says."""
        self.write("walks/a.walk", "\n".join(lines) + "\n")
        self.write("walks/ceilings.json", json.dumps({"a": ceiling}))
        said = io.StringIO()
        before, sys.argv = sys.argv, ["walks.py", "--root", str(self.root), "--walks", str(self.root / "walks")]
        try:
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                return walks.main(), said.getvalue()
        finally:
            sys.argv = before

    def test_calls_down_are_no_climbs(self) -> None:
        status, said = self.walk(
            "fuzz/high/high.cc: Lambda",
            "  fuzz/low/low.cc: Low",
            "fuzz/high/high.cc: Sum",
            "  kernel/forward.cc: Forward",
        )
        self.assertEqual((status, said.split(",")[0]), (0, "a: 0 climbs"), said)

    def test_a_callback_into_a_room_above_is_a_climb(self) -> None:
        way = ("fuzz/high/high.cc: Lambda", "  fuzz/low/low.cc: Low", "    fuzz/high/high.cc: Lambda via callback")
        status, said = self.walk(*way)
        self.assertEqual(status, 1)
        self.assertIn("a: 1 climbs, 1 of them callbacks", said)
        self.assertIn("more often than before", said)
        self.assertEqual(self.walk(*way, ceiling=1)[0], 0)

    def test_a_started_process_is_counted_apart(self) -> None:
        status, said = self.walk("fuzz/low/low.cc: Low", '  fuzz/high/high.cc: Sum process "high-worker"')
        self.assertEqual(status, 0)
        self.assertIn("0 climbs", said)
        self.assertIn("1 processes", said)

    def test_what_is_not_there_is_named(self) -> None:
        for lines, words in (
            (("fuzz/low/gone.cc: Low",), "there is no fuzz/low/gone.cc"),
            (("fuzz/low/low.cc: High",), "does not define High"),
            (("fuzz/high/high.cc: Low",), "does not define Low"),
            (("fuzz/low/low.cc: Low", "  fuzz/high/high.cc: Sum"), "does not name Sum"),
            (("fuzz/low/low.cc: Low", "  fuzz/high/high.cc: Sum via worker"), "does not name worker"),
            (("# no walk",), "a.walk: no stop"),
            (("fuzz/low/low.cc: Low", "  fuzz/high/high.cc: Sum via Up"), "does not name Up"),
            (("fuzz/low/low.cc: Low", "  fuzz/high/high.cc: Sum process worker2"), "does not name worker2"),
            (("fuzz/low/low.cc: Low", "      kernel/forward.cc: Forward"), "indented by more than one step"),
            (("fuzz/low/low.cc Low",), "cannot read"),
            (("fuzz/low/low.cc: Other::Area",), "does not define Other::Area"),
        ):
            with self.subTest(words):
                status, said = self.walk(*lines, ceiling=9)
                self.assertEqual(status, 1)
                self.assertIn(words, said)

    def test_methods_and_constructors_are_found(self) -> None:
        status, said = self.walk(
            "fuzz/low/low.cc: Shape",
            "  fuzz/low/low.cc: Shape::Area",
            "    fuzz/low/low.cc: Low",
            "  fuzz/low/low.cc: Low",
        )
        self.assertEqual(status, 0, said)

    def test_a_room_without_a_table_is_refused(self) -> None:
        self.write("oracle/README.md", "nothing\n")
        status, said = self.walk("fuzz/low/low.cc: Low")
        self.assertEqual(status, 1)
        self.assertIn("oracle/README.md: no table of rooms", said)


if __name__ == "__main__":
    unittest.main()
