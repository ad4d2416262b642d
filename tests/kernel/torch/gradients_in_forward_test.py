# SPDX-License-Identifier: Apache-2.0
"""plumbline.torch with gradients="forward": the bits of the call in C and of backward, what is rounded twice, what is refused,
autograd's ways of calling."""

import ctypes
import sys
import unittest

from c_call import CallOfC, Tensor, as_c, library
from support import PACKAGE, bits_are_equal, leaf, problem

sys.path.insert(0, str(PACKAGE))

import torch
from plumbline.torch import LinearCrossEntropy, causal_lm_loss, linear_cross_entropy
from plumbline.torch.memory import made_in_forward
from torch.library import opcheck
from torch.utils.checkpoint import checkpoint

OPERATOR = torch.ops.plumbline.linear_cross_entropy_in_forward.default
SCALED = torch.ops.plumbline.linear_cross_entropy_scaled.default
REDUCTIONS = {"sum": 1, "mean": 2}


def by_c(hidden, weight, labels, reduction):
    """loss, entropy and both gradients by the library's one call with an upstream gradient of 1."""
    one = torch.ones(())
    outputs = {"loss": torch.empty(()), "entropy": torch.empty(len(labels)), "lse": torch.empty(len(labels)),
               "grad_hidden": torch.empty_like(hidden), "grad_weight": torch.empty_like(weight)}  # fmt: skip
    call = CallOfC(ignore_index=-100, reduction=REDUCTIONS[reduction])
    call.temperature = call.logprob = call.first_invalid_row = call.grad_entropy = Tensor(rank=-1)
    given = {"hidden": hidden, "weight": weight, "labels": labels, "grad_logprob": one}
    for name, tensor in {**given, **outputs}.items():
        setattr(call, name, as_c(tensor.detach()))
    operator = library()
    assert operator.plumbline_operator_forward_backward_sizes(ctypes.byref(call)) == 0
    workspace = torch.empty(call.workspace_bytes, dtype=torch.uint8)
    call.workspace = workspace.data_ptr()
    assert operator.plumbline_operator_forward_backward(ctypes.byref(call)) == 0
    return [outputs[name] for name in ("loss", "entropy", "grad_hidden", "grad_weight")]


def differentiated(hidden, weight, labels, upstream=1.0, reduction="mean", **options):
    """The same four through autograd."""
    hidden, weight = leaf(hidden), leaf(weight)
    loss, entropy = linear_cross_entropy(hidden, weight, labels, reduction=reduction, **options)
    loss.backward(torch.tensor(upstream))
    return [loss.detach(), entropy.detach(), hidden.grad, weight.grad]


