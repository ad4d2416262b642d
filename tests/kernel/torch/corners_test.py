# SPDX-License-Identifier: Apache-2.0
"""What PyTorch may hand to an operator: negated views, transformations, tracers, fake tensors, values of odd kinds."""

import itertools
import sys
import unittest
from unittest import mock

from support import PACKAGE, bits_are_equal, leaf, problem

sys.path.insert(0, str(PACKAGE))

import numpy as np
import torch
from plumbline.torch import (
    LinearCrossEntropy,
    _library,
    _scalars,
    linear_cross_entropy,
    supported,
)
from plumbline.torch._passes import saved_bytes
from plumbline.torch.memory import columns_kept, kept_form, made_in_forward
from torch._subclasses import FakeTensorMode
from torch.autograd import forward_ad
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils.checkpoint import checkpoint


def differentiated(hidden, weight, labels, g, **options):
    inputs = leaf(hidden), leaf(weight)
    outputs = linear_cross_entropy(*inputs, labels, **options)
    return [*outputs, *torch.autograd.grad(outputs, inputs, (g, g))]


class Views(unittest.TestCase):
    # Fails if memory is read in which the numbers are not: of a negated view, of a gradient of zeros.
    def test_numbers_that_are_not_in_memory(self):
        hidden, weight, labels, g = problem()
        expected = differentiated(hidden, weight, labels, g, temperature=g.abs())
        negated = [torch._neg_view(-each.detach()) for each in (hidden, weight, g)]
        found = differentiated(negated[0], negated[1], labels, negated[2], temperature=torch._neg_view(-g.abs()))
        self.assertTrue(all(map(bits_are_equal, found, expected)))
        zeros = differentiated(hidden, weight, labels, torch._efficientzerotensor(24))
        self.assertEqual([each.abs().max().item() for each in zeros[2:]], [0, 0])

    # Fails if torch.vmap hides that a gradient is asked for, of hidden alone as well, and wherever it is made.
    def test_a_batch_of_problems(self):
        hidden, weight, labels, _ = problem()
        for trained, options in itertools.product((True, False), ({"reduction": "sum"}, {"reduction": "sum", "gradients": "forward"})):
            head = leaf(weight) if trained else weight.detach()

            def loss(hidden, labels, head=head, options=options):
                return linear_cross_entropy(hidden, head, labels, **options)[0]

            def gradients(losses, batch, head=head, trained=trained):
                return torch.autograd.grad(losses.sum(), [batch, head] if trained else [batch])

            batch, alone = leaf(hidden.reshape(2, 12, -1)), leaf(hidden.reshape(2, 12, -1))
            found = gradients(torch.vmap(loss)(batch, labels.reshape(2, 12)), batch)
            expected = gradients(torch.stack([loss(alone[i], labels[12 * i : 12 * i + 12]) for i in range(2)]), alone)
            self.assertTrue(all(map(bits_are_equal, found, expected)), (trained, options))

    # Fails if torch.vmap hides that a gradient of a temperature is asked for, or what it shows a part of has no refusal.
    def test_a_batch_of_what_has_no_gradient(self):
        hidden, weight, labels, _ = problem()
        temperatures = torch.tensor([1.0, 2.0], requires_grad=True)
        with self.assertRaisesRegex(ValueError, "temperature.requires_grad = True"):
            torch.vmap(lambda t: linear_cross_entropy(hidden, weight, labels, t)[0])(temperatures)
        for option, at, said in (({"return_lse": True}, 2, "lse"), ({"reduction": "sum", "gradients": "auto"}, 1, "entropy")):
            batch = leaf(torch.stack([hidden, 2 * hidden]))
            outputs = torch.vmap(lambda a, option=option: linear_cross_entropy(a, weight, labels, **option))(batch)
            (found,) = torch.autograd.grad(outputs[0].sum(), batch, retain_graph=True)
            alone = leaf(hidden)
            (expected,) = torch.autograd.grad(linear_cross_entropy(alone, weight, labels, **option)[0].sum(), alone)
            self.assertTrue(bits_are_equal(found[0], expected))
            with self.assertRaisesRegex(NotImplementedError, f"{said} of linear_cross_entropy has no gradient"):
                outputs[at].sum().backward()

    # Fails if hooks that move saved tensors leave a state where it cannot be read.
    def test_saved_elsewhere(self):
        hidden, weight, labels, g = problem()
        expected = differentiated(hidden, weight, labels, g)

        def moved(tensor):
            memory = torch.empty(tensor.numel() * tensor.element_size() + 4, dtype=torch.uint8)[4:]
            return memory.copy_(tensor.contiguous().reshape(-1).view(torch.uint8)), tensor.dtype, tensor.shape

        with torch.autograd.graph.saved_tensors_hooks(moved, lambda kept: kept[0].clone().view(kept[1]).reshape(kept[2])
                                                      if kept[1] != torch.uint8 else kept[0]):  # fmt: skip
            found = differentiated(hidden, weight, labels, g)
        self.assertTrue(all(map(bits_are_equal, found, expected)))


