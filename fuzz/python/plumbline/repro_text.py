# SPDX-License-Identifier: Apache-2.0
"""The parts of a reproducing script that are the same for every finding (plumbline/repro.py)."""

# The definition of kernel/OPERATION.md, for any inputs, special ones included.
ROWS = '''\
def taken(i):
    """Whether row i counts: its label is not ignore_index."""
    return LABELS[i] != IGNORE_INDEX


def valid(i):
    """Whether row i has a label of the vocabulary and a temperature that is finite and positive."""
    return 0 <= LABELS[i] < V and 0 < mpf(T[i]) < inf


@functools.cache
def softmax(i):
    """Scaled logits x, probabilities p, lse and entropy of row i; None where it has none."""
    h = [mpf(a) for a in HIDDEN[i * H : i * H + H]]
    x = [fsum(a * mpf(b) for a, b in zip(h, WEIGHT[v * H : v * H + H])) / mpf(T[i]) for v in range(V)]
    if not x or any(isnan(a) or a == inf for a in x) or max(x) == -inf:
        return None
    e = [exp(a - max(x)) for a in x]
    p, lse = [a / fsum(e) for a in e], max(x) + log(fsum(e))
    return x, p, lse, lse - fsum(a * b for a, b in zip(p, x) if a)


COUNT = sum(map(taken, range(N)))
'''

FORWARD = '''\
def exact(output, i, j=0):
    """The value of one element, of row i."""
    if output == "loss":
        total = fsum(-exact("logprob", r) for r in range(N) if taken(r))
        return total / COUNT if REDUCTION == "mean" and COUNT else total
    if not taken(i):
        return mpf(0)
    if not valid(i) or softmax(i) is None:
        return mpf("nan")
    x, _, lse, entropy = softmax(i)
    return {"lse": lse, "logprob": x[LABELS[i]] - lse, "entropy": entropy}[output]
'''

BACKWARD = '''\
@functools.cache
def d_logits(i):
    """The gradient of g logprob + k entropy with regard to the logits of row i; None: the row has no part in it."""
    k = mpf(GRAD_ENTROPY[i])
    g = mpf(GRAD_LOGPROB[i]) if REDUCTION == "none" else -mpf(GRAD_LOSS) / (COUNT if REDUCTION == "mean" else 1)
    if not taken(i) or (valid(i) and g == k == 0):
        return None
    if not valid(i) or softmax(i) is None:
        return [mpf("nan")] * V
    x, p, lse, entropy = softmax(i)
    dx = [g * ((v == LABELS[i]) - p[v]) for v in range(V)]
    dx = [d - k * p[v] * (x[v] - lse + entropy) if p[v] else d for v, d in enumerate(dx)]
    return [d / mpf(T[i]) for d in dx]


def exact(output, i, j):
    """The value of one element: row i, column j."""
    if output == "grad_hidden":
        if d_logits(i) is None:
            return mpf(0)
        return fsum(d * mpf(WEIGHT[v * H + j]) for v, d in enumerate(d_logits(i))) if valid(i) else mpf("nan")
    rows = [r for r in range(N) if d_logits(r) is not None]
    if not all(map(valid, rows)):
        return mpf("nan")
    return fsum(d_logits(r)[i] * mpf(HIDDEN[r * H + j]) for r in rows)
'''

NUMPY_REFERENCE = '''\
def reference():
    """Every output by NumPy in float64, for comparison; not exact."""
    keep, good = np.array([taken(i) for i in range(N)], bool), np.array([valid(i) for i in range(N)], bool)
    h, w = np.array(HIDDEN, float).reshape(N, H), np.array(WEIGHT, float).reshape(V, H)
    y, t, rows = np.where(good, LABELS, 0).astype(int), np.array(T, float)[:, None], np.arange(N)
    with np.errstate(all="ignore"):
        x = (h @ w.T) / t
        top = x.max(1, keepdims=True, initial=-np.inf)
        lse = top[:, 0] + np.log(np.exp(x - top).sum(1))
        log_p = x - lse[:, None]
        p = np.exp(log_p)
        entropy = -np.where(p == 0, 0, p * log_p).sum(1)
        found = {"lse": lse, "entropy": entropy, "logprob": log_p[rows, y] if V else lse}
        found = {name: np.where(keep, np.where(good, value, np.nan), 0) for name, value in found.items()}
        found["loss"] = -found["logprob"][keep].sum() / (max(COUNT, 1) if REDUCTION == "mean" else 1)
        k = np.array(GRAD_ENTROPY, float)
        g = np.array(GRAD_LOGPROB, float)
        if REDUCTION != "none":
            g = np.full(N, -float(GRAD_LOSS) / (max(COUNT, 1) if REDUCTION == "mean" else 1))
        part = keep & ~(good & (g == 0) & (k == 0))
        one = (np.arange(V)[None, :] == y[:, None]) - p
        plogp = np.where(p == 0, 0, p * (log_p + entropy[:, None]))
        dz = (g[:, None] * one - k[:, None] * plogp) / t
        dz[~good] = np.nan
        found["grad_hidden"] = np.where(part[:, None], dz @ w, 0)
        found["grad_weight"] = dz[part].T @ h[part]
    return found
'''

