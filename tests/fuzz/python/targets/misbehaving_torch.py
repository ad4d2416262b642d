# SPDX-License-Identifier: Apache-2.0
"""PyTorch targets that each do one thing that a target must not."""

import plumbline
import torch
from honest_torch import CAPABILITIES, Fused, backward_of, eager, fused, pair, returned
from misdeeds import targets_of

KEPT = []


def _keep(hidden, found):
    KEPT[:] = [hidden]


def _keep_a_view(hidden, found):
    KEPT[:] = [hidden[:1]]


def _write(hidden, found):
    hidden[:1] = 1


def _view(hidden, found):
    found["grad_hidden"] = hidden


def _wide(hidden, found):
    found["entropy"] = found["entropy"].double()


def _meta(hidden, found):
    found["entropy"] = found["entropy"].to("meta")


def _default_dtype(hidden, found):
    torch.set_default_dtype(torch.float64)


def _deterministic_mode(hidden, found):
    torch.use_deterministic_algorithms(True)


def _grad_mode(hidden, found):
    torch.set_grad_enabled(False)


def _inference_mode(hidden, found):
    KEPT[:] = [torch.inference_mode()]
    KEPT[0].__enter__()


def _unwritten(hidden, found):
    fresh = torch.empty(len(found["entropy"]))
    fresh[:-1] = found["entropy"][:-1]
    found["entropy"] = fresh


def _numpy(hidden, found):
    found["entropy"] = found["entropy"].numpy()


globals().update(targets_of(globals(), returned, "torch", CAPABILITIES))


def autograd(function):
    """Declares a function whose outputs carry a graph."""
    return plumbline.target(function, form="autograd", returns=("nll", "entropy", "lse"), **CAPABILITIES)


@autograd
def no_graph(hidden, weight, labels, temperature=1.0, ignore_index=-100, reduction="none"):
    """Its outputs are detached."""
    return tuple(v.detach() for v in fused(hidden, weight, labels, temperature, ignore_index, reduction))


@autograd
def no_weight(hidden, weight, labels, temperature=1.0, ignore_index=-100, reduction="none"):
    """Its graph does not reach weight."""
    return fused(hidden, weight.detach(), labels, temperature, ignore_index, reduction)


@autograd
def sums_whatever_is_asked(hidden, weight, labels, temperature=1.0, ignore_index=-100, reduction="none"):
    """Without a reduction it returns one number."""
    first, *others = fused(hidden, weight, labels, temperature, ignore_index, reduction)
    return first.sum(), *others


class _Spoils(Fused):
    """The first backward doubles what it saved for the second."""

    @staticmethod
    def forward(ctx, hidden, weight, labels, temperature, ignore_index, reduction):
        found = Fused.forward(ctx, hidden, weight, labels, temperature, ignore_index, reduction)
        ctx.saved = ctx.to_save
        ctx.to_save = ()
        return found

    @staticmethod
    def backward(ctx, g, k, _):
        g = -g if ctx.reduction == "none" else g
        gradients = backward_of(ctx.saved, ctx.count, ctx.reduction, g, k)
        ctx.saved[7].mul_(2)  # the exponentials
        return *gradients, None, None, None, None


class _GivesItsOwn(_Spoils):
    """Backward returns gradients that it keeps, and doubles them when it runs again."""

    @staticmethod
    def backward(ctx, g, k, _):
        g = -g if ctx.reduction == "none" else g
        if not hasattr(ctx, "gradients"):
            ctx.gradients = backward_of(ctx.saved, ctx.count, ctx.reduction, g, k)
        else:
            ctx.gradients = tuple(gradient.mul_(2) for gradient in ctx.gradients)
        return *ctx.gradients, None, None, None, None


class _Frozen(Fused):
    """grad_weight is doubled where hidden needs no gradient."""

    @staticmethod
    def backward(ctx, g, k, _):
        grad_hidden, grad_weight, *rest = Fused.backward(ctx, g, k, _)
        return grad_hidden, grad_weight if ctx.needs_input_grad[0] else 2 * grad_weight, *rest


@autograd
def spoils_what_it_saved(hidden, weight, labels, temperature=1.0, ignore_index=-100, reduction="none"):
    """Right once for each graph."""
    return _Spoils.apply(hidden, weight, labels, temperature, ignore_index, reduction)


@autograd
def spoils_what_it_gave(hidden, weight, labels, temperature=1.0, ignore_index=-100, reduction="none"):
    """A second backward changes the gradients that the first has returned."""
    return _GivesItsOwn.apply(hidden, weight, labels, temperature, ignore_index, reduction)


@autograd
def wrong_where_hidden_is_frozen(hidden, weight, labels, temperature=1.0, ignore_index=-100, reduction="none"):
    """Right where both inputs need a gradient."""
    return _Frozen.apply(hidden, weight, labels, temperature, ignore_index, reduction)


@autograd
def another_path_without_grad(hidden, weight, labels, temperature=1.0, ignore_index=-100, reduction="none"):
    """The entropy is one unit in the last place off where there is no graph."""
    nll, entropy, lse = fused(hidden, weight, labels, temperature, ignore_index, reduction)
    if not torch.is_grad_enabled():
        entropy = torch.nextafter(entropy, torch.full_like(entropy, torch.inf))
    return nll, entropy, lse


class half_a_pair:
    """Its backward returns one gradient."""

    forward = staticmethod(pair.forward)

    @staticmethod
    def backward(saved, grad_logprob, grad_entropy):
        return pair.backward(saved, grad_logprob, grad_entropy)[0]


plumbline.target(half_a_pair, framework="torch", form="pair", **CAPABILITIES)


@plumbline.target(framework="torch", **{**CAPABILITIES, "negative_strides": True})
def declares_negative_strides(
    hidden, weight, labels, temperature=1.0, ignore_index=-100, reduction="none", grad_logprob=None, grad_entropy=None
):
    """Declares what PyTorch has not, and is never given it."""
    return returned(hidden, weight, labels, temperature, ignore_index, reduction, grad_logprob, grad_entropy)


def cross_entropy(hidden, weight, labels):
    """PyTorch's own, on logits in fp32. Nothing is declared."""
    return torch.nn.functional.cross_entropy((hidden @ weight.T).float(), labels, reduction="none")


def detaches_the_head(hidden, weight, labels):
    """Its graph reaches hidden alone. Nothing is declared."""
    return cross_entropy(hidden, weight.detach(), labels)


def fails_without_a_graph(hidden, weight, labels):
    """What a gradient needs is set up where hidden needs one, and used always. Nothing is declared."""
    if hidden.requires_grad:
        room = torch.zeros_like(hidden)
    return cross_entropy(hidden + 0 * room, weight, labels)


@plumbline.target(contract="pytorch-fp32-logits", grad_weight=False)
def frozen_head(hidden, weight, labels, temperature=1.0, ignore_index=-100, reduction="none"):
    """The same of an honest function, where it is meant to be."""
    return eager(hidden, weight.detach(), labels, temperature, ignore_index, reduction)


def without_a_graph(hidden, weight, labels):
    """Values alone, as of a function that scores. Nothing is declared."""
    return eager(hidden, weight, labels)["logprob"].detach()