class Transformations(unittest.TestCase):
    # Fails if a derivative that there is not is 0 in silence.
    def test_forward_mode_is_refused(self):
        hidden, weight, labels, _ = problem()
        plain = hidden.detach(), weight.detach()

        def dual():
            with forward_ad.dual_level():
                return linear_cross_entropy(forward_ad.make_dual(plain[0], plain[0]), plain[1], labels)

        for call in (dual,
                     lambda: torch.func.jvp(lambda h: linear_cross_entropy(h, plain[1], labels)[0], plain[:1], plain[:1]),
                     lambda: torch.func.jacfwd(lambda h: linear_cross_entropy(h, plain[1], labels)[0])(plain[0]),
                     lambda: torch.func.grad(lambda h: linear_cross_entropy(h, plain[1], labels)[0].sum())(plain[0])):  # fmt: skip
            with self.assertRaisesRegex(NotImplementedError, "use torch.autograd.grad"):
                call()

    # Fails if a batch of upstream gradients is taken for one.
    def test_batched_gradients(self):
        hidden, weight, labels, _ = problem(5)
        logprob, _ = linear_cross_entropy(hidden, weight, labels)
        rows = torch.eye(5)
        batched = torch.autograd.grad(logprob, hidden, rows, is_grads_batched=True, retain_graph=True)[0]
        for at in range(5):
            alone = torch.autograd.grad(logprob, hidden, rows[at], retain_graph=True)[0]
            self.assertTrue(bits_are_equal(batched[at], alone))

    # Fails if a tracer does not see the operator and replays memory that nobody writes.
    def test_traced(self):
        hidden, weight, labels, _ = problem()
        plain = hidden.detach()
        fixed = weight.detach()
        traced = torch.jit.trace(lambda h: linear_cross_entropy(h, fixed, labels)[0], (plain,), check_trace=False)
        self.assertTrue(bits_are_equal(traced(plain * 2), linear_cross_entropy(plain * 2, weight, labels)[0].detach()))

    # Fails if tensors that only stand for others are refused.
    def test_fake(self):
        with torch._subclasses.FakeTensorMode():
            logprob, entropy = LinearCrossEntropy(16, 130)(torch.empty(4, 16), torch.zeros(4, dtype=torch.long))
        self.assertEqual((logprob.shape, entropy.dtype), ((4,), torch.float32))

    # Fails if zeros that a function around it makes of a gradient that nobody asks for are taken for one.
    def test_reentrant_checkpoint(self):
        hidden, weight, labels, _ = problem()
        inputs = leaf(hidden), leaf(weight)
        outputs = checkpoint(lambda *each: linear_cross_entropy(*each, labels, return_lse=True), *inputs, use_reentrant=True)
        outputs[0].sum().backward()
        expected = differentiated(hidden, weight, labels, torch.ones(24))
        alone = leaf(hidden), leaf(weight)
        linear_cross_entropy(*alone, labels)[0].sum().backward()
        self.assertTrue(bits_are_equal(inputs[0].grad, alone[0].grad))
        self.assertFalse(bits_are_equal(inputs[0].grad, expected[2]))

    # Fails if each value of a temperature is compiled for itself.
    def test_compiled_temperature(self):
        torch._dynamo.reset()
        hidden, weight, labels, _ = problem()
        plain = hidden.detach(), weight.detach()
        compiled = torch.compile(lambda t: linear_cross_entropy(*plain, labels, t)[0], fullgraph=True, backend="aot_eager")
        for value in (0.7, 0.5):  # the second makes it a variable
            compiled(value)
        with torch._dynamo.config.patch(error_on_recompile=True):
            for value in (2.0, 1.5, 0.3):
                self.assertTrue(bits_are_equal(compiled(value), linear_cross_entropy(*plain, labels, value)[0]))
        with self.assertRaisesRegex(Exception, "temperature: finite and greater than 0"):
            compiled(-1.0)


