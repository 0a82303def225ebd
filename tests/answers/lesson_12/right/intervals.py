"""Right answers to 12.interval in other styles than the lesson's, and mutants of its solution that are as right."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import optimize, special

__all__ = ["ANSWERS", "SAME"]


def by_bisection(gpus: int, failures_per_gpu_day: float, checkpoint_s: float, restart_s: float) -> Any:
    """Where the slope is zero: t + exp(-(t + write)) = 1, all in units of M."""
    rate = gpus * failures_per_gpu_day / 86_400  # failures a second
    if rate == 0:
        return math.inf, 1.0
    low, high, write = 0.0, 1.0, checkpoint_s * rate
    while high - low > 1e-12:
        t = (low + high) / 2
        if t + math.exp(-t - write) < 1:
            low = t
        else:
            high = t
    return low / rate, low * math.exp(-restart_s * rate) / math.expm1(low + write)


def by_lambert(gpus: int, failures_per_gpu_day: float, checkpoint_s: float, restart_s: float) -> Any:
    """In closed form, by Lambert's function: t = 1 + W(-exp(-1 - write))."""
    per_s = failures_per_gpu_day * gpus / (24 * 60 * 60)
    if not per_s:
        return float("inf"), 1
    t = 1 + special.lambertw(-np.exp(-1 - checkpoint_s * per_s)).real
    return t / per_s, t * np.exp(-per_s * restart_s) / np.expm1(t + per_s * checkpoint_s)


def by_scipy(gpus: int, failures_per_gpu_day: float, checkpoint_s: float, restart_s: float) -> Any:
    """The least of the negative logarithm."""
    if failures_per_gpu_day <= 0:
        return [math.inf, 1.0]
    mean_s = 86_400 / failures_per_gpu_day / gpus

    def worse(t: float) -> float:
        return (restart_s / mean_s) - math.log(t / mean_s) + math.log(math.expm1((t + checkpoint_s) / mean_s))

    found = optimize.minimize_scalar(worse, bounds=(0, mean_s), method="bounded", options={"xatol": 1e-9 * mean_s})
    return [found.x, math.exp(-found.fun)]


def by_a_grid(gpus: int, failures_per_gpu_day: float, checkpoint_s: float, restart_s: float) -> Any:
    """Steps of a thousandth, from far below M to M."""
    if failures_per_gpu_day == 0:
        return math.inf, 1.0
    mean_s = 86_400 / (gpus * failures_per_gpu_day)
    t = mean_s * np.geomspace(1e-6, 1, 14_000)
    goodput = t / mean_s * np.exp(-restart_s / mean_s) / np.expm1((t + checkpoint_s) / mean_s)
    best = goodput.argmax()
    return t[best], goodput[best]


def by_golden_section(gpus: int, failures_per_gpu_day: float, checkpoint_s: float, restart_s: float) -> Any:
    """Logarithms of intervals, so that a second and a month are equally near; exp - 1 as the docstring has it."""
    if failures_per_gpu_day == 0:
        return (math.inf, 1.0)
    mean_s = 86_400 / (gpus * failures_per_gpu_day)

    def share(log_t: float) -> float:
        t = math.exp(log_t)
        return t / mean_s * math.exp(-restart_s / mean_s) / (math.exp((t + checkpoint_s) / mean_s) - 1)

    golden = (math.sqrt(5) - 1) / 2
    low, high = math.log(mean_s * 1e-7), math.log(mean_s)
    while high - low > 1e-5:
        left, right = high - golden * (high - low), low + golden * (high - low)
        low, high = (low, right) if share(left) > share(right) else (left, high)
    return math.exp(low), share(low)


def by_steps(gpus: int, failures_per_gpu_day: float, checkpoint_s: float, restart_s: float) -> Any:
    """From Young's interval downhill, step after step: t = M (1 - exp(-(t + write) / M)) again and again."""
    if failures_per_gpu_day == 0:
        return math.inf, 1.0
    mean_s = 86_400 / (gpus * failures_per_gpu_day)
    t = math.sqrt(2 * checkpoint_s * mean_s)
    for _ in range(100_000):
        better = -mean_s * math.expm1(-(t + checkpoint_s) / mean_s)
        if abs(better - t) < 1e-7 * t:
            break
        t = better
    return t, t / mean_s * math.exp(-restart_s / mean_s) / math.expm1((t + checkpoint_s) / mean_s)


ANSWERS = (by_bisection, by_lambert, by_scipy, by_a_grid, by_golden_section, by_steps)
_ROUNDS = "A round more or less: after some forty nothing moves that a hundredth could tell."
_TIMES = "A number is added to, or taken from, either way."
_DAY = "A second more or less in a day is a thousandth of what is allowed for the goodput."
SAME: dict[str, str] = {
    "9: `low += third` -> a new name for a new value": _TIMES,
    "11: `high -= third` -> a new name for a new value": _TIMES,
    "5: `range(100)` -> `range(100 - 1)`": _ROUNDS,
    "5: `range(100)` -> `range(100 + 1)`": _ROUNDS,
    "5: `range(100)` -> `range(1, 100)`": _ROUNDS,
    "5: `range(100)` -> `reversed(range(100))`": "The rounds are counted, and their number is not used.",
    "5: `100` -> `101`": _ROUNDS,
    "5: `100` -> `99`": _ROUNDS,
    "3: `86400` -> `86401`": _DAY,
    "3: `86400` -> `86399`": _DAY,
    "8: `left < right` -> `left <= right`": (
        "Where both are equal the top lies between them, and neither third holds it."
    ),
    "6: `3` -> `4`": "Two points at a quarter and three quarters find the same top, in a few rounds more.",
    "7: `high - third` -> `high`": (
        "The hill is steeper on its left: where the point at a third is as high as the right end, the top is not in "
        "the last third."
    ),
}
