# SPDX-License-Identifier: Apache-2.0
"""plumbline.torch in two processes over gloo: rows that are sharded as DTensors, and a head under FSDP2."""

import os
import socket
import sys
import traceback
import unittest

from support import PACKAGE, problem

sys.path.insert(0, str(PACKAGE))

import torch
from plumbline.torch import LinearCrossEntropy, linear_cross_entropy
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

PROCESSES = 2
# Partial gradients of weight are added across the processes: another order of fp32 additions.
NEAR = {"rtol": 1e-5, "atol": 1e-5}


class Model(torch.nn.Module):
    """A body of one matrix, and the head."""

    def __init__(self) -> None:
        super().__init__()
        self.body = torch.nn.Linear(16, 16)
        self.head = LinearCrossEntropy(16, 130)

    def forward(self, hidden, labels):
        return self.head(self.body(hidden), labels)


def rows_are_sharded(mesh) -> None:
    """Outputs and grad_hidden have the bits of one process, whatever is reduced and whatever T is."""
    hidden, weight, labels, g = problem()
    for reduction in ("none", "sum", "mean"):
        for temperature in (1.0, 0.7, torch.linspace(0.5, 2, 24)):
            upstream = g if reduction == "none" else g[0]
            hidden.grad = weight.grad = None
            expected, entropy = linear_cross_entropy(hidden, weight, labels, temperature, reduction)
            (expected * upstream).sum().backward()

            def rows(tensor):
                return distribute_tensor(tensor.detach(), mesh, [Shard(0)])

            placed = rows(hidden).requires_grad_(), distribute_tensor(weight.detach(), mesh, [Replicate()]).requires_grad_()
            divisor = rows(temperature) if isinstance(temperature, torch.Tensor) else temperature
            found = linear_cross_entropy(*placed, rows(labels), divisor, reduction)
            (found[0] * (rows(upstream) if reduction == "none" else upstream)).sum().backward()
            assert torch.equal(found[1].full_tensor(), entropy), (reduction, "entropy")
            torch.testing.assert_close(found[0].full_tensor(), expected, **({"rtol": 0, "atol": 0} if reduction == "none" else NEAR))
            assert torch.equal(placed[0].grad.full_tensor(), hidden.grad), (reduction, "grad_hidden")
            torch.testing.assert_close(placed[1].grad.full_tensor(), weight.grad, **NEAR)


def gradients_are_made_in_forward(mesh) -> None:
    """Those of a loss, of which each device has a part; the registered operator by its name gathers rows."""
    hidden, weight, labels, _ = problem()
    for reduction in ("sum", "mean"):
        hidden.grad = weight.grad = None
        (linear_cross_entropy(hidden, weight, labels, reduction=reduction)[0] * 0.25).backward()
        for named in (False, True):
            placed = distribute_tensor(hidden.detach(), mesh, [Shard(0)]).requires_grad_()
            whole = distribute_tensor(weight.detach(), mesh, [Replicate()]).requires_grad_()
            given = placed, whole, distribute_tensor(labels, mesh, [Shard(0)])
            if named:
                code = ("none", "sum", "mean").index(reduction)
                outputs = torch.ops.plumbline.linear_cross_entropy_in_forward(*given, None, -100, code, None, 0, True, True)
            else:
                outputs = linear_cross_entropy(*given, reduction=reduction, gradients="forward")
            (outputs[0] * 0.25).backward()
            assert torch.equal(placed.grad.full_tensor(), hidden.grad), (reduction, named)
            torch.testing.assert_close(whole.grad.full_tensor(), weight.grad, **NEAR)


def gradients_are_placed_otherwise(mesh) -> None:
    """An upstream gradient is sharded in another way than hidden, or there is none of logprob."""
    hidden, weight, labels, g = problem()
    for upstream, both in ((Shard(0), True), (Replicate(), True), (Shard(0), False)):
        for rows in (Replicate(), Shard(0)):
            hidden.grad = weight.grad = None
            logprob, entropy = linear_cross_entropy(hidden, weight, labels)
            ((logprob * g).sum() * both + entropy.sum()).backward()
            placed = distribute_tensor(hidden.detach(), mesh, [rows]).requires_grad_()
            whole = distribute_tensor(weight.detach(), mesh, [Replicate()]).requires_grad_()
            logprob, entropy = linear_cross_entropy(placed, whole, distribute_tensor(labels, mesh, [rows]))
            loss = entropy.sum()
            if both:
                loss = loss + (logprob * distribute_tensor(g, mesh, [upstream])).sum()
            loss.backward()
            torch.testing.assert_close(placed.grad.full_tensor(), hidden.grad, **NEAR)
            torch.testing.assert_close(whole.grad.full_tensor(), weight.grad, **NEAR)


