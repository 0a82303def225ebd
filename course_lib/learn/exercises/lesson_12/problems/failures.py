"""Failures of large jobs: how often, what they cost, how often to save, and when a restart costs most."""

from __future__ import annotations

import math
import random

from course_lib.cost.reliability.failures import FAILURE_RATES, FailureRate
from course_lib.learn.catalogue.problem_spec import Posed, Wrong, problem
from course_lib.learn.paper.model_sizes import sizes_source
from course_lib.learn.paper.typed import said
from course_lib.plan.inputs.models import MODELS

__all__ = ["often", "patience", "quiet", "restart", "storage"]

_LLAMA_3 = (
    "Llama 3 405B had 419 unexpected interruptions in 54 days on 16,384 GPUs. Its effective training time was above 90 "
    "% all the same (The Llama 3 Herd of Models, 2024, section 3.3.4)."
)


def _told(rate: FailureRate) -> str:
    """The rate in the words of a text."""
    if rate.num_gpus == 8:
        return f"a node of 8 GPUs of {rate.name} had {rate.num_failures:.2f} failures in {rate.days:,.0f} days"
    return f"{rate.name} had {rate.num_failures:.0f} failures on {rate.num_gpus:,} GPUs in {rate.days:.0f} days"


@problem("12.quiet", "How many GPUs run for hours without a failure?", unit="GPUs")
def quiet(draw: random.Random) -> Posed:
    rate = FAILURE_RATES[draw.choice(("Llama 3 405B", "RSC-1", "RSC-2"))]
    hours, percent = draw.choice((12, 24, 48, 72, 168)), draw.choice((50, 60, 70, 80))
    expected = -math.log(percent / 100)
    per_gpu = rate.per_gpu_day * hours / 24
    gpus = expected / per_gpu
    return Posed(
        text=f"Take a published rate: {_told(rate)}. Suppose that all GPUs fail at this rate, independently of each "
        "other, and that each failure stops the job. How many GPUs may a job have at most, so that the chance of "
        f"{hours} hours without a failure is {percent} %?",
        value=gpus,
        way=(
            f"One GPU fails {rate.num_failures:g}/({rate.num_gpus:,} × {rate.days:,.0f}) = {rate.per_gpu_day:.3g} "
            "times a day.",
            f"In {hours} hours that is {per_gpu:.3g} failures of a GPU.",
            f"n GPUs have no failure with a chance of exp(−n × {per_gpu:.3g}), and this must be {percent / 100:g}. So "
            f"n × "
            f"{per_gpu:.3g} = −ln {percent / 100:g} = {expected:.3g}.",
            f"n = {expected:.3g}/{per_gpu:.3g} = {said(gpus, 'GPUs')}.",
        ),
        slips=(
            Wrong(
                (1 - percent / 100) / per_gpu,
                "Chances of failing do not simply add up: the job may fail more than once. Take the exponential.",
            ),
            Wrong(1 / per_gpu, "That many GPUs have one failure in this time on average, which is another question."),
            Wrong(gpus * 8 if rate.num_gpus == 8 else gpus / 8, "Look again whether the rate is of a node or a GPU."),
            Wrong(expected / rate.per_gpu_day / hours, "Days and hours are mixed up."),
        ),
        sources=(rate.source,),
    )


