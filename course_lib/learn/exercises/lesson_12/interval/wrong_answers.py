"""Usual wrong answers to 12.interval, each with what it mixes up."""

from __future__ import annotations

import math
from typing import Any

from course_lib.cost.reliability.checkpoints import daly_interval_s, young_interval_s
from course_lib.learn.catalogue.exercise import Mistake

__all__ = ["MISTAKES"]


def _answer(
    gpus: int,
    failures_per_gpu_day: float,
    checkpoint_s: float,
    restart_s: float,
    *,
    counts_gpus: bool = True,
    day_s: float = 86_400.0,
    interval: str = "exact",
    goodput: str = "exact",
    never: Any = (math.inf, 1.0),
    with_the_write: bool = False,
    swaps: bool = False,
) -> Any:
    """The right answer, with one thing wrong."""
    if not failures_per_gpu_day:
        return never
    mean_s = day_s / (failures_per_gpu_day * (gpus if counts_gpus else 1))
    write_s = checkpoint_s
    interval_s = {
        "exact": _top_s(write_s, mean_s),
        "young": young_interval_s(write_s, mean_s),
        "daly": daly_interval_s(write_s, mean_s),
        "no two": math.sqrt(write_s * mean_s),
        "mean": mean_s,
        "with the restart": _top_s(write_s + restart_s, mean_s),
        "at most M": min(young_interval_s(write_s, mean_s), mean_s),
    }[interval]
    share = _left(goodput, interval_s, write_s, restart_s, mean_s)
    given_s = interval_s + write_s if with_the_write else interval_s
    return (share, given_s) if swaps else (given_s, share)


def _top_s(write_s: float, mean_s: float) -> float:
    """Where the goodput is highest: the t with t + exp(-(t + write)) = 1, in units of M, by bisection."""
    low, high = 0.0, 1.0
    for _ in range(100):
        t = (low + high) / 2
        low, high = (t, high) if t + math.expm1(-t - write_s / mean_s) < 0 else (low, t)
    return low * mean_s


def _left(goodput: str, interval_s: float, write_s: float, restart_s: float, mean_s: float) -> float:
    runs = math.exp(-restart_s / mean_s)
    kept = interval_s / mean_s / math.expm1((interval_s + write_s) / mean_s)
    lost_s = restart_s + interval_s / 2
    return {
        "exact": kept * runs,
        "no restart": kept,
        "restart by share": kept * mean_s / (mean_s + restart_s),
        "first order": 1 - write_s / interval_s - lost_s / mean_s,
        "never below 0": max(1 - write_s / interval_s - lost_s / mean_s, 0.0),
        "writing alone": interval_s / (interval_s + write_s),
        "writing counts": kept * runs * (interval_s + write_s) / interval_s,
        "per cent": 100 * kept * runs,
        "what is lost": 1 - kept * runs,
        "1 taken off outside": interval_s / mean_s * runs / math.exp((interval_s + write_s) / mean_s) - 1,
    }[goodput]


def _slip(**slips: Any) -> Any:
    def answer(gpus: int, failures_per_gpu_day: float, checkpoint_s: float, restart_s: float) -> Any:
        return _answer(gpus, failures_per_gpu_day, checkpoint_s, restart_s, **slips)

    return answer


def _divides_by_zero(gpus: int, failures_per_gpu_day: float, checkpoint_s: float, restart_s: float) -> Any:
    mean_s = 86_400 / (gpus * failures_per_gpu_day)
    return _answer(gpus, 86_400 / mean_s / gpus, checkpoint_s, restart_s)