class Values(unittest.TestCase):
    # Fails if an argument reaches the operator as another, or the gradients are those of another upstream gradient.
    def test_bits_are_those_of_the_c_call(self):
        for dtype in (torch.float32, torch.bfloat16):
            hidden, weight, labels, _ = problem(dtype=dtype)
            for reduction in REDUCTIONS:
                found = differentiated(hidden, weight, labels, reduction=reduction, gradients="forward")
                for one, other in zip(found, by_c(hidden, weight, labels, reduction), strict=True):
                    self.assertTrue(bits_are_equal(one, other), f"{dtype} {reduction}")

    # Fails if a power of two is rounded (a factor in bf16, fp16's range), or T, ignored rows or a dtype to multiply in
    # are others than in backward.
    def test_powers_of_two_have_the_bits_of_backward(self):
        for dtype, computed in ((torch.float32, None), (torch.bfloat16, None), (torch.bfloat16, torch.float32)):
            hidden, weight, labels, _ = problem(dtype=dtype)
            for temperature in (1.0, 0.7, torch.linspace(0.5, 2, 24)):
                for upstream in (1.0, -1.0, 0.125, 65536.0):
                    options = {"temperature": temperature, "compute_dtype": computed}
                    expected = differentiated(hidden, weight, labels, upstream, **options)
                    found = differentiated(hidden, weight, labels, upstream, gradients="forward", **options)
                    for one, other in zip(found, expected, strict=True):
                        self.assertTrue(bits_are_equal(one, other), f"{dtype} {computed} {temperature} {upstream}")

    # A product of two numbers in fp32, rounded to the gradient's dtype once more. Fails if the factor is rounded to bf16, or
    # more than the product is.
    def test_another_factor_is_one_more_rounding(self):
        third = torch.tensor(1 / 3).item()  # in fp32; not in bf16
        for dtype in (torch.float32, torch.bfloat16):
            hidden, weight, labels, _ = problem(dtype=dtype)
            of_one = differentiated(hidden, weight, labels)
            found = differentiated(hidden, weight, labels, third, gradients="forward")
            for one, other in zip(found[2:], of_one[2:], strict=True):
                self.assertTrue(bits_are_equal(one, (other.double() * third).float().to(dtype)), dtype)
            narrow = torch.tensor(third).bfloat16().item()
            self.assertFalse(bits_are_equal(found[3], (of_one[3].double() * narrow).float().to(dtype)), dtype)

    # Fails if a factor of 0 leaves something, or one that is no number is read as one.
    def test_upstream_that_is_special(self):
        hidden, weight, labels, _ = problem()
        for gradients in ("forward", "backward"):
            zero = differentiated(hidden, weight, labels, 0.0, gradients=gradients)
            self.assertEqual([each.abs().max().item() for each in zero[2:]], [0, 0])
            nan = differentiated(hidden, weight, labels, torch.nan, gradients=gradients)
            taken = labels != -100
            self.assertTrue(nan[2][taken].isnan().all() and nan[3].isnan().all(), gradients)
        with torch.no_grad():
            hidden[5, 0] = torch.inf
        found = differentiated(hidden, weight, labels, 0.0, gradients="forward")
        self.assertTrue(found[2][5].isnan().all())  # 0 times NaN, as PyTorch's own functions have it

    # Fails if rows that are all ignored leave what memory held.
    def test_nothing_counts(self):
        hidden, weight, labels, _ = problem()
        for shape in ((24, 16, 130), (0, 16, 130), (5, 0, 130)):
            hidden, weight, labels, _ = problem(*shape)
            found = differentiated(hidden, weight, torch.full_like(labels, -100), 3.0, gradients="forward")
            self.assertEqual(found[0].item(), 0)
            for made, of in zip(found[2:], (hidden, weight), strict=True):
                self.assertTrue(bits_are_equal(made, torch.zeros_like(of)))

    # Fails if it is not the loss of the head and of trainers.
    def test_head_and_trainer(self):
        hidden, weight, labels, _ = problem()
        expected = differentiated(hidden, weight, labels)
        head = LinearCrossEntropy(16, 130, reduction="mean", gradients="forward")
        head.weight = torch.nn.Parameter(weight.detach().clone())
        body = leaf(hidden)
        head(body, labels)[0].backward()
        self.assertTrue(bits_are_equal(body.grad, expected[2]) and bits_are_equal(head.weight.grad, expected[3]))
        grads = []
        for gradients in ("forward", "backward"):
            body, matrix = leaf(hidden), leaf(weight)
            nested = body.unflatten(0, (4, 6)), matrix, labels.unflatten(0, (4, 6))
            causal_lm_loss(*nested, num_items_in_batch=16, gradients=gradients).backward()
            grads.append((body.grad, matrix.grad))
        self.assertTrue(all(map(bits_are_equal, *grads)))


