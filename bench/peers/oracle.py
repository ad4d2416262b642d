# SPDX-License-Identifier: Apache-2.0
"""Computes what errors are measured against: kernel/OPERATION.md in float64, by torch's own operations.

It covers logprob and entropy of every row, and a sample of the gradients: grad_hidden of some rows and grad_weight of
some vocabulary rows, each for the upstream gradients that a contract allows. Errors are the largest absolute one and
the RMS of the errors over the RMS of the exact values.
"""

from dataclasses import dataclass

import torch

IGNORED = -100
SAMPLED = 256


@dataclass
class Exact:
    logprob: torch.Tensor  # [N]
    entropy: torch.Tensor
    rows: torch.Tensor  # sampled rows, and vocabulary rows
    columns: torch.Tensor
    hidden_parts: tuple  # [rows, H]: gradient by logprob, by entropy; of g = k = 1
    weight_parts: tuple  # [N, columns] d_logits likewise
    hidden: torch.Tensor

    def gradients(self, g: torch.Tensor, k: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns (grad_hidden of the sampled rows, grad_weight of the sampled vocabulary rows) for g, k of [N]."""
        g, k = g.double(), k.double()
        of_hidden = g[self.rows, None] * self.hidden_parts[0] + k[self.rows, None] * self.hidden_parts[1]
        d_logits = g[:, None] * self.weight_parts[0] + k[:, None] * self.weight_parts[1]
        return of_hidden, d_logits.t() @ self.hidden.double()


def exact(hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor, block: int = 256) -> Exact:
    n, v = hidden.shape[0], weight.shape[0]
    device = hidden.device
    generator = torch.Generator(device="cpu").manual_seed(1)
    sampled = torch.randperm(n, generator=generator)[:SAMPLED].sort().values.to(device)
    live = labels != IGNORED
    # Labels' vocabulary rows have gradients of another size than the others: half the sample.
    from_labels = labels[sampled][live[sampled]][:SAMPLED // 2]
    anywhere = torch.randint(v, (SAMPLED // 2,), generator=generator).to(device)
    columns = torch.unique(torch.cat([from_labels, anywhere]))

    wide = weight.double()
    logprob = torch.zeros(n, dtype=torch.float64, device=device)
    entropy = torch.zeros_like(logprob)
    of_weight = [torch.zeros(n, len(columns), dtype=torch.float64, device=device) for _ in range(2)]
    of_hidden = [torch.zeros(len(sampled), hidden.shape[1], dtype=torch.float64, device=device) for _ in range(2)]
    for first in range(0, n, block):
        rows = torch.arange(first, min(first + block, n), device=device)
        rows = rows[live[rows]]
        if len(rows) == 0:
            continue
        logp = torch.log_softmax(hidden[rows].double() @ wide.t(), dim=-1)
        p = logp.exp()
        logprob[rows] = logp.gather(-1, labels[rows, None]).squeeze(-1)
        entropy[rows] = -(p * logp).sum(-1)
        by_entropy = -p * (logp + entropy[rows, None])
        by_logprob = -p
        by_logprob[torch.arange(len(rows), device=device), labels[rows]] += 1
        which = torch.isin(sampled, rows)
        place = torch.isin(rows, sampled)
        for part, of_h, of_w in zip((by_logprob, by_entropy), of_hidden, of_weight):
            of_w[rows] = part[:, columns]
            of_h[which] = part[place] @ wide
    return Exact(logprob, entropy, sampled, columns, tuple(of_hidden), tuple(of_weight), hidden)


def error(got: torch.Tensor, want: torch.Tensor) -> dict[str, float]:
    """Returns {"max": largest absolute error, "rms": RMS error over RMS of the exact values}; NaN where either is NaN."""
    difference = got.double() - want
    return {"max": difference.abs().max().item(),
            "rms": (difference.square().mean() / want.square().mean()).sqrt().item()}


def upstream(contract: str, labels: torch.Tensor, g: torch.Tensor,
             k: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns (g, k) as a contract has them: nll and mean have no entropy, mean is a known scalar."""
    if contract == "rows":
        return g, k
    nothing = torch.zeros_like(k)
    if contract == "nll":
        return g, nothing
    return torch.full_like(g, -1 / int((labels != IGNORED).sum()), dtype=torch.float64), nothing


def errors(outputs: dict[str, torch.Tensor], gradients: tuple, right: Exact, contract: str, labels: torch.Tensor,
           g: torch.Tensor, k: torch.Tensor) -> dict[str, dict[str, float]]:
    """Returns the errors of one peer's outputs, as its call returned them, and of its (grad_hidden, grad_weight)."""
    found = {}
    if "loss" in outputs:
        found["loss"] = error(outputs["loss"], -right.logprob.sum() / (labels != IGNORED).sum())
    if "nll" in outputs:
        found["logprob"] = error(-outputs["nll"], right.logprob)
    if "logprob" in outputs:
        found["logprob"] = error(outputs["logprob"], right.logprob)
    if "entropy" in outputs:
        found["entropy"] = error(outputs["entropy"], right.entropy)
    of_hidden, of_weight = right.gradients(*upstream(contract, labels, g, k))
    found["grad_hidden"] = error(gradients[0][right.rows], of_hidden)
    found["grad_weight"] = error(gradients[1][right.columns], of_weight)
    return found
