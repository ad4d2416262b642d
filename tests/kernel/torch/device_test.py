# SPDX-License-Identifier: Apache-2.0
"""plumbline.torch on a CUDA device: the bits of the C call and of every limit of memory, bounds, opcheck, graphs, streams, no
wait for the device."""

import sys
import unittest

from support import PACKAGE, bits_are_equal, leaf, problem

sys.path.insert(0, str(PACKAGE))

import plumbline
import plumbline.torch
import torch
from plumbline.torch import linear_cross_entropy
from torch.library import opcheck

OPERATOR = torch.ops.plumbline.linear_cross_entropy.default
HAS_DEVICE = torch.cuda.is_available() and bool(plumbline.torch.supported("cuda"))


def on_device(dtype, rows=300, hidden_size=128, vocabulary=4000):
    return [each.detach().cuda() for each in problem(rows, hidden_size, vocabulary, dtype)]


def differentiated(hidden, weight, labels, g, **options):
    """logprob, entropy and both gradients."""
    inputs = leaf(hidden), leaf(weight)
    outputs = linear_cross_entropy(*inputs, labels, 0.7, **options)
    torch.autograd.backward(outputs, (g, g.flip(0)))
    return [each.detach() for each in (*outputs, *(each.grad for each in inputs))]


class Device(unittest.TestCase):
    # Fails if the device computes another problem than the host, beyond the contracts' bounds.
    def test_within_the_bounds(self):
        for dtype in (torch.bfloat16, torch.float16, torch.float32):
            hidden, weight, labels, g = on_device(dtype, 64)
            found = differentiated(hidden, weight, labels, g)
            inputs = {"hidden": hidden, "weight": weight, "labels": labels, "temperature": torch.full((64,), 0.7),
                      "grad_logprob": g, "grad_entropy": g.flip(0)}  # fmt: skip
            outputs = dict(zip(("logprob", "entropy", "grad_hidden", "grad_weight"), found, strict=True))
            inputs, outputs = ({name: each.cpu() for name, each in values.items()} for values in (inputs, outputs))
            hopper = plumbline.Contract("hopper", kept_argument=2.0**-11 if dtype == torch.bfloat16 else 0)
            checked = plumbline.check(inputs, outputs, "tensor-core-fp32" if dtype == torch.float32 else hopper, rows="all")
            self.assertEqual(checked.verdict, "clean", f"{dtype}: {checked}")

    # Fails if what is kept is read at another place than it was written, or its size is planned wrongly.
    def test_memory_changes_no_bit(self):
        for dtype in (torch.bfloat16, torch.float32):
            hidden, weight, labels, g = on_device(dtype, 1000, 256, 40000)
            expected = differentiated(hidden, weight, labels, g, memory=0)
            for memory in ("300MiB", "470MiB", "500MiB", "8GiB"):
                found = differentiated(hidden, weight, labels, g, memory=memory)
                self.assertTrue(all(map(bits_are_equal, found, expected)), f"{dtype} {memory}")

    # Fails if gradients in forward are others than backward's for an upstream gradient of 1 or a power of two, whatever is
    # kept, a call waits, or gradients that entropy has none of are numbers where a compiler asks.
    def test_gradients_in_forward(self):
        for dtype in (torch.bfloat16, torch.float32):
            hidden, weight, labels, _ = on_device(dtype, 1000, 256, 40000)

            def step(gradients, memory, hidden=hidden, weight=weight, labels=labels):
                inputs = leaf(hidden), leaf(weight)
                loss, _ = linear_cross_entropy(*inputs, labels, 0.7, "mean", gradients=gradients, memory=memory)
                (loss * 0.5).backward()
                return [loss.detach(), *(each.grad for each in inputs)]

            expected = step("backward", 0)
            for gradients, memory in (("forward", 0), ("forward", "500MiB"), ("auto", "8GiB"), ("auto", 0)):
                found = step(gradients, memory)
                self.assertTrue(all(map(bits_are_equal, found, expected)), f"{dtype} {gradients} {memory}")
            torch.cuda.set_sync_debug_mode("error")
            try:
                step("forward", "8GiB")
            finally:
                torch.cuda.set_sync_debug_mode("default")
            scaled = torch.ops.plumbline.linear_cross_entropy_scaled
            factor = torch.tensor(0.5, device="cuda")
            self.assertTrue(scaled(weight, factor, torch.ones(3, device="cuda")).isnan().all())
            self.assertTrue(torch.equal(scaled(weight, factor, torch.zeros(3, device="cuda")), weight / 2))

    # Fails if a temperature that one stream fills is read by another before, or a graph reads one that is filled anew.
    def test_temperatures_of_streams(self):
        hidden, weight, labels, _ = on_device(torch.bfloat16)
        expected = linear_cross_entropy(hidden, weight, labels, torch.tensor(0.9, device="cuda"))[0]
        sides = [torch.cuda.Stream() for _ in range(2)]
        torch.cuda.synchronize()
        found = []
        for side in sides:
            with torch.cuda.stream(side):
                torch.cuda._sleep(50_000_000 if side is sides[0] else 1)
                found.append(linear_cross_entropy(hidden, weight, labels, 0.9)[0])
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            found.append(linear_cross_entropy(hidden, weight, labels, 0.9)[0])
        for step in range(200):
            linear_cross_entropy(hidden, weight, labels, 1.0 + step / 100)
        graph.replay()
        torch.cuda.synchronize()
        self.assertTrue(all(bits_are_equal(each, expected) for each in found))

    # Fails if a row's bits depend on its batch.
    def test_batch_invariant(self):
        hidden, weight, labels, g = on_device(torch.bfloat16)
        expected = differentiated(hidden, weight, labels, g)
        for rows in (1, 7, 128):
            logprob, entropy = linear_cross_entropy(hidden[:rows], weight, labels[:rows], 0.7)
            self.assertTrue(bits_are_equal(logprob, expected[0][:rows]) and bits_are_equal(entropy, expected[1][:rows]))

    # Fails if a fake implementation says another size on a device, or bytes of the state are left unwritten. With kept
    # logits no row is ignored and the vocabulary is a multiple of 64: what pads them, and rows that are not kept, are not
    # written. Columns that are not kept are a multiple of 1536, as columns_kept makes them; of others fewer are kept.
    def test_opcheck(self):
        for dtype in (torch.bfloat16, torch.float32):
            hidden, weight, labels, _ = on_device(dtype, 70, 32, 3008)
            inputs = leaf(hidden), leaf(weight)
            for reduction in range(3):
                for columns in (0, 1472, 3008):
                    kept = labels.clamp(min=0) if columns else labels
                    arguments = (*inputs, kept, None, -100, reduction, None, columns, True)
                    self.assertEqual(set(opcheck(OPERATOR, arguments).values()), {"SUCCESS"})

    # Fails if a call waits for the device.
    def test_does_not_wait(self):
        hidden, weight, labels, g = on_device(torch.bfloat16)
        differentiated(hidden, weight, labels, g)
        torch.cuda.set_sync_debug_mode("error")
        try:
            differentiated(hidden, weight, labels, g, return_first_invalid=False)
        finally:
            torch.cuda.set_sync_debug_mode("default")

    # Fails if memory of a graph is another's when it is replayed, or a scalar temperature is not of the graph.
    def test_graph(self):
        hidden, weight, labels, g = on_device(torch.bfloat16)
        expected = differentiated(hidden, weight, labels, g)
        inputs = leaf(hidden), leaf(weight)
        for each in inputs:
            each.grad = torch.zeros_like(each)

        def step():
            for each in inputs:
                each.grad.zero_()
            outputs = linear_cross_entropy(*inputs, labels, 0.7)
            torch.autograd.backward(outputs, (g, g.flip(0)))
            return outputs

        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            outputs = step()
        garbage = [torch.randn(1 << 20, device="cuda") for _ in range(8)]
        for _ in range(3):
            graph.replay()
            found = [*(each.detach() for each in outputs), *(each.grad for each in inputs)]
            self.assertTrue(all(map(torch.equal, found, expected)))  # 0 + -0 is +0
        del garbage

    # Fails if work goes to another stream than the current one.
    def test_stream(self):
        hidden, weight, labels, g = on_device(torch.bfloat16)
        expected = differentiated(hidden, weight, labels, g)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            late = torch.zeros_like(hidden)
            torch.cuda._sleep(50_000_000)
            late.copy_(hidden)
            found = differentiated(late, weight, labels, g)
        side.synchronize()
        self.assertTrue(all(map(bits_are_equal, found, expected)))

    # Fails if a compiled call has other bits, or is compiled again for another number of rows.
    def test_compiled(self):
        hidden, weight, labels, g = on_device(torch.bfloat16)

        def objective(hidden, weight, labels, g):
            logprob, entropy = linear_cross_entropy(hidden, weight, labels, 0.7)
            return (logprob * g).sum() + (entropy * g).sum()

        compiled = torch.compile(objective, fullgraph=True, dynamic=True)
        for rows in (300, 200, 129):
            given = labels[:rows].clone(), g[:rows].clone()
            found, expected = [], []
            for function, grads in ((compiled, found), (objective, expected)):
                inputs = leaf(hidden[:rows]), leaf(weight)
                with torch._dynamo.config.patch(error_on_recompile=True):
                    function(*inputs, *given).backward()
                grads += [each.grad for each in inputs]
            self.assertTrue(all(map(bits_are_equal, found, expected)), rows)

    # Fails if a compiler that knows every size cannot trace a call, or a graph that it captured has other bits.
    def test_compiled_for_one_size(self):
        hidden, weight, labels, _ = on_device(torch.bfloat16)

        def objective(hidden, weight, labels):
            return linear_cross_entropy(hidden, weight, labels, 0.7, "mean")[0]

        expected = torch.autograd.grad(objective(*(inputs := (leaf(hidden), leaf(weight))), labels), inputs)
        for mode in ("default", "reduce-overhead"):
            torch._dynamo.reset()
            compiled = torch.compile(objective, fullgraph=True, mode=mode)
            for _ in range(4):  # warmed up, captured, replayed
                torch.compiler.cudagraph_mark_step_begin()
                inputs = leaf(hidden), leaf(weight)
                found = torch.autograd.grad(compiled(*inputs, labels), inputs)
                self.assertTrue(all(map(bits_are_equal, found, expected)), mode)

    # Fails if autocast rounds an fp32 weight that nobody asked it to, or rounds one twice that somebody did.
    def test_autocast(self):
        hidden, weight, labels, g = on_device(torch.float32)
        expected = differentiated(hidden, weight, labels, g)
        narrow = differentiated(hidden.bfloat16(), weight.bfloat16(), labels, g)
        with torch.autocast("cuda", torch.bfloat16):
            found = differentiated(hidden, weight, labels, g)
            asked = differentiated(hidden, weight, labels, g, compute_dtype=torch.bfloat16)
        self.assertTrue(all(map(bits_are_equal, found, expected)))
        self.assertTrue(all(map(bits_are_equal, asked[:2], narrow[:2])))

    # Fails if a head that PyTorch captured, forward and backward apart, has other bits on other values.
    def test_graphed_head(self):
        hidden, weight, labels, g = on_device(torch.bfloat16)
        head = plumbline.torch.LinearCrossEntropy(weight.shape[1], weight.shape[0], bias=False, device="cuda", dtype=torch.bfloat16)
        with torch.no_grad():
            head.weight.copy_(weight)
        plain = plumbline.torch.LinearCrossEntropy.from_linear(head)  # before the graphed one's forward is replaced
        graphed = torch.cuda.make_graphed_callables(head, (leaf(torch.randn_like(hidden)), labels.flip(0)))
        found, expected = [], []
        for function, results in ((graphed, found), (plain, expected)):
            given = leaf(hidden)
            head.weight.grad = None
            outputs = function(given, labels)
            torch.autograd.backward(outputs[:2], (g, g.flip(0)))
            results += [*(each.detach().clone() for each in outputs[:2]), given.grad, head.weight.grad.clone()]
        self.assertTrue(all(map(bits_are_equal, found, expected)))

    # Fails if an invalid row is silent on a device.
    def test_invalid_row(self):
        hidden, weight, labels, _ = on_device(torch.bfloat16)
        labels[5] = 4000
        logprob, _, first = linear_cross_entropy(hidden, weight, labels, return_first_invalid=True)
        self.assertEqual(first.item(), 5)
        self.assertTrue(logprob.isnan().nonzero().flatten().tolist() == [5])


if __name__ == "__main__":
    if not HAS_DEVICE:
        print("no CUDA device that the operator runs on:", plumbline.torch.supported("cuda").reason)
        sys.exit(77)
    unittest.main()