class Ways(unittest.TestCase):
    """Autograd's ways of calling."""

    def setUp(self):
        self.hidden, self.weight, self.labels, _ = problem(dtype=torch.bfloat16)
        self.inputs = leaf(self.hidden), leaf(self.weight)
        self.expected = differentiated(self.hidden, self.weight, self.labels)[2:]

    def loss(self, *inputs):
        return linear_cross_entropy(*(inputs or self.inputs), self.labels, reduction="mean", gradients="forward")[0]

    # Fails if backward writes over gradients that a second one needs, or that somebody holds.
    def test_graph_is_kept(self):
        loss = self.loss()
        first = torch.autograd.grad(loss * 3, self.inputs, retain_graph=True)
        again = torch.autograd.grad(loss, self.inputs, retain_graph=True)
        self.assertTrue(all(map(bits_are_equal, again, self.expected)))
        for each in again:
            each.zero_()
        last = torch.autograd.grad(loss, self.inputs)
        self.assertTrue(all(map(bits_are_equal, last, self.expected)))
        self.assertFalse(bits_are_equal(first[0], last[0]))
        with self.assertRaisesRegex(RuntimeError, "backward through the graph a second time"):
            loss.backward()

    # Fails if tensors that a hook has been given are written over, or hooks get no gradients to move.
    def test_hooks_of_saved_tensors(self):
        seen = []

        def pack(tensor):
            seen.append((tensor, tensor.clone()))
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            loss = self.loss()
        (loss * 3).backward()
        shapes = [each.shape for each, _ in seen]
        self.assertIn(self.hidden.shape, shapes)
        self.assertIn(self.weight.shape, shapes)
        for each, copy in seen:
            self.assertTrue(bits_are_equal(each, copy))

    # Fails if a second gradient of the same weight is taken for the first, or its scale for all.
    def test_accumulated(self):
        for gradients in ("forward", "backward"):
            self.inputs[0].grad = self.inputs[1].grad = None
            for rows in (slice(0, 12), slice(12, 24)):
                loss, _ = linear_cross_entropy(self.inputs[0][rows], self.inputs[1], self.labels[rows], reduction="mean",
                                               gradients=gradients)  # fmt: skip
                (loss / 2).backward()
            if gradients == "forward":
                found = [each.grad for each in self.inputs]
        self.assertTrue(all(bits_are_equal(one, each.grad) for one, each in zip(found, self.inputs, strict=True)))

    # Fails if a gradient that nobody needs is computed, or the other one is another.
    def test_frozen(self):
        for frozen in range(2):
            inputs = [leaf(self.hidden), leaf(self.weight)]
            inputs[frozen].requires_grad_(False)
            shapes = []
            with torch.autograd.graph.saved_tensors_hooks(lambda t, into=shapes: into.append(t.shape) or t, lambda t: t):
                loss = self.loss(*inputs)
            self.assertEqual(shapes, [inputs[1 - frozen].shape])
            loss.backward()
            self.assertIsNone(inputs[frozen].grad)
            self.assertTrue(bits_are_equal(inputs[1 - frozen].grad, self.expected[1 - frozen]))
            arguments = (*inputs, self.labels, None, -100, 2, None, 0, bool(frozen), not frozen)
            self.assertEqual(OPERATOR(*arguments)[4 + frozen].numel(), 0)

    # Fails if gradients are made where none can be asked for.
    def test_no_grad(self):
        seen = []

        class Seen(torch.utils._python_dispatch.TorchDispatchMode):
            def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
                seen.append(str(function))
                return function(*arguments, **(keywords or {}))

        with Seen():
            with torch.no_grad():
                self.assertFalse(self.loss().requires_grad)
            self.loss(*(each.detach() for each in self.inputs))
            self.assertNotIn("plumbline.linear_cross_entropy_in_forward.default", seen)
            self.loss().backward()
        self.assertIn("plumbline.linear_cross_entropy_in_forward.default", seen)
        self.assertEqual(seen.count("plumbline.linear_cross_entropy_scaled.default"), 2)
        self.assertNotIn("plumbline.linear_cross_entropy_backward.default", seen)
        self.assertTrue(all(bits_are_equal(each.grad, one) for each, one in zip(self.inputs, self.expected, strict=True)))

    # Fails if a checkpoint holds gradients, or its second forward makes others.
    def test_checkpointed(self):
        for reentrant in (False, True):
            loss = checkpoint(self.loss, *self.inputs, use_reentrant=reentrant)
            found = torch.autograd.grad(loss, self.inputs) if not reentrant else None
            if reentrant:
                loss.backward()
                found = [each.grad for each in self.inputs]
            self.assertTrue(all(map(bits_are_equal, found, self.expected)))

    # Fails if a batch of upstream gradients is taken for one.
    def test_batched_gradients(self):
        factors = torch.tensor([1.0, 0.5, -2.0])
        loss = self.loss()
        batched = torch.autograd.grad(loss, self.inputs, factors, is_grads_batched=True, retain_graph=True)
        for at, factor in enumerate(factors):
            alone = torch.autograd.grad(loss, self.inputs, factor, retain_graph=True)
            self.assertTrue(bits_are_equal(batched[0][at], alone[0]) and bits_are_equal(batched[1][at], alone[1]))

    # Fails if backward needs memory for the gradients once more, or of a leaf's gradient a copy is made.
    def test_backward_writes_over_what_forward_made(self):
        loss = self.loss()
        made = [each.data_ptr() for each in loss.grad_fn.saved_tensors]
        (loss * 0.5).backward()
        self.assertEqual([each.grad.data_ptr() for each in self.inputs], made)
        halves = (each * 0.5 for each in self.expected)
        self.assertTrue(all(bits_are_equal(each.grad, half) for each, half in zip(self.inputs, halves, strict=True)))


