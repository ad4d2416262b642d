# SPDX-License-Identifier: Apache-2.0
"""The rate of what was seldom or never seen: upper limits of a counted rate, and of a tail that is extrapolated.

The largest ratio of a verdict is a quotient of two realised errors, whose tail is at most a power law, as that of the F
distribution; its logarithm's is exponential at most. So what is fitted to the excesses of ln(ratio) over a threshold is
the generalised Pareto distribution (Pickands 1975), P(X > x) = (1 + xi x / sigma)^(-1/xi), whose xi is 0 for an
exponential: from -0.5 to 0 in what is extrapolated. The likeliest xi up to 0.5 is told beside it; if that is well above
0, the threshold is too low, or kernels of several kinds are mixed, and the limit is not to be relied on. The limit is
that of the profile likelihood of the tail's probability itself (Coles 2001, section 4.3), with xi and sigma as they are
likeliest at each probability.
"""

import math
from dataclasses import dataclass

CONFIDENCE = 0.95
LEAST_EXCESSES = 30
SHAPES = [k / 50 for k in range(-25, 1)]
FREE_SHAPES = [k / 50 for k in range(-25, 26)]
# Half of the quantile of chi squared with one degree of freedom at 0.90: a limit on one side at 0.95.
DROP = 2.70554 / 2
LEAST_LOG = -200.0  # of a probability


def poisson_at_most(events: int, mean: float) -> float:
    """The probability of at most so many events."""
    term = total = math.exp(-mean)
    for k in range(1, events + 1):
        term *= mean / k
        total += term
    return total


def upper_rate(events: int, trials: int, confidence: float = CONFIDENCE) -> float:
    """The upper confidence limit of a rate (Garwood 1936): 3.0 / trials where there was no event. 1 without trials."""
    if trials == 0:
        return 1.0
    low, high = float(events), 2.0 * events + 20
    for _ in range(100):
        mean = (low + high) / 2
        low, high = (mean, high) if poisson_at_most(events, mean) > 1 - confidence else (low, mean)
    return min(1.0, high / trials)


def log_likelihood(excesses: list[float], shape: float, scale: float) -> float:
    """That of a generalised Pareto distribution; minus infinity where an excess is beyond its end."""
    if scale <= 0 or not math.isfinite(scale):
        return -math.inf
    if shape == 0:
        return -len(excesses) * math.log(scale) - sum(excesses) / scale
    if 1 + shape * max(excesses) / scale <= 0:
        return -math.inf
    logs = sum(math.log1p(shape * x / scale) for x in excesses)
    return -len(excesses) * math.log(scale) - (1 + 1 / shape) * logs


def scale_of(shape: float, beyond: float, log_probability: float) -> float:
    """The scale with which an excess is above `beyond` with this probability."""
    if shape == 0:
        return -beyond / log_probability
    try:
        return shape * beyond / math.expm1(-shape * log_probability)
    except OverflowError:
        return 0.0


def profile(excesses: list[float], beyond: float, log_probability: float) -> tuple[float, float, float]:
    """(log likelihood, shape, scale), the likeliest with which an excess is above `beyond` with this probability."""
    return max((log_likelihood(excesses, shape, scale), shape, scale)
               for shape in SHAPES for scale in [scale_of(shape, beyond, log_probability)])


def likeliest(excesses: list[float], shapes: list[float]) -> tuple[float, float, float]:
    """(log likelihood, shape, scale)."""
    mean = sum(excesses) / len(excesses)
    found = (-math.inf, 0.0, mean)
    for shape in shapes:
        # Below this scale a negative shape's tail ends before the largest excess.
        least = max(mean / 50, -shape * max(excesses) * (1 + 1e-9))
        low, high = math.log(least), math.log(least) + 6
        for _ in range(40):
            left, right = low + (high - low) / 3, high - (high - low) / 3
            rises = log_likelihood(excesses, shape, math.exp(left)) < log_likelihood(excesses, shape, math.exp(right))
            low, high = (left, high) if rises else (low, right)
        scale = math.exp((low + high) / 2)
        found = max(found, (log_likelihood(excesses, shape, scale), shape, scale))
    return found


@dataclass(frozen=True)
class Tail:
    """A tail that was fitted; probabilities are those of one of `trials`."""
    trials: int
    excesses: int
    threshold: float  # a ratio
    shape: float
    scale: float  # of ln(ratio)
    free_shape: float  # the likeliest without the limit of 0
    rate: float  # the likeliest beyond the ratio asked for
    limit: float  # its upper confidence limit


def fit(ratios: list[float], beyond: float, share: float) -> Tail | None:
    """Fits the largest `share` of the ratios and extrapolates to the ratio `beyond`; None where fewer than
    LEAST_EXCESSES are above the threshold, or none of them differs."""
    ordered = sorted(ratios, reverse=True)
    count = int(share * len(ordered))
    if count < LEAST_EXCESSES or ordered[count] <= 0 or ordered[count] >= beyond:
        return None
    threshold = ordered[count]
    excesses = [math.log(ratio / threshold) for ratio in ordered[:count] if ratio > threshold]
    if len(excesses) < LEAST_EXCESSES:
        return None
    distance = math.log(beyond / threshold)
    best, shape, scale = likeliest(excesses, SHAPES)
    tail = 1 + shape * distance / scale
    beyond_all = 0.0 if tail <= 0 else math.exp(-distance / scale) if shape == 0 else tail**(-1 / shape)
    # The likelihood falls with the probability from the likeliest on; a tail that ends before `beyond` has none.
    low, high = (math.log(beyond_all), -1e-3) if beyond_all > math.exp(LEAST_LOG) else (LEAST_LOG, -1e-3)
    for _ in range(40):
        middle = (low + high) / 2
        inside = profile(excesses, distance, middle)[0] > best - DROP
        low, high = (middle, high) if inside else (low, middle)
    share_above = len(excesses) / len(ordered)
    return Tail(len(ordered), len(excesses), threshold, shape, scale,
                likeliest(excesses, FREE_SHAPES)[1], share_above * beyond_all,
                min(1.0, upper_rate(len(excesses), len(ordered)) * math.exp(high)))
