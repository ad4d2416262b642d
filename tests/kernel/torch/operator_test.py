# SPDX-License-Identifier: Apache-2.0
"""plumbline.torch.linear_cross_entropy on the CPU: bounds, the bits of the C call, opcheck, autograd's ways of calling."""

import ctypes
import sys
import unittest

from c_call import CallOfC, Tensor, as_c, library
from support import PACKAGE, bits_are_equal, leaf, problem

sys.path.insert(0, str(PACKAGE))

import plumbline
import plumbline.torch
import torch
from plumbline.torch import linear_cross_entropy
from torch.library import opcheck

OPERATOR = torch.ops.plumbline.linear_cross_entropy.default


def by_c(hidden, weight, labels, factors, grad_entropy):
    """logprob, entropy, grad_hidden and grad_weight by the library's three functions."""
    operator = library()
    rows = hidden.shape[0]
    outputs = {"logprob": torch.empty(rows), "entropy": torch.empty(rows), "lse": torch.empty(rows),
               "grad_hidden": torch.empty_like(hidden), "grad_weight": torch.empty_like(weight)}  # fmt: skip
    call = CallOfC(ignore_index=-100)
    absent = Tensor(rank=-1)
    call.temperature = call.loss = call.first_invalid_row = absent
    given = {"hidden": hidden, "weight": weight, "labels": labels, "grad_logprob": factors, "grad_entropy": grad_entropy}
    for name, tensor in {**given, **outputs}.items():
        setattr(call, name, as_c(tensor.detach()))
    assert operator.plumbline_operator_sizes(ctypes.byref(call)) == 0
    memories = [torch.empty(size, dtype=torch.uint8) for size in (call.workspace_bytes, call.saved_bytes)]
    call.workspace, call.saved = (memory.data_ptr() for memory in memories)
    assert operator.plumbline_operator_forward(ctypes.byref(call)) == 0
    assert operator.plumbline_operator_backward(ctypes.byref(call)) == 0
    return [outputs[name] for name in ("logprob", "entropy", "grad_hidden", "grad_weight")]


def differentiated(hidden, weight, labels, g, k, **options):
    """The same four through autograd."""
    hidden, weight = leaf(hidden), leaf(weight)
    logprob, entropy = linear_cross_entropy(hidden, weight, labels, **options)
    torch.autograd.backward((logprob, entropy), (g, k))
    return [logprob.detach(), entropy.detach(), hidden.grad, weight.grad]


class Values(unittest.TestCase):
    # Fails if an argument reaches the operator as another (a stride, a gradient, the order of tensors).
    def test_bits_are_those_of_the_c_call(self):
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            hidden, weight, labels, g = problem(dtype=dtype)
            k = g.flip(0).contiguous()
            for one, other in zip(differentiated(hidden, weight, labels, g, k), by_c(hidden, weight, labels, g, k), strict=True):
                self.assertTrue(bits_are_equal(one, other), dtype)

    # The oracle's bounds in place of gradcheck. Fails if a gradient is that of another problem: T, a reduction's sign.
    def test_within_the_bounds(self):
        for dtype in (torch.float32, torch.bfloat16):
            for reduction in ("none", "sum", "mean"):
                hidden, weight, labels, g = problem(dtype=dtype)
                g = g if reduction == "none" else g[0]
                k = torch.full_like(labels, 0.25, dtype=torch.float32)
                temperature = torch.linspace(0.5, 2, len(labels))
                found = differentiated(hidden, weight, labels, g, k, temperature=temperature, reduction=reduction)
                names = ("logprob" if reduction == "none" else "loss", "entropy", "grad_hidden", "grad_weight")
                inputs = {"hidden": hidden.detach(), "weight": weight.detach(), "labels": labels, "temperature": temperature,
                          "grad_logprob": g, "grad_entropy": k, "reduction": reduction}  # fmt: skip
                contract = {"accumulate": "fp32", "d_logits": "fp32"}
                checked = plumbline.check(inputs, dict(zip(names, found, strict=True)), contract, rows="all")
                self.assertEqual(checked.verdict, "clean", f"{dtype} {reduction}: {checked}")
                spoilt = dict(zip(names, found, strict=True)) | {"grad_hidden": found[2] * 1.1}
                self.assertNotEqual(plumbline.check(inputs, spoilt, contract, rows="all").verdict, "clean")

    # Fails if a shape other than [N] is not handed through, or a broadcast upstream gradient is read as dense.
    def test_shapes(self):
        hidden, weight, labels, g = problem()
        flat = differentiated(hidden, weight, labels, g, g)
        nested = differentiated(hidden.unflatten(0, (4, 6)), weight, labels.unflatten(0, (4, 6)), g.unflatten(0, (4, 6)),
                                g.unflatten(0, (4, 6)))  # fmt: skip
        for one, other in zip(flat, nested, strict=True):
            self.assertTrue(bits_are_equal(one.reshape(other.shape), other))
        one_row = leaf(hidden)
        (-linear_cross_entropy(one_row, weight, labels)[0].sum()).backward()
        dense = differentiated(hidden, weight, labels, torch.full((24,), -1.0), torch.zeros(24))
        self.assertTrue(bits_are_equal(one_row.grad, dense[2]))
        single, entropy = linear_cross_entropy(hidden[0], weight, labels[0])
        self.assertEqual((single.shape, entropy.shape), ((), ()))
        for size in ((0, 16, 130), (5, 0, 130)):
            empty = problem(*size)
            found = differentiated(*empty[:3], empty[3], empty[3])
            self.assertEqual([each.shape for each in found[2:]], [empty[0].shape, empty[1].shape])

    # Fails if layouts that the operator cannot read are not copied, or a hidden-major weight is read as vocab-major.
    def test_layouts(self):
        hidden, weight, labels, g = problem()
        expected = differentiated(hidden, weight, labels, g, g)
        other_hidden = hidden.detach().t().contiguous().t()
        other_weight = torch.stack((weight.detach(), weight.detach()), -1)[..., 0]
        for w in (weight.detach().t().contiguous().t(), other_weight):
            logprob, entropy = linear_cross_entropy(other_hidden, w, labels)
            self.assertTrue(bits_are_equal(logprob, expected[0]) and bits_are_equal(entropy, expected[1]))


