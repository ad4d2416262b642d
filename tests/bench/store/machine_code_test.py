#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/store/machine_code.py on small libraries made here, and on the real one where it was built with CUDA."""

import os
import unittest
from pathlib import Path

from archive import ANONYMOUS, MOVED, cubin, library
from scratch import Scratch
from store import machine_code

KERNEL = ("_ZN4cuda6hopper13ProductKernelIfE", b"main loop", 168, 9216)
SMALL = (f"_ZN4cuda{ANONYMOUS}6FinishEv", b"a sum", 32, 0)


class MachineCode(Scratch):
    def kernels(self, *members):
        path = self.root / "x.a"
        path.write_bytes(library(*members))
        return machine_code.kernels(path)

    def one(self, *kernels, **how):
        return self.kernels(None, [(1, 0x8011, b"compressed PTX"), (2, 0x11, cubin(*kernels, **how))])

    # Fails if a kernel is missed, a name is not normalised, or where a source lies counts.
    def test_what_is_found(self):
        found = self.one(KERNEL, SMALL)
        self.assertEqual(set(found), {KERNEL[0], "_ZN4cuda9anonymous6FinishEv"})
        moved = (SMALL[0].replace(ANONYMOUS, MOVED), *SMALL[1:])
        self.assertEqual(self.one(KERNEL, moved, debug=b"elsewhere/list.cu"), found)
        self.assertEqual(list(machine_code.main_kernels(found)), [KERNEL[0]])

    # Fails if code, registers or shared memory may change without the hash.
    def test_what_changes_a_hash(self):
        name, code, registers, shared = KERNEL
        others = [self.one((name, *rest))[name] for rest in
                  [(code + b".", registers, shared), (code, registers + 1, shared), (code, registers, shared + 16)]]
        self.assertEqual(len({self.one(KERNEL)[name], *others}), 4)

    # Fails if a table in constant memory, or a variable's first value, may change without the hash.
    def test_variables_of_a_file_count(self):
        found = [self.one(KERNEL, more=more)[KERNEL[0]] for more in
                 [(), [(".nv.constant3", 1, b"a")], [(".nv.constant3", 1, b"b")], [(".nv.global.init", 1, b"a")],
                  [(".nv.global", 8, 16)], [(".nv.constant0._Z5otherv", 1, b"a")]]]
        self.assertEqual(len(set(found)), 5)
        self.assertEqual(found[0], found[-1])

    # Fails if a kernel that differs is not named, or one that was only renamed is.
    def test_differing(self):
        old = {"a": "1", "b": "2", "c": "3", "d": "3"}
        self.assertEqual(machine_code.differing(old, {"x": "1", "b": "2", "c": "3", "d": "3"}), [])
        self.assertEqual(machine_code.differing(old, {"a": "1", "b": "9", "c": "3", "d": "3"}), ["b"])
        self.assertEqual(machine_code.differing(old, {"a": "1", "b": "2"}), ["c", "d"])
        self.assertEqual(machine_code.differing(old, {**old, "e": "5"}), ["e"])

    # Fails if the key depends on names or order, or a changed kernel leaves it.
    def test_key(self):
        self.assertEqual(machine_code.key(["1", "2"]), machine_code.key(["2", "1"]))
        self.assertNotEqual(machine_code.key(["1", "2"]), machine_code.key(["1", "3"]))

    # Fails if what cannot be read is taken for a library without kernels.
    def test_what_cannot_be_read(self):
        compressed = [(2, 0x8011, b"compressed machine code")]
        with self.assertRaisesRegex(machine_code.NotReadable, "compressed"):
            self.kernels(compressed)
        for text in (b"", b"no archive", library([(2, 0x11, b"\x7fELF")]),
                     library([(2, 0x11, b"\x7fELF" + b"\xff" * 90)])):
            path = self.root / "x.a"
            path.write_bytes(text)
            with self.assertRaises(machine_code.NotReadable):
                machine_code.kernels(path)
        self.assertEqual(self.kernels(None), {})

    # Fails if the real library's main kernels are not found: there are forward (with and without kept logits, and with
    # exponents) and d_logits (in planes, and through fp16) in two tiles each, grad_hidden, grad_weight in three forms,
    # all in two dtypes but the planes and exponents.
    def test_the_real_library(self):
        path = Path(os.environ.get("PLUMBLINE_KERNEL_ARCHIVE", ""))
        if not path.is_file():
            self.skipTest("PLUMBLINE_KERNEL_ARCHIVE names no library")
        found = machine_code.kernels(path)
        if not found:
            self.skipTest("the library was built without CUDA")
        self.assertEqual(len(machine_code.main_kernels(found)), 37)
        self.assertFalse([name for name in found if "_GLOBAL__N_" in name])


if __name__ == "__main__":
    unittest.main()