class Values(unittest.TestCase):
    # Fails if a value of another kind is taken for what it looks like, or refused in words that do not name it.
    def test_kinds(self):
        hidden, weight, labels, _ = problem()
        good = {"hidden": hidden, "weight": weight, "labels": labels}
        for said, bad in (("temperature is a NoneType", {"temperature": None}), ("temperature is a str", {"temperature": "0.7"}),
                          ("temperature = 1e-60", {"temperature": 1e-60}), ("temperature = 1e.39", {"temperature": 1e39}),
                          ("temperature.dtype = torch.complex64", {"temperature": torch.tensor(1 + 1j)}),
                          ("ignore_index = None", {"ignore_index": None}), ("ignore_index = 9223372036854775808", {"ignore_index": 1 << 63}),
                          ("hidden is a NoneType", {"hidden": None}), ("labels is a list", {"labels": [0]}),
                          ("hidden.layout = torch.sparse_coo", {"hidden": hidden.detach().to_sparse()}),
                          ("temperature.layout = torch.sparse_coo", {"temperature": torch.ones(24).to_sparse()}),
                          (r"reduction = \['mean'\]", {"reduction": ["mean"]}), ("memory = '999", {"memory": "9" * 400 + "GiB"}),
                          ("memory = True", {"memory": True})):  # fmt: skip
            with self.subTest(said), self.assertRaisesRegex((ValueError, TypeError), said):
                linear_cross_entropy(**{**good, **bad})
        found, expected = (linear_cross_entropy(**good, ignore_index=each)[0] for each in (np.int64(-100), -100))
        self.assertTrue(bits_are_equal(found, expected))
        for value in (np.float64(0.5), np.float32(0.5)):
            found = linear_cross_entropy(**good, temperature=value, memory=np.int64(5))[0]
            self.assertTrue(bits_are_equal(found, linear_cross_entropy(**good, temperature=0.5)[0]))
        for device in (0, "", [], 3.5):
            self.assertFalse(supported(device) and not torch.cuda.is_available(), device)