class Operators(unittest.TestCase):
    # Fails if a fake implementation says another shape, dtype or stride, an output is left partly unwritten, an output
    # aliases another, or the schema hides a mutation.
    def test_opcheck(self):
        for dtype in (torch.float32, torch.bfloat16):
            hidden, weight, labels, _ = problem(17, dtype=dtype)
            for reduction in range(3):
                for temperature in (None, torch.rand(17) + 0.5, torch.tensor(0.7)):
                    for computed in (None, torch.float32):
                        arguments = (hidden, weight, labels, temperature, -100, reduction, computed, 0, True)
                        self.assertEqual(set(opcheck(OPERATOR, arguments).values()), {"SUCCESS"})

    # Fails if a frozen head or body gets a gradient, or the one that is left is another.
    def test_frozen(self):
        hidden, weight, labels, g = problem()
        expected = differentiated(hidden, weight, labels, g, g)
        for frozen in range(2):
            inputs = [leaf(hidden), leaf(weight)]
            inputs[frozen].requires_grad_(False)
            torch.autograd.backward(linear_cross_entropy(*inputs, labels), (g, g))
            self.assertIsNone(inputs[frozen].grad)
            self.assertTrue(bits_are_equal(inputs[1 - frozen].grad, expected[3 - frozen]))
        with torch.no_grad():
            self.assertFalse(linear_cross_entropy(hidden, weight, labels)[0].requires_grad)

    # Fails if backward spoils the state, or a checkpointed forward leaves another one.
    def test_saved_state_is_used_again(self):
        hidden, weight, labels, g = problem()
        expected = differentiated(hidden, weight, labels, g, g)
        inputs = [leaf(hidden), leaf(weight)]
        outputs = linear_cross_entropy(*inputs, labels)
        for _ in range(2):
            found = torch.autograd.grad(outputs, inputs, (g, g), retain_graph=True)
            self.assertTrue(all(map(bits_are_equal, found, expected[2:])))
        outputs = torch.utils.checkpoint.checkpoint(linear_cross_entropy, *inputs, labels, use_reentrant=False)
        found = torch.autograd.grad(outputs, inputs, (g, g))
        self.assertTrue(all(map(bits_are_equal, found, expected[2:])))

    # Fails if what there is no gradient of is given one of 0 in silence.
    def test_gradients_that_there_are_not(self):
        hidden, weight, labels, _ = problem()
        logprob, _, lse = linear_cross_entropy(hidden, weight, labels, return_lse=True)
        with self.assertRaisesRegex(NotImplementedError, "lse of linear_cross_entropy has no gradient"):
            (logprob.sum() + lse.square().sum()).backward()
        for operator in (lambda *a: linear_cross_entropy(*a)[0], lambda *a: OPERATOR(*a, None, -100, 0, None, 0, True)[0]):
            (first,) = torch.autograd.grad(operator(hidden, weight, labels).sum(), hidden, create_graph=True)
            with self.assertRaisesRegex(NotImplementedError, "no second derivative"):
                first.sum().backward()

    # Fails if modes of PyTorch do not see the call: a FLOP counter, a fake tensor, a dispatcher's trace.
    def test_modes_see_it(self):
        hidden, weight, labels, _ = problem()
        seen = []

        class Seen(torch.utils._python_dispatch.TorchDispatchMode):
            def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
                seen.append(str(function))
                return function(*arguments, **(keywords or {}))

        with Seen():
            linear_cross_entropy(hidden, weight, labels)
        self.assertIn("plumbline.linear_cross_entropy.default", seen)
        meta = linear_cross_entropy(*(each.detach().to("meta") for each in (hidden, weight, labels)))
        self.assertEqual((meta[0].shape, meta[0].device.type), ((24,), "meta"))