_RIGHT_THERE = "Your interval is right. "
MISTAKES = (
    Mistake(
        "young",
        "Your interval is Young's, sqrt(2 C M). It is close while a checkpoint is short compared with M, and too long "
        "otherwise. Look for the top of the goodput itself.",
        _slip(interval="young"),
    ),
    Mistake(
        "young-at-most-m",
        "Your interval is Young's, cut off at M. In between it is still too long: look for the top of the goodput "
        "itself.",
        _slip(interval="at most M"),
    ),
    Mistake(
        "daly",
        "Your interval is Daly's series. It is good up to checkpoints of about half of M; beyond that it is off by "
        "some per cent. Look for the top of the goodput itself.",
        _slip(interval="daly"),
    ),
    Mistake(
        "first-order",
        "Interval and goodput are those of the first order: Young's, and each loss taken off by itself. In a job that "
        "fails often this goodput falls below zero. Use the formula of the docstring.",
        _slip(interval="young", goodput="first order"),
    ),
    Mistake(
        "sum-of-losses",
        _RIGHT_THERE + "The goodput is 1 less each loss by itself, which is good while losses are small. In a job that "
        "fails often they would take more than there is. Use the formula of the docstring.",
        _slip(goodput="first order"),
    ),
    Mistake(
        "sum-of-losses-from-zero",
        _RIGHT_THERE + "The goodput is 1 less each loss by itself, and 0 where that is negative. Such a job still gets "
        "something done: use the formula of the docstring.",
        _slip(goodput="never below 0"),
    ),
    Mistake(
        "one-gpu",
        "M is that of one GPU. One failure of any of them stops the job, so rates add up: divide by `gpus`.",
        _slip(counts_gpus=False),
    ),
    Mistake(
        "hours-for-seconds",
        "M is in hours and checkpoint and restart are in seconds. A day has 86,400 seconds.",
        _slip(day_s=24.0),
    ),
    Mistake(
        "minutes-for-seconds",
        "M is in minutes and checkpoint and restart are in seconds. A day has 86,400 seconds.",
        _slip(day_s=1440.0),
    ),
    Mistake(
        "hour-for-a-day",
        "You divide 3,600 seconds by the failures of a day. The rate is by the day: 86,400.",
        _slip(day_s=3600.0),
    ),
    Mistake(
        "days-for-seconds",
        "M is in days and checkpoint and restart are in seconds. A day has 86,400 seconds.",
        _slip(day_s=1.0),
    ),
    Mistake(
        "no-two",
        "Your interval is sqrt(C M). A failure throws away half an interval on average, not a whole one. That gives "
        "Young's sqrt(2 C M), which is itself only close. Look for the top of the goodput itself.",
        _slip(interval="no two"),
    ),
    Mistake(
        "mean-time-as-interval",
        "You write a checkpoint about when a failure is due, after M. Failures come at any time, and most often "
        "before the mean: then most of the work is lost.",
        _slip(interval="mean"),
    ),
    Mistake(
        "restart-in-the-interval",
        "Your interval grows with the restart. A restart follows each failure, however often you write; it costs "
        "goodput and does not move the top.",
        _slip(interval="with the restart"),
    ),
    Mistake(
        "write-in-the-interval",
        "Your interval contains the writing, too. Give the work between two checkpoints, without the writing. The "
        "goodput is right.",
        _slip(with_the_write=True),
    ),
    Mistake(
        "one-taken-off-outside",
        "The 1 is taken off the whole quotient, so your goodput is below zero, and its top lies at M. Put "
        "`exp(...) - 1` into parentheses: it is the divisor.",
        _slip(interval="mean", goodput="1 taken off outside"),
    ),
    Mistake(
        "no-restart",
        _RIGHT_THERE + "The goodput is too high: the restart after each failure is not in it.",
        _slip(goodput="no restart"),
    ),
    Mistake(
        "restart-by-share",
        _RIGHT_THERE + "For the restart you take M / (M + restart). A restart may fail as well, and then begins again: "
        "that is exp(-restart / M).",
        _slip(goodput="restart by share"),
    ),
    Mistake(
        "writing-alone",
        _RIGHT_THERE
        + "The goodput has what writing takes, and nothing that failures take: work done again and restarts are "
        "missing.",
        _slip(goodput="writing alone"),
    ),
    Mistake(
        "writing-counts",
        _RIGHT_THERE + "The goodput counts writing as training: the numerator is the interval alone, and the "
        "checkpoint stands only in the exponent.",
        _slip(goodput="writing counts"),
    ),
    Mistake(
        "per-cent",
        _RIGHT_THERE + "The goodput is in per cent; give a share from 0 to 1.",
        _slip(goodput="per cent"),
    ),
    Mistake(
        "what-is-lost",
        _RIGHT_THERE + "You give what is lost. The goodput is what is left.",
        _slip(goodput="what is lost", never=(math.inf, 0.0)),
    ),
    Mistake(
        "swapped",
        "Both numbers are right, but in the wrong order: first the interval, then the goodput.",
        _slip(swaps=True, never=(1.0, math.inf)),
    ),
    Mistake(
        "zero-rate-as-zero",
        "Where nothing fails you give an interval of 0: a checkpoint all the time. Nothing is lost there if none is "
        "ever written: infinity.",
        _slip(never=(0.0, 1.0)),
    ),
    Mistake(
        "zero-rate-as-none",
        "Where nothing fails you give None for the interval. Give a number there, too: infinity, `math.inf`.",
        _slip(never=(None, 1.0)),
    ),
    Mistake(
        "divides-by-zero",
        "All is right where something fails. With a rate of 0 you divide by zero: answer that before you work out M.",
        _divides_by_zero,
    ),
)