@problem("12.patience", "What failures cost in a day", unit="GPU-hours")
def patience(draw: random.Random) -> Posed:
    rate = FAILURE_RATES[draw.choice(("Llama 3 405B", "RSC-1"))]
    gpus = draw.choice((1024, 2048, 4096, 8192))
    interval, notice, start = draw.choice((20, 30, 60)), draw.choice((1, 10)), draw.choice((4, 6, 10))
    failures = rate.per_gpu_day * gpus
    minutes = interval / 2 + notice + start
    lost = failures * minutes / 60 * gpus
    return Posed(
        text=f"A job runs on {gpus:,} GPUs and fails at a published rate: {_told(rate)}. It saves after each "
        f"{interval} minutes of work. A failure is noticed after {notice} min, and until training goes on it takes "
        f"{start} min more. Leave out the writing of checkpoints, and failures during a restart. How many GPU-hours "
        "do its failures cost in a day, on average?",
        value=lost,
        way=(
            f"{rate.num_failures:g}/({rate.num_gpus:,} × {rate.days:,.0f}) × {gpus:,} = {failures:.3g} failures a day.",
            f"Each throws away half an interval on average and then stands still: {interval}/2 + {notice} + {start} = "
            f"{minutes:g} min.",
            "All GPUs wait, so twice the GPUs would lose four times as much.",
            f"{failures:.3g} × {minutes:g}/60 h × {gpus:,} = {said(lost, 'GPU-hours')}.",
        ),
        slips=(
            Wrong(
                lost * (minutes + interval / 2) / minutes, "A failure comes at any moment: half an interval on average."
            ),
            Wrong(lost * (notice + start) / minutes, "The work since the last checkpoint is lost as well."),
            Wrong(lost / gpus * 8, "Not only one node stands still. Training is synchronous, so all GPUs wait."),
            Wrong(
                lost * interval / 2 / minutes, "While a failure is not noticed and ranks begin again, GPUs wait, too."
            ),
        ),
        sources=(rate.source,),
        beside=_LLAMA_3,
    )


@problem("12.often", "How often to save", unit="min")
def often(draw: random.Random) -> Posed:
    rate = FAILURE_RATES["Llama 3 405B"]
    name, gpus = draw.choice(
        (
            *(("llama-3-70b", gpus) for gpus in (1024, 2048, 4096)),
            *(("llama-3-405b", gpus) for gpus in (4096, 8192, 16384)),
        )
    )
    speed, model = draw.choice((15, 25, 40, 60, 100)), MODELS[name]
    mean_s, write_s = rate.mean_time_between_s(gpus), 12 * model.parameters / (speed * 1e9)
    best_min = math.sqrt(2 * write_s * mean_s) / 60
    return Posed(
        text=f"{model.name} ({model.parameters / 1e9:.1f} billion parameters) is trained on {gpus:,} GPUs. They fail "
        f"at a published rate: {_told(rate)}. A checkpoint has 12 bytes a parameter. All ranks write "
        f"their shards at once, at {speed} GB/s together, and training waits for it. After how much work should the "
        "job save, by Young's formula?",
        value=best_min,
        way=(
            f"A checkpoint has 12 × {model.parameters / 1e9:.1f} × 10⁹ bytes and takes {said(write_s, 's')}.",
            f"{gpus:,} GPUs fail {rate.per_gpu_day * gpus:.3g} times a day, so the mean time between failures is "
            f"{said(mean_s, 's')}.",
            f"√(2 × {write_s:.3g} s × {mean_s:,.0f} s) = {said(best_min * 60, 's')} = {said(best_min, 'min')}.",
        ),
        slips=(
            Wrong(best_min / math.sqrt(2), "Twice the time of writing is under the root: half an interval is lost."),
            Wrong(best_min / math.sqrt(6), "Two bytes a parameter are weights alone. The job cannot go on from them."),
            Wrong(best_min * math.sqrt(8), "A node has 8 GPUs, and each of them counts in the rate that is given."),
            Wrong(mean_s / 60, "That is the time between failures. By then there would have been nothing saved."),
        ),
        sources=(rate.source, sizes_source(model)),
        beside=_LLAMA_3,
    )


