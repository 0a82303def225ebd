"""Part c of lesson 12: failures, checkpoints and all-reduce on thousands of GPUs."""

from __future__ import annotations

from collections.abc import Mapping

from course_lib.cost.reliability.failures import FailureRate
from course_lib.cost.reliability.goodput import FailingJob, expected_goodput
from course_lib.cost.reliability.goodput_runs import SimulatedGoodput
from course_lib.learn.catalogue.prediction_spec import Asked, Explanation
from course_lib.learn.exercises.lesson_12.predictions.bought import BOUGHT

__all__ = ["THOUSANDS"]

HOUR_S, YEAR_DAYS = 3600.0, 365.25
_ORDERS = "Was a setting changed? Print `job`."


def _years(rate: FailureRate) -> Explanation:
    """From the same count, shared out."""
    measured = 1 / rate.per_gpu_day / YEAR_DAYS

    def of_the_job(years: float) -> bool:
        return measured / 4 < years * rate.num_gpus < 4 * measured

    return Explanation(
        measured=round(measured, 1),
        label="computed",
        because=f"{rate.num_gpus:,} GPUs for {rate.days:g} days are {rate.num_gpus * rate.days / YEAR_DAYS:,.0f} years "
        f"of one GPU, shared by {rate.num_failures:g} failures. A single GPU is very reliable. The job stops often "
        "because there are so many GPUs, and each can stop it.",
        misreadings={
            of_the_job: "That is the time of the whole job: each of its GPUs lasts that long times their number.",
            lambda years: (
                years < measured / 4 and not of_the_job(years)
            ): "That would be a bad GPU. A job that fails every few hours can have very good ones.",
            lambda years: (
                years > 4 * measured
            ): "A chip may last that long. Hosts, cables and software are in this rate too, and stop the job as well.",
        },
    )


def _best(found: Mapping[float, SimulatedGoodput], job: FailingJob) -> Explanation:
    """From simulated runs by minutes between checkpoints."""
    measured = max(found, key=lambda minutes: found[minutes].mean.useful)
    seldom, often = max(found), min(found)
    lost = {minutes: 1 - found[minutes].mean.useful for minutes in (often, measured, seldom)}
    return Explanation(
        measured=measured,
        model=round(job.best_interval_s / 60, 1),
        label="simulated",
        because=f"At {measured:g} minutes {lost[measured]:.0%} of the time is lost, with the restarts. At {often:g} "
        f"{'minute' if often == 1 else 'minutes'} it is {lost[often]:.0%}: nearly no work is lost, and half of the "
        f"time goes to writing. At {seldom:g} it is {lost[seldom]:.0%}, nearly all of it work done again.",
        misreadings={
            lambda minutes: minutes >= 60: "That is how often people save a file. This job fails every "
            f"{job.mean_time_between_s / HOUR_S:.0f} hours, and a write takes {job.write_s:.0f} seconds.",
            lambda minutes: (
                minutes <= measured / 3
            ): "Writing so often costs much as well: each checkpoint takes time, and most are never read.",
            lambda minutes: (
                1.5 * measured < minutes < 60
            ): "That is not far off, but too seldom: a failure throws away half of this time on average.",
        },
        apart=_ORDERS,
    )


def _loss(run: SimulatedGoodput) -> float:
    """The share that writing takes, and work done again."""
    return run.mean.writing + run.mean.redone


def _twice(found: Mapping[float, SimulatedGoodput], job: FailingJob) -> Explanation:
    """From simulated runs by multiples of the best interval."""
    measured = _loss(found[2]) / _loss(found[1]) - 1
    best, double = (expected_goodput(job, job.best_interval_s * times) for times in (1, 2))
    model = (double.writing + double.redone) / (best.writing + best.redone) - 1
    half, tenth, ten = (_loss(found[times]) for times in (0.5, 0.1, 10))
    return Explanation(
        measured=round(100 * measured),
        model=round(100 * model),
        label="simulated",
        because="One of two equal losses doubles and the other halves: (2 + 1/2) / 2 is a quarter more, to the first "
        f"order. The loss grows from {_loss(found[1]):.1%} of the time to {_loss(found[2]):.1%}. Half the best "
        "interval costs "
        f"about the same, {half:.1%}. A tenth of it costs {tenth:.0%}, and ten times it {ten:.0%}. So the interval "
        "need not be exact to the minute, but its order of magnitude must be right.",
        misreadings={
            lambda percent: (
                80 <= percent <= 120
            ): "Work done again doubles, yes. But only half as much is written, and that was as large a part.",
            lambda percent: percent < 10: "Near the best interval the curve is flat, but a factor of two is not near "
            "any more.",
            lambda percent: (
                40 <= percent <= 60
            ): "Half of the loss doubles, yes. The other half, writing, becomes half as much.",
            lambda percent: percent > 120: "It cannot be more than double: only one of the losses grows.",
        },
        apart="Simulated runs scatter a little; a changed setting moves both. Print `job`.",
    )


def _jitter(waits_ms: Mapping[int, float], mean_ms: float) -> Explanation:
    """From the simulated wait for the slowest of so many ranks, in ms."""
    most, least = max(waits_ms), min(waits_ms)
    model = mean_ms * sum(1 / number for number in range(1, most + 1))
    return Explanation(
        measured=round(waits_ms[most]),
        model=round(model),
        label="simulated",
        because=f"The slowest of {least} ranks is late by {waits_ms[least]:.0f} ms on average, the slowest of "
        f"{most:,} by {waits_ms[most]:.0f} ms. Each single rank is still late by {mean_ms:g} ms on average. Each "
        "doubling of ranks "
        "adds the same, the mean times ln 2; the mean times 1 + 1/2 + 1/3 up to 1/n is exact. No single rank is the "
        "cause: at each step another one is the slowest.",
        misreadings={
            lambda ms: (
                ms < mean_ms / 2
            ): f"That is less than one rank alone is late by, {mean_ms:g} ms on average. All wait for the slowest.",
            lambda ms: (
                mean_ms / 2 <= ms <= 2 * mean_ms
            ): "That is one rank's own delay. At each step the slowest one sets the time.",
            lambda ms: (
                ms >= 4 * waits_ms[most]
            ): "Delays of different ranks pass at the same time; they do not add up. Only the longest counts.",
        },
        apart="Few steps were simulated, and the slowest of many scatters. Simulate more.",
    )


THOUSANDS: tuple[Asked, ...] = (
    Asked(
        name="12.years",
        question="One GPU at this rate: how many years until it stops the job?",
        unit="years",
        tell=_years,
        high=10_000,
    ),
    Asked(
        name="12.best",
        question="After how much work would you write a checkpoint?",
        unit="min",
        tell=_best,
        high=10_000,
    ),
    Asked(
        name="12.twice",
        question="Twice the best interval: by how much does the loss grow?",
        unit="%",
        tell=_twice,
        high=1000,
    ),
    *BOUGHT,
    Asked(
        name="12.jitter",
        question="16,384 ranks: how long is the wait for the slowest, on average?",
        unit="ms",
        tell=_jitter,
        high=1_000_000,
    ),
)