def sequences_are_sharded(mesh) -> None:
    """[batch, tokens, hidden size] with tokens sharded, not evenly."""
    hidden, weight, labels, _ = problem(21)
    nested, numbers = hidden.detach().unflatten(0, (3, 7)), labels.unflatten(0, (3, 7))
    expected = linear_cross_entropy(nested, weight, numbers)[0]
    placed = (distribute_tensor(nested, mesh, [Shard(1)]), distribute_tensor(weight.detach(), mesh, [Replicate()]),
              distribute_tensor(numbers, mesh, [Shard(1)]))  # fmt: skip
    found = linear_cross_entropy(*placed)[0]
    assert found.placements == (Shard(1),), found.placements
    assert torch.equal(found.full_tensor(), expected)


def operator_is_called_by_name(mesh) -> None:
    """The registered operator by itself: its rule gathers rows, so that no saved state is ever cut."""
    hidden, weight, labels, g = problem()
    logprob, entropy = linear_cross_entropy(hidden, weight, labels)
    torch.autograd.backward((logprob, entropy), (g, g))
    rows = distribute_tensor(hidden.detach(), mesh, [Shard(0)]).requires_grad_()
    whole = distribute_tensor(weight.detach(), mesh, [Replicate()]).requires_grad_()
    found = torch.ops.plumbline.linear_cross_entropy(
        rows, whole, distribute_tensor(labels, mesh, [Shard(0)]), None, -100, 0, None, 0, True
    )
    upstream = distribute_tensor(g, mesh, [Shard(0)])
    torch.autograd.backward(found[:2], (upstream, upstream))
    assert torch.equal(found[0].full_tensor(), logprob)
    assert torch.equal(rows.grad.full_tensor(), hidden.grad)
    assert torch.equal(whole.grad.full_tensor(), weight.grad)


def faults_are_named(mesh) -> None:
    """A sharded weight, and plain tensors beside DTensors."""
    hidden, weight, labels, _ = problem()
    rows = distribute_tensor(hidden.detach(), mesh, [Shard(0)])
    sharded = distribute_tensor(weight.detach(), mesh, [Shard(0)])
    for said, arguments in (("weight is a DTensor with placements", (rows, sharded, labels)),
                            ("weight is a plain tensor and hidden a DTensor", (rows, weight, labels))):  # fmt: skip
        try:
            linear_cross_entropy(*arguments)
        except TypeError as error:
            assert said in str(error), error
        else:
            raise AssertionError(f"no error says: {said}")


def head_is_gathered(mesh) -> None:
    """A head under FSDP2: the gradients of a model are those of one process with all rows."""
    torch.manual_seed(1)
    model, alone = Model(), Model()
    alone.load_state_dict(model.state_dict())
    for module in (model.head, model):
        fully_shard(module, mesh=mesh)
    hidden, _, labels, _ = problem()
    half = slice(12 * mesh.get_rank(), 12 * mesh.get_rank() + 12)
    for one, rows in ((model, half), (alone, slice(None))):
        logprob, entropy = one(hidden[rows].detach(), labels[rows])
        (logprob.sum() + entropy.sum()).backward()
    for sharded, whole in zip(model.parameters(), alone.parameters(), strict=True):
        torch.testing.assert_close(PROCESSES * sharded.grad.full_tensor(), whole.grad, **NEAR)


PARTS = (rows_are_sharded, gradients_are_made_in_forward, gradients_are_placed_otherwise, sequences_are_sharded,
         operator_is_called_by_name, faults_are_named, head_is_gathered)  # fmt: skip


def process(rank: int, port: int, said) -> None:
    """Runs every part in one group of processes; puts what each part's fault is, empty for none."""
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "GLOO_SOCKET_IFNAME": "lo"}
    torch.distributed.init_process_group("gloo", rank=rank, world_size=PROCESSES)
    mesh = init_device_mesh("cpu", (PROCESSES,))
    for part in PARTS:
        try:
            part(mesh)
            said.put((part.__name__, ""))
        except BaseException:  # noqa: BLE001
            said.put((part.__name__, traceback.format_exc()))
            break  # the other process may wait in a collective operation
    torch.distributed.destroy_process_group()


class Distributed(unittest.TestCase):
    # Fails if a rule says another placement, partial sums are not added, a part of the vocabulary is taken for all of it,
    # or the head's weight is read without the hooks that gather it.
    def test_parts(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        context = torch.multiprocessing.get_context("spawn")
        said = context.SimpleQueue()
        processes = [context.Process(target=process, args=(rank, port, said)) for rank in range(PROCESSES)]
        for each in processes:
            each.start()
        for each in processes:
            each.join(200)
            each.kill()
        faults = []
        while not said.empty():
            faults.append(said.get())
        self.assertEqual(sorted(faults), sorted(PROCESSES * [(part.__name__, "") for part in PARTS]))


if __name__ == "__main__":
    unittest.main()
