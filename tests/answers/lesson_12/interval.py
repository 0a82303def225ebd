"""12.interval: the best interval between checkpoints."""

from __future__ import annotations

import math

from answer_table import Row


def by_golden_section(gpus, failures_per_gpu_day, checkpoint_s, restart_s):
    if failures_per_gpu_day == 0:
        return math.inf, 1.0
    mean_s = 86_400 / (gpus * failures_per_gpu_day)

    def goodput(interval_s):
        return interval_s / (mean_s * math.exp(restart_s / mean_s) * math.expm1((interval_s + checkpoint_s) / mean_s))

    low, high = 0.0, mean_s
    for _ in range(200):
        one, two = low + 0.382 * (high - low), low + 0.618 * (high - low)
        if goodput(one) < goodput(two):
            low = one
        else:
            high = two
    return (low + high) / 2, goodput((low + high) / 2)


def by_exp_less_one(gpus, failures_per_gpu_day, checkpoint_s, restart_s):
    if failures_per_gpu_day == 0:
        return math.inf, 1.0
    mean_s = 86_400 / (gpus * failures_per_gpu_day)
    c, low, high = checkpoint_s / mean_s, 0.0, 1.0

    def goodput(x):
        return x * math.exp(-restart_s / mean_s) / (math.exp(x + c) - 1)

    for _ in range(200):
        one, two = low + (high - low) / 3, high - (high - low) / 3
        if goodput(one) < goodput(two):
            low = one
        else:
            high = two
    return low * mean_s, goodput(low)


def by_bisection_of_a_logarithm(gpus, failures_per_gpu_day, checkpoint_s, restart_s):
    if failures_per_gpu_day == 0:
        return math.inf, 1.0
    mean_s = 86_400 / (gpus * failures_per_gpu_day)
    c, low, high = checkpoint_s / mean_s, 0.0, 1.0
    for _ in range(200):
        middle = (low + high) / 2
        if -middle - math.log(1 - middle) < c:
            low = middle
        else:
            high = middle
    x = (low + high) / 2
    return x * mean_s, x * math.exp(-restart_s / mean_s) / math.expm1(x + c)


ROWS = [
    Row(answer=by_golden_section, verdict="passed", why="a search for the top of the docstring's goodput"),
    Row(
        answer=by_exp_less_one,
        verdict="passed",
        why="it overflows from 709 times the time between failures on, where the goodput is below what a float holds",
    ),
    Row(
        answer=by_bisection_of_a_logarithm,
        verdict="raised",
        why="1 - x is 0 from 36 times the time between failures on; a checkpoint may be much longer than that time",
        words=("a hundred times as long",),
    ),
]