class Operators(unittest.TestCase):
    # Without opcheck's derivatives of all outputs: that of entropy is an error. Fails if a fake implementation says another
    # shape, dtype or stride, an output is left partly unwritten, or the schema hides a mutation.
    def test_opcheck(self):
        utilities = ("test_schema", "test_autograd_registration", "test_faketensor")
        for dtype in (torch.float32, torch.bfloat16):
            hidden, weight, labels, _ = problem(17, dtype=dtype)
            for reduction in (1, 2):
                for temperature in (None, torch.rand(17) + 0.5):
                    for needed in ((True, True), (False, True)):
                        inputs = leaf(hidden).requires_grad_(needed[0]), leaf(weight)
                        arguments = (*inputs, labels, temperature, -100, reduction, None, 0, *needed)
                        self.assertEqual(set(opcheck(OPERATOR, arguments, test_utils=utilities).values()), {"SUCCESS"})
            for grad_entropy in (None, torch.zeros(17)):
                self.assertEqual(set(opcheck(SCALED, (weight.detach(), torch.tensor(0.3), grad_entropy)).values()), {"SUCCESS"})

    # Fails if what there is no gradient of is given one of 0 in silence, compiled or not.
    def test_entropy_has_no_gradient(self):
        hidden, weight, labels, _ = problem()

        def objective(hidden, weight, gradients):
            loss, entropy = linear_cross_entropy(hidden, weight, labels, reduction="mean", gradients=gradients)
            return loss - 0.01 * entropy.mean()

        torch._dynamo.reset()
        compiled = torch.compile(objective, fullgraph=True, backend="aot_eager")
        for function, gradients in ((objective, "forward"), (objective, "auto"), (compiled, "forward")):
            with self.assertRaisesRegex(NotImplementedError, "entropy of linear_cross_entropy has no gradient"):
                function(leaf(hidden), leaf(weight), gradients).backward()
        both = leaf(hidden), leaf(weight)
        loss, entropy = linear_cross_entropy(*both, labels, reduction="mean", gradients="forward")
        (loss + entropy.detach().sum()).backward()
        self.assertTrue(bits_are_equal(both[0].grad, differentiated(hidden, weight, labels)[2]))
        loss, entropy, lse = linear_cross_entropy(*both, labels, reduction="mean", return_lse=True, gradients="forward")
        with self.assertRaisesRegex(NotImplementedError, "lse of linear_cross_entropy has no gradient"):
            (loss + lse.sum()).backward()

    # Fails if a second derivative is one of half of the product, or 0 since no path leads from gradients to inputs.
    def test_no_second_derivative(self):
        hidden, weight, labels, _ = problem()
        calls = (lambda *a: linear_cross_entropy(*a, reduction="mean", gradients="forward")[0],
                 lambda *a: OPERATOR(*a, None, -100, 2, None, 0, True, True)[0])  # fmt: skip
        for call in calls:
            with self.assertRaisesRegex(NotImplementedError, "create_graph = True: .* no second derivative"):
                torch.autograd.grad(call(hidden, weight, labels) * 2, hidden, create_graph=True)
            with self.assertRaisesRegex(NotImplementedError, "create_graph = True"):
                torch.autograd.functional.hessian(lambda a, call=call: call(a, weight, labels), hidden.detach())
            (gradient,) = torch.autograd.grad(call(hidden, weight, labels), hidden, retain_graph=True)
            self.assertFalse(gradient.requires_grad)

    # Fails if a compiled call breaks the graph, is made again for other rows, or has other bits.
    def test_compiled(self):
        torch._dynamo.reset()
        hidden, weight, labels, _ = problem(64)

        def objective(hidden, weight, labels, factor):
            loss, entropy = linear_cross_entropy(hidden, weight, labels, 0.7, "mean", gradients="forward")
            return loss * factor, entropy

        compiled = torch.compile(objective, fullgraph=True, dynamic=True)
        for rows in (64, 32, 17):
            found = []
            for function in (compiled, objective):
                inputs = leaf(hidden[:rows]), leaf(weight)
                with torch._dynamo.config.patch(error_on_recompile=True):
                    loss, _ = function(*inputs, labels[:rows].clone(), torch.tensor(0.3))
                loss.backward()
                found.append([each.grad for each in inputs])
            self.assertTrue(all(map(bits_are_equal, *found)), rows)

    # Fails if an exported head has other bits, or a gradient that its graph does not make is one of no elements.
    def test_exported(self):
        hidden, _, labels, _ = problem()
        torch.manual_seed(0)
        head = LinearCrossEntropy(16, 130, reduction="mean", gradients="forward")
        exported = torch.export.export(head, (hidden.detach(), labels)).module()
        losses = exported(hidden.detach(), labels)[0], head(hidden.detach(), labels)[0]
        self.assertTrue(bits_are_equal(*losses))
        for loss in losses:
            loss.backward()
        self.assertTrue(bits_are_equal(exported.weight.grad, head.weight.grad))
        with self.assertRaisesRegex(ValueError, "hidden.requires_grad = True"):
            exported(hidden, labels)

    # Fails if the dtype that autocast multiplies in is another, or a gradient of an fp32 weight is rounded to bf16.
    def test_autocast(self):
        hidden, weight, labels, _ = problem()
        narrow = hidden.detach().bfloat16()
        expected = differentiated(narrow.float(), weight, labels)
        with torch.autocast("cpu", torch.bfloat16):
            found = differentiated(narrow, weight, labels, gradients="forward")
        self.assertTrue(bits_are_equal(found[0], expected[0]) and bits_are_equal(found[3], expected[3]))
        self.assertTrue(bits_are_equal(found[2], expected[2].bfloat16()))