class Autocast(unittest.TestCase):
    # Fails if an fp32 weight is rounded under autocast, or a gradient of weight once more than it is asked to be.
    def test_weight_decides(self):
        hidden, weight, labels, g = problem()
        narrow = hidden.detach().bfloat16()
        expected = differentiated(narrow.float(), weight, labels, g, g)
        with torch.autocast("cpu", torch.bfloat16):
            found = differentiated(narrow, weight, labels, g, g)
        self.assertTrue(bits_are_equal(found[0], expected[0]))
        self.assertTrue(bits_are_equal(found[3], expected[3]))
        self.assertTrue(bits_are_equal(found[2], expected[2].bfloat16()))
        of_bf16 = differentiated(narrow, weight.detach().bfloat16(), labels, g, g)
        asked = differentiated(narrow, weight, labels, g, g, compute_dtype=torch.bfloat16)
        self.assertTrue(bits_are_equal(asked[0], of_bf16[0]))
        self.assertEqual(asked[3].dtype, torch.float32)
        self.assertTrue(bits_are_equal(asked[3].bfloat16(), of_bf16[3]))
        self.assertFalse(torch.equal(asked[3], of_bf16[3].float()))


class Refusals(unittest.TestCase):
    # Fails if a fault is not named by argument and value.
    def test_by_name_and_value(self):
        hidden, weight, labels, g = problem()
        good = {"hidden": hidden, "weight": weight, "labels": labels}
        for said, bad in (
            (r"labels\[0\] = -1 is outside \[0, 130\)", {"labels": labels * 0 - 1}),
            ("temperature = 0", {"temperature": 0.0}),
            ("temperature.requires_grad", {"temperature": g.clone().requires_grad_()}),
            (r"temperature.shape = \(3,\)", {"temperature": torch.ones(3)}),
            (r"temperature\[1\] = 0", {"temperature": -torch.ones(24).cumsum(0) + 2}),
            ("reduction = 'avg'", {"reduction": "avg"}),
            ("memory = '4 apples'", {"memory": "4 apples"}),
            ("memory = -1", {"memory": -1}),
            (r"weight.shape = \(16,\)", {"weight": weight[0]}),
            (r"hidden.shape = \(24, 8\)", {"hidden": hidden[:, :8]}),
            (r"labels.shape = \(23,\)", {"labels": labels[1:]}),
            ("labels.dtype = torch.float32", {"labels": labels.float()}),
            ("hidden.dtype = torch.float64", {"hidden": hidden.double()}),
            ("hidden.dtype = torch.bfloat16 and weight.dtype = torch.float32", {"hidden": hidden.bfloat16()}),
            ("compute_dtype = torch.float64", {"compute_dtype": torch.float64}),
            ("labels.device = meta", {"labels": labels.to("meta")}),
        ):
            with self.subTest(said), self.assertRaisesRegex((ValueError, TypeError), said):
                linear_cross_entropy(**{**good, **bad})

    # Fails if asking is an error, or a device that cannot run it is said to.
    def test_supported(self):
        self.assertTrue(plumbline.torch.supported("cpu"))
        for device, reason in (("mps", "only CPU tensors and CUDA"), ("cuda:99", "cuda:99"), ("apple", "apple")):
            found = plumbline.torch.supported(device)
            self.assertFalse(found)
            self.assertIn(reason, found.reason)

    # Fails if what is no device, or cannot even be said, is an exception and not an answer.
    def test_supported_never_raises(self):
        class Unsayable:
            def __repr__(self):
                raise RuntimeError("no words")

        for odd in (10**30, 10**5000, -1, 1.5, True, "", "cpu\0", "\ud800", "cuda:99999999999999999999", [], Unsayable()):
            with self.subTest(type(odd)):
                found = plumbline.torch.supported(odd)
                self.assertFalse(found)
                self.assertRegex(found.reason, "^device = ")


if __name__ == "__main__":
    unittest.main()