TORCH_REFERENCE = '''\
def reference():
    """Every output by PyTorch's log_softmax and autograd in float64, for comparison; not exact."""
    keep = torch.tensor([taken(i) for i in range(N)], dtype=torch.bool)
    good = torch.tensor([valid(i) for i in range(N)], dtype=torch.bool)
    h = torch.tensor(HIDDEN, dtype=torch.float64).reshape(N, H).requires_grad_()
    w = torch.tensor(WEIGHT, dtype=torch.float64).reshape(V, H).requires_grad_()
    k, t = torch.tensor(GRAD_ENTROPY, dtype=torch.float64), torch.tensor(T, dtype=torch.float64)
    y = torch.where(good, torch.tensor(LABELS, dtype=torch.int64), 0)
    x = (h @ w.T) / t[:, None]
    log_p = torch.log_softmax(x, -1)
    p = log_p.exp()
    entropy = -torch.where(p == 0, 0.0, p * torch.where(p == 0, 0.0, log_p)).sum(-1)
    logprob = log_p.gather(1, y[:, None])[:, 0] if V else x.sum(1)
    nan = torch.full((N,), float("nan"), dtype=torch.float64)
    found = {"lse": torch.logsumexp(x, -1), "entropy": entropy, "logprob": logprob}
    found = {name: torch.where(keep, torch.where(good, value, nan), 0.0) for name, value in found.items()}
    found["loss"] = -found["logprob"].sum() / (max(COUNT, 1) if REDUCTION == "mean" else 1)
    if REDUCTION == "none":
        objective = (found["logprob"] * torch.tensor(GRAD_LOGPROB, dtype=torch.float64))[keep].sum()
    else:
        objective = found["loss"] * GRAD_LOSS
    gradients = torch.autograd.grad(objective + (found["entropy"] * k)[keep].sum(), [h, w])
    found["grad_hidden"], found["grad_weight"] = gradients
    return found
'''

NUMPY_PLACE = '''\
def place(values, shape, dtype, strides=None, offset=0):
    """An array of these values in row-major order."""
    return np.array(values, dtype).reshape(shape)
'''

TORCH_PLACE = '''\
def place(values, shape, dtype, strides=None, offset=0):
    """A tensor of these values in row-major order."""
    return torch.tensor(values, dtype=dtype, device=DEVICE).reshape(shape)
'''

# {fill}: makes the array of a list; {full} and {empty}: memory, of which an amount that only a wide stride spans is not
# written to; {view}: gives it strides.
STRIDED_PLACE = '''\
def place(values, shape, dtype, strides=None, offset=0):
    """{what} of these values, given in row-major order, with these strides (in elements) between others."""
    if strides is None or 0 in shape:
        return {fill}(values, {dtype}).reshape(shape)
    reach = [(extent - 1) * stride for extent, stride in zip(shape, strides)]
    first = offset - sum(r for r in reach if r < 0)
    around = 0x7F7F7F7F if isinstance(values[0], int) else math.nan
    size = first + sum(r for r in reach if r > 0) + 65
    try:
        memory = {full} if size <= 1 << 22 else {empty}
    except (MemoryError, OSError, RuntimeError) as why:
        print(f"no memory for {{size}} elements around a tensor: {{why}}")
        sys.exit(2)
    for index, value in zip(itertools.product(*map(range, shape)), values):
        memory[first + sum(i * stride for i, stride in zip(index, strides))] = value
    return {view}
'''
# Memory of which only what is written to takes a page, as the harness has it.
_RESERVED = '''\
def reserved(size, dtype):
    """So many elements, of which only what is written to takes memory."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)
'''
NUMPY_RESERVED = _RESERVED + '''\
    return np.frombuffer(mmap.mmap(-1, size * np.dtype(dtype).itemsize, flags=flags), dtype)
'''
TORCH_RESERVED = _RESERVED + '''\
    if DEVICE != "cpu":
        return torch.empty(size, dtype=dtype, device=DEVICE)
    return torch.frombuffer(mmap.mmap(-1, size * dtype.itemsize, flags=flags), dtype=dtype)
'''
NUMPY_VIEW = (
    "np.lib.stride_tricks.as_strided(\n"
    "        memory[first:], shape, [s * np.dtype(dtype).itemsize for s in strides]\n    )"
)
TORCH_VIEW = "torch.as_strided(memory, shape, strides, first)"

SHOW = '''\
def element(values, output, i, j):
    """One element as a Python float."""
    value = values[output]
    if output.startswith("grad_"):
        value = value[i, j]
    elif output != "loss":
        value = value[i]
    return float(value.detach() if hasattr(value, "detach") else value)


def differs(got, true):
    """Whether a value of the kernel is beyond BOUND from the exact one."""
    if isnan(true) or isinf(true):
        return not (isnan(got) if isnan(true) else got == true)
    return not abs(mpf(got) - true) <= BOUND


def show(outputs):
    """Prints the failing element, and those beside it, in three columns. Returns whether it is wrong."""
    other = reference() if V else {}
    wrong = False
    print(f"{'element':24} {'kernel':>24} {'exact (mpmath)':>26} {REFERENCE:>24}")
    for i, j in ELEMENTS:
        place = f"{OUTPUT}[{i}, {j}]" if OUTPUT.startswith("grad_") else OUTPUT if OUTPUT == "loss" else f"{OUTPUT}[{i}]"
        got, true = element(outputs, OUTPUT, i, j), exact(OUTPUT, i, j)
        beside = repr(element(other, OUTPUT, i, j)) if OUTPUT in other else "-"
        note = ""
        if (i, j) == (ROW, COLUMN):
            bad = WRONG(got, true)
            note = {True: "  <-- wrong", False: "  <-- within the bound"}.get(bad, "")
            wrong = bool(bad)
        print(f"{place:24} {got!r:>24} {mp.nstr(true, 17):>26} {beside:>24}{note}")
    return wrong
'''