class Choice(unittest.TestCase):
    # Fails if a choice that cannot be made is made in silence, or refused in words that do not say what can.
    def test_refused(self):
        hidden, weight, labels, _ = problem()
        half = hidden.detach().half().requires_grad_(), weight.detach().half()
        for said, bad in (("gradients = 'both': \"backward\", \"forward\" or \"auto\"", (hidden, weight, "mean", "both")),
                          ('reduction = "none": there is no one loss', (hidden, weight, "none", "forward")),
                          ("gradients = \"forward\" with torch.float16", (*half, "mean", "forward"))):  # fmt: skip
            with self.subTest(said), self.assertRaisesRegex(ValueError, said):
                linear_cross_entropy(*bad[:2], labels, reduction=bad[2], gradients=bad[3])
        for inputs, reduction in ((half, "mean"), ((hidden, weight), "none")):  # made in backward, entropy's as well
            outputs = linear_cross_entropy(*inputs, labels, reduction=reduction, gradients="auto")
            (found,) = torch.autograd.grad([each.sum() for each in outputs], inputs[0])
            outputs = linear_cross_entropy(*inputs, labels, reduction=reduction)
            (expected,) = torch.autograd.grad([each.sum() for each in outputs], inputs[0])
            self.assertTrue(bits_are_equal(found, expected))

    # Fails if gradients are made in forward where that saves no product, or do not fit in what the caller allows.
    def test_memory_decides(self):
        class Placed:
            """A tensor's shape on a device that is not here."""

            def __init__(self, device, rows, size, requires_grad=True):
                self.device, self.requires_grad, self._numbers = torch.device(device), requires_grad, rows * size

            def numel(self):
                return self._numbers

            def element_size(self):
                return 2

        hidden, weight = Placed("cuda", 8192, 4096), Placed("cuda", 151936, 4096)
        held = 2 * (8192 + 151936) * 4096
        for gradients, columns, memory, expected in (("auto", 100, held, True), ("auto", 100, held - 1, False),
                                                     ("auto", 0, held, False), ("forward", 0, 0, True),
                                                     ("backward", 100, held, False)):  # fmt: skip
            self.assertEqual(made_in_forward(gradients, hidden, weight, columns, memory), expected, gradients)
        self.assertTrue(made_in_forward("auto", hidden, Placed("cuda", 151936, 4096, False), 100, 2 * 8192 * 4096))
        self.assertFalse(made_in_forward("auto", Placed("cpu", 1, 1), Placed("cpu", 1, 1), 0, 1 << 40))


if __name__ == "__main__":
    unittest.main()
