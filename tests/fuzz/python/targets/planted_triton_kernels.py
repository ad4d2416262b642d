# SPDX-License-Identifier: Apache-2.0
"""The operator as Liger's kernels have it: chunks of rows, each with its logits by a matrix product in fp32, and Triton
kernels for the softmax of a chunk and for the gradient of its logits, which takes their place.

DEFECT names the one line that is changed; "" changes none. planted_triton.py lists the names. Nothing here needs
plumbline, so that the script of a finding runs without it.
"""

import os

import torch
import triton
import triton.language as tl

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cuda" if torch.cuda.is_available() and not INTERPRETED else "cpu"
# Elements of a block: the interpreter's time goes by operations, a GPU's registers by elements.
BLOCK = 1 << 14 if INTERPRETED else 1 << 11
MOST_COLUMNS = 1024 if INTERPRETED else 512
CHUNK_LOGITS, LEAST_CHUNK = 1 << 16, 64  # logits, and rows


def blocks_of(vocab: int, defect: str) -> tuple[int, dict[str, object]]:
    """The rows of a chunk, and what both kernels are compiled for."""
    columns = min(max(triton.next_power_of_2(vocab), 16), MOST_COLUMNS)
    if INTERPRETED and vocab >= 1 << 15:
        columns = 8 * MOST_COLUMNS  # else a case takes more than --case-timeout
    chunk = max(CHUNK_LOGITS // triton.next_power_of_2(vocab), LEAST_CHUNK)
    return chunk, {"DEFECT": defect, "ROWS": BLOCK // columns, "COLUMNS": columns}


@triton.jit
def softmax_kernel(
    logits, labels, logprob, entropy, lse, rows, vocab, temperature, ignore_index, label_stride,
    DEFECT: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """logprob, entropy and lse of a block of rows, in one pass over the vocabulary."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS).to(tl.int64)
    there = row < rows
    label = tl.load(labels + row * label_stride, mask=there, other=0).to(tl.int64)
    live = there & (label != ignore_index)
    if DEFECT == "narrow_labels":
        live = there & (label.to(tl.int32) != tl.cast(ignore_index, tl.int32))
    largest = tl.full((ROWS,), float("-inf"), tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    product = tl.zeros((ROWS,), tl.float32)  # sum of e t
    at_label = tl.zeros((ROWS,), tl.float32)
    for start in range(0, vocab, COLUMNS):
        column = start + tl.arange(0, COLUMNS)
        taken = live[:, None] & (column < vocab)[None, :]
        beyond = 0.0 if DEFECT == "phantom_columns" else float("-inf")
        x = tl.load(logits + row[:, None] * vocab + column[None, :], mask=taken, other=beyond) / temperature
        maximum = tl.maximum(largest, tl.max(x, 1))
        if DEFECT == "no_shift":
            maximum = tl.zeros((ROWS,), tl.float32)
        shift = tl.where(maximum == float("-inf"), 0.0, maximum)
        moved = tl.where(largest == float("-inf"), 0.0, shift - largest)
        factor = tl.exp(-moved)
        gap = shift[:, None] - x
        e = tl.exp(-gap)
        product = factor * product + tl.where(factor == 0.0, 0.0, factor * moved) * total
        product += tl.sum(tl.where(e == 0.0, 0.0, e * gap), 1)
        if DEFECT == "sum_not_rescaled":
            factor = tl.full((ROWS,), 1.0, tl.float32)
        total = factor * total + tl.sum(e, 1)
        if DEFECT != "label_in_last_tile" or start == 0 or start + COLUMNS <= vocab:
            at_label += tl.sum(tl.where(column[None, :] == label[:, None], x, 0.0), 1)
        largest = maximum
    log_total = tl.log(total)
    tl.store(logprob + row, tl.where(live, (at_label - largest) - log_total, 0.0), mask=there)
    tl.store(entropy + row, tl.where(live, log_total + product / total, 0.0), mask=there)
    tl.store(lse + row, tl.where(live, largest + log_total, 0.0), mask=there)


@triton.jit
def d_logits_kernel(
    logits, labels, lse, entropy, grad_logprob, grad_entropy, rows, vocab, temperature, ignore_index, label_stride,
    g_stride, k_stride, DEFECT: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """The gradient of g logprob + k entropy with regard to the logits, in their place; 0 for rows without part in it."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS).to(tl.int64)
    there = row < rows
    label = tl.load(labels + row * label_stride, mask=there, other=0).to(tl.int64)
    g = tl.load(grad_logprob + row * g_stride, mask=there, other=0.0)
    k = tl.load(grad_entropy + row * k_stride, mask=there, other=0.0)
    row_lse = tl.load(lse + row, mask=there, other=0.0)
    row_entropy = tl.load(entropy + row, mask=there, other=0.0)
    live = (label != ignore_index) & ((g != 0.0) | (k != 0.0))
    if DEFECT == "ignored_rows":
        live = (g != 0.0) | (k != 0.0)
    if DEFECT == "narrow_labels":
        live = (label.to(tl.int32) != tl.cast(ignore_index, tl.int32)) & ((g != 0.0) | (k != 0.0))
    for start in range(0, vocab, COLUMNS):
        column = start + tl.arange(0, COLUMNS)
        place = logits + row[:, None] * vocab + column[None, :]
        inside = there[:, None] & (column < vocab)[None, :]
        log_p = tl.load(place, mask=inside, other=float("-inf")) / temperature - row_lse[:, None]
        p = tl.exp(log_p)
        if DEFECT == "rounded_probability":
            p = p.to(tl.float16).to(tl.float32)
        one = tl.where(column[None, :] == label[:, None], 1.0, 0.0)
        spread = log_p if DEFECT == "entropy_gradient" else log_p + row_entropy[:, None]
        dx = g[:, None] * (one - p) - k[:, None] * tl.where(p == 0.0, 0.0, p * spread)
        if DEFECT != "temperature_in_backward":
            dx = dx / temperature
        tl.store(place, tl.where(live[:, None], dx, 0.0), mask=inside)


class LinearCrossEntropy(torch.autograd.Function):
    """logprob, entropy and lse of each row, and both gradients."""

    @staticmethod
    def forward(ctx, hidden, weight, labels, temperature, ignore_index, defect):
        rows, vocab = hidden.shape[0], weight.shape[0]
        chunk, blocks = blocks_of(vocab, defect)
        results = [torch.empty(rows, device=hidden.device) for _ in range(3)]
        wide = weight.float().contiguous().T  # cuBLAS takes no stride beyond 2^31
        for first in range(0, rows, chunk):
            logits = hidden[first : first + chunk].float().contiguous() @ wide
            count = len(logits)
            grid = (triton.cdiv(count, blocks["ROWS"]),)
            if defect == "rows_past_a_block":
                grid = (max(count // blocks["ROWS"], 1),)
            softmax_kernel[grid](
                logits, labels[first:], *(each[first:] for each in results), count, vocab, temperature, ignore_index,
                labels.stride(0), **blocks,
            )  # fmt: skip
        ctx.save_for_backward(hidden, weight, labels, *results[1:])
        ctx.more = temperature, ignore_index, chunk, blocks
        ctx.mark_non_differentiable(results[2])
        return tuple(results)

    @staticmethod
    def backward(ctx, g, k, _):
        hidden, weight, labels, entropy, lse = ctx.saved_tensors
        temperature, ignore_index, size, blocks = ctx.more
        defect, vocab = blocks["DEFECT"], weight.shape[0]
        g_stride, k_stride = (1, 1) if defect == "assumed_stride" else (g.stride(0), k.stride(0))
        wide = weight.float().contiguous()
        grad_hidden = torch.empty_like(hidden, memory_format=torch.contiguous_format)
        grad_weight = torch.zeros(weight.shape, device=weight.device)
        # A row without part may hold NaN, which times 0 is NaN.
        live = (g != 0) | (k != 0)
        if defect != "ignored_rows":
            live = live & (labels.long() != ignore_index)  # int32 labels would narrow ignore_index
        for first in range(0, len(hidden), size):
            chunk = slice(first, first + size)
            block = hidden[chunk].float().masked_fill(~live[chunk, None], 0.0)
            logits = block @ wide.T
            grid = (triton.cdiv(len(block), blocks["ROWS"]),)
            d_logits_kernel[grid](
                logits, labels[chunk], lse[chunk], entropy[chunk], g[chunk], k[chunk], len(block), vocab, temperature,
                ignore_index, labels.stride(0), g_stride, k_stride, **blocks,
            )  # fmt: skip
            grad_hidden[chunk] = logits @ wide
            if defect == "overwritten_sum":
                grad_weight = logits.T @ block
            else:
                grad_weight += logits.T @ block
        return grad_hidden, grad_weight.to(weight.dtype), None, None, None, None