@problem("12.storage", "Storage for saving beside training", unit="GB/s")
def storage(draw: random.Random) -> Posed:
    rate = FAILURE_RATES["Llama 3 405B"]
    name, gpus = draw.choice(
        (("llama-3-70b", 2048), ("llama-3-70b", 4096), ("llama-3-405b", 8192), ("llama-3-405b", 16384))
    )
    copy_s, model, share = draw.choice((2, 4, 6, 10)), MODELS[name], draw.choice((50, 80))
    mean_s = rate.mean_time_between_s(gpus)
    interval_s = math.sqrt(2 * copy_s * mean_s)
    size_gb = 12 * model.parameters / 1e9
    speed = size_gb / (interval_s * share / 100)
    return Posed(
        text=f"{model.name} ({model.parameters / 1e9:.1f} billion parameters, 12 bytes each in a checkpoint) is "
        f"trained on {gpus:,} GPUs. Their rate of failures is published: {_told(rate)}. Checkpoints are asynchronous: "
        f"training waits {copy_s} s for the copy to host memory, and the rest is written while training goes on. The "
        f"job saves at Young's interval for these {copy_s} s. A write must be over after {share} % of an interval, so "
        "that there is some room left. How fast must the storage be for that?",
        value=speed,
        way=(
            f"{gpus:,} GPUs fail every {said(mean_s, 's')} on average.",
            f"Only the copy stops training, so the interval is √(2 × {copy_s} × {mean_s:,.0f}) = "
            f"{said(interval_s, 's')}.",
            f"The checkpoint has 12 × {model.parameters / 1e9:.1f} × 10⁹ bytes = {size_gb:,.0f} GB.",
            f"{size_gb:,.0f} GB/({share} % × {interval_s:,.0f} s) = {said(speed, 'GB/s')}.",
        ),
        slips=(
            Wrong(size_gb / copy_s, "The copy takes these seconds. The write has nearly the whole interval."),
            Wrong(speed / 6, "Two bytes a parameter are weights alone. The job cannot go on from them."),
            Wrong(size_gb / mean_s / share * 100, "That is one write from failure to failure. Young saves more often."),
            Wrong(speed * 8, "That is in gigabits. The answer was asked for in bytes."),
        ),
        sources=(rate.source, sizes_source(model)),
    )


@problem("12.restart", "When restarts cost most", unit="GPUs")
def restart(draw: random.Random) -> Posed:
    rate = FAILURE_RATES[draw.choice(("Llama 3 405B", "RSC-1"))]
    write_s, notice_min, start_min = draw.choice((10, 15, 20, 30)), draw.choice((5, 10)), draw.choice((4, 6, 8, 10))
    restart_s = 60 * (notice_min + start_min)
    mean_s = restart_s**2 / (2 * write_s)
    gpus = 86400 / (mean_s * rate.per_gpu_day)
    return Posed(
        text=f"A job writes a checkpoint in {write_s} s, for which training waits, and always saves at Young's "
        f"interval. A failure is noticed after {notice_min} min, and training goes on {start_min} min later. The rate "
        f"of failures is published: {_told(rate)}. Calculate to the first order, each loss by itself. From how many "
        f"GPUs "
        "on do noticing and restarts cost more than writing and work done again together?",
        value=gpus,
        way=(
            f"With the mean time M between failures, restarts take the share {restart_s} s/M.",
            "At Young's interval t = √(2CM), writing takes C/t and work done again as much: together √(2C/M), with "
            f"C = {write_s} s.",
            f"Both are equal where M = {restart_s}²/(2 × {write_s}) = {said(mean_s, 's')}. With more GPUs, M is "
            "shorter and restarts cost more.",
            f"One GPU fails {rate.per_gpu_day:.3g} times a day, so n = 86,400/({mean_s:,.0f} × {rate.per_gpu_day:.3g}) "
            f"= {said(gpus, 'GPUs')}.",
        ),
        slips=(
            Wrong(gpus / 4, "That compares with writing alone. Work done again costs as much as writing."),
            Wrong(gpus * (restart_s / 60 / start_min) ** 2, "The time until it is noticed belongs to a restart here."),
            Wrong(gpus / 2, "Twice the time of writing is under Young's root."),
            Wrong(gpus / 8, "The answer was asked for in GPUs, and not in nodes."),
        ),
        sources=(rate.source,),
        beside=_LLAMA_3,
    )