class Held(unittest.TestCase):
    """What is made once and used again."""

    # Fails if a number is filled at each call, another number's memory is read, or no end is set to what is held.
    def test_scalars(self):
        hidden, weight, labels, g = problem()
        expected = differentiated(hidden, weight, labels, g, temperature=torch.tensor(0.7))
        filled, real = [], _scalars._filled

        def noted(value, device):
            filled.append(value)
            return real(value, device)

        with mock.patch.object(_scalars, "_filled", noted), mock.patch.dict(_scalars._made, clear=True):
            with torch.inference_mode():
                linear_cross_entropy(hidden, weight, labels, 0.7)
            for _ in range(2):
                found = differentiated(hidden, weight, labels, g, temperature=0.7)
                self.assertTrue(all(map(bits_are_equal, found, expected)))
            self.assertEqual(filled, [0.7])
            colder = differentiated(hidden, weight, labels, g, temperature=0.25)
            filled.pop()
            of_tensor = differentiated(hidden, weight, labels, g, temperature=torch.tensor(0.25))
            self.assertTrue(all(map(bits_are_equal, colder, of_tensor)))
            with torch._subclasses.FakeTensorMode() as mode:
                linear_cross_entropy(*(mode.from_tensor(each) for each in (hidden, weight, labels)), 0.3)
            self.assertEqual(filled, [0.7])
            for step in range(3 * _scalars._MOST):
                linear_cross_entropy(hidden, weight, labels, 1.5 + step)
            self.assertLessEqual(len(_scalars._made), _scalars._MOST)
        self.assertTrue(all(map(bits_are_equal, differentiated(hidden, weight, labels, g, temperature=0.7), expected)))

    # Fails if a graph that is captured reads a number that is filled outside of it, or leaves one that only it fills.
    def test_scalars_of_a_captured_graph(self):
        device = torch.device("cuda", 0)
        with (
            mock.patch.multiple(torch.cuda, current_device=lambda: 0, current_stream=lambda _: mock.Mock(cuda_stream=7)),
            mock.patch.object(_scalars, "_filled", lambda value, _: [value]),
            mock.patch.dict(_scalars._made, clear=True),
        ):
            with mock.patch.object(torch.cuda, "is_current_stream_capturing", lambda: False):
                before = _scalars.scalar(0.9, device)
                self.assertIs(_scalars.scalar(0.9, device), before)
            with mock.patch.object(torch.cuda, "is_current_stream_capturing", lambda: True):
                self.assertIsNot(_scalars.scalar(0.9, device), before)
                _scalars.scalar(0.8, device)
            self.assertEqual(list(_scalars._made), [(0.9, device, 7)])

    # Fails if a compiler cannot trace how many columns are kept, where it knows every size or none.
    def test_sizes_that_a_compiler_knows(self):
        def kept(rows):
            return rows.new_ones(()) * columns_kept(rows.shape[0], 4096, 151936, torch.bfloat16, 1 << 30)

        for dynamic in (False, True):
            torch._dynamo.reset()
            compiled = torch.compile(kept, fullgraph=True, dynamic=dynamic, backend="eager")
            for rows in (64, 8192):
                self.assertEqual(compiled(torch.empty(rows)), kept(torch.empty(rows)), (dynamic, rows))

    # Fails if a compiler is asked on a device what it cannot know of rows that a mask chooses.
    def test_rows_that_nobody_knows(self):
        with FakeTensorMode(shape_env=ShapeEnv()) as mode:
            rows = mode.shape_env.create_unbacked_symint()
            torch._check(rows >= 0)
            inputs = [torch.empty(n, 4096, device="cuda", dtype=torch.bfloat16, requires_grad=True) for n in (rows, 151936)]
            columns = columns_kept(rows, 4096, 151936, torch.bfloat16, 4 << 30)
            self.assertIs(made_in_forward("auto", *inputs, columns, 4 << 30), False)
            self.assertIs(made_in_forward("forward", *inputs, columns, 4 << 30), True)
            known = inputs[1], inputs[1]
            self.assertIs(made_in_forward("auto", *known, 64, 4 << 30), True)
            self.assertIs(made_in_forward("auto", *known, 64, 1 << 30), False)

    # Fails if a head whose option is gradients in forward cannot score.
    def test_scoring_makes_no_gradients(self):
        head = LinearCrossEntropy(16, 130, reduction="mean", gradients="forward")
        with torch.no_grad():
            logprob = head(torch.randn(4, 16), torch.zeros(4, dtype=torch.long), reduction="none")[0]
        self.assertEqual(logprob.shape, (4,))

    # Fails if the sizes of one call are taken for those of another shape, dtype, result or number of threads.
    def test_sizes(self):
        def sizes(rows, hidden_size, vocabulary, dtype, threads, wanted, at_once):
            matrices = [(0, dtype, 2, height, hidden_size, hidden_size, 1) for height in (rows, vocabulary)]
            vector, absent = (0, 2, 1, rows, 1, 1, 1), _library.ABSENT
            gradients = matrices if wanted else (absent, absent)
            with mock.patch.object(torch, "get_num_threads", lambda: threads):
                call = _library.Call(torch.device("cpu"), 0, -100, 0, (
                    *matrices[0], *matrices[1], *(0, 4, 1, rows, 1, 1, 1), *absent, *vector, *absent, *vector, *absent, *vector,
                    *vector, *gradients[0], *gradients[1], *absent,
                ))  # fmt: skip
            return call.sizes_at_once() if at_once else call.sizes()

        shapes = list(itertools.product((64, 3000), (64, 512), (1000, 50000), (0, 2), (1, 2), (False, True), (False, True)))
        with mock.patch.dict(_library._sizes, clear=True):
            together = [sizes(*each) for each in shapes]
        for each, found in zip(shapes, together, strict=True):
            with mock.patch.dict(_library._sizes, clear=True):
                self.assertEqual(found, sizes(*each), each)
        self.assertGreater(len(set(together)), 16)  # they differ


