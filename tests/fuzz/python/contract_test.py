#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""plumbline.Contract beside the pages of contracts. Needs the standard library alone."""

from __future__ import annotations

import importlib.util
import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
_SPEC = importlib.util.spec_from_file_location("contract", ROOT / "fuzz/python/plumbline/contract.py")
contract = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(contract)
Contract = contract.Contract


def page(name: str) -> str:
    return (ROOT / "fuzz/target" / name).read_text(encoding="utf-8")


class Words(unittest.TestCase):
    """Fails if a word of the page cannot be said in Python, or one that is none can."""

    def test_keys_are_those_of_the_page(self):
        keys = re.findall(r"^\| `contract\.(\w+)`", page("DESCRIPTION.md"), re.MULTILINE)
        self.assertEqual(set(keys) - {"outputs"}, set(contract.KEYS))
        self.assertEqual(len(contract.KEYS), len(set(contract.KEYS)))

    def test_presets_and_words_are_those_of_the_page(self):
        named, words = page("CONTRACTS.md").split("| name | what it is | keys |")[1].split("| word | values |")
        self.assertEqual(tuple(re.findall(r"^\| `([\w-]+)` \|", named, re.MULTILINE)), contract.PRESETS)
        self.assertEqual(tuple(re.findall(r"^\| `(\w+)` \|", words.split("\n\n")[0], re.MULTILINE)), contract.WORDS)

    def test_text_is_what_the_program_takes(self):
        said = Contract("pytorch-eager", logits="fp32", outputs={"lse": "bf16"}, grad_accumulator=("bf16", 4096),
                        plain_logprob=True, filter=2**-12)
        self.assertEqual(str(said), "pytorch-eager,logits=fp32,outputs.lse=bf16,grad_accumulator=bf16/4096,"
                                    "plain_logprob=true,filter=0.000244140625")
        self.assertEqual(str(Contract()), "black-box")
        self.assertEqual(Contract(matmul="tf32"), Contract(matmul="tf32"))
        self.assertNotEqual(Contract(matmul="tf32"), Contract(matmul="bf16"))

    def test_errors_name_the_word_and_its_value(self):
        for words, names in (({"logit": "bf16"}, "'logit'"), ({"logits": None}, "logits is None"),
                             ({"logits": "bf16,"}, "logits is 'bf16,'"), ({"logits": ("bf16", 2)}, "logits is"),
                             ({"outputs": {"lse": 1.5j}}, "outputs.lse is 1.5j")):
            with self.assertRaisesRegex(ValueError, re.escape(names)):
                Contract(**words)
        with self.assertRaisesRegex(ValueError, "no preset 'eager'"):
            Contract("eager")


if __name__ == "__main__":
    unittest.main()