class DeviceMemory(unittest.TestCase):
    """The plan of kept logits against what the library asks for, which is arithmetic on shapes."""

    def sizes(self, rows, hidden_size, vocabulary, dtype, columns):
        code = _library.DTYPES[dtype]

        def matrix(height):
            return (0, code, 2, height, hidden_size, hidden_size, 1)

        vector, absent = (0, 2, 1, rows, 1, 1, 1), _library.ABSENT
        labels = (0, 4, 1, rows, 1, 1, 1)
        size, group = kept_form(dtype)
        call = _library.Call(torch.device("cpu"), size * rows * (-(-columns // group) * group), -100, 0, (
            *matrix(rows), *matrix(vocabulary), *labels, *absent, *vector, *vector, *vector, *absent, *vector, *vector,
            *matrix(rows), *matrix(vocabulary), *absent,
        ))  # fmt: skip
        call._buffer[0:4] = (1).to_bytes(4, "little")  # a CUDA device
        call._key = None, *call._key
        return call.sizes(), call.sizes_at_once()[0]

    # Fails if kept logits and the workspace pass what the caller allows, in two calls or in one, the state is larger than
    # planned, or fewer columns are kept than were paid for.
    def test_fits(self):
        if not _library.HAS_CUDA:
            self.skipTest("built without CUDA")
        device = torch.device("cuda")
        for rows in (1, 128, 3000, 8192, 32768, 65536, 126721, 131072, 200000, 498391, 3396802):
            for hidden_size, vocabulary in ((4096, 151936), (1408, 151936), (1024, 50257), (2048, 128256), (64, 1000), (64, 43897)):
                for dtype in (torch.bfloat16, torch.float16, torch.float32):
                    least = self.sizes(rows, hidden_size, vocabulary, dtype, 0)
                    for memory in (0, 1 << 30, 1163 << 20, 3_060_000_000, 4 << 30, 16 << 30, 108051 << 20):
                        columns = columns_kept(rows, hidden_size, vocabulary, dtype, memory)
                        (workspace, state), at_once = self.sizes(rows, hidden_size, vocabulary, dtype, columns)
                        shape = f"{rows}x{hidden_size}x{vocabulary} {dtype} {memory} {columns}"
                        self.assertLessEqual(workspace + state, max(memory, sum(least[0])), shape)
                        self.assertLessEqual(at_once, max(memory, least[1]), shape)
                        self.assertLessEqual(state, saved_bytes(device, rows, vocabulary, columns, dtype), shape)
                        size, group = kept_form(dtype)
                        kept = size * rows * (-(-columns // group) * group)
                        self.assertGreaterEqual(state, kept, shape)
        self.assertEqual(columns_kept(128, 4096, 1000, torch.bfloat16, 4 << 30), 1000)
        self.assertEqual(columns_kept(8192, 4096, 151936, torch.bfloat16, 4 << 30), 151936)
        self.assertGreater(columns_kept(8192, 4096, 151936, torch.float16, 4 << 30) * 8192 * 4, 19 << 27)


if __name__ == "__main__":
    unittest.main()
