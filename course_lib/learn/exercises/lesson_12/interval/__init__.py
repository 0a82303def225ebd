"""12.interval: how much work between two checkpoints, and the share of the time that is left for training.

The docstring on the page gives the expected goodput; the answer is where it is highest, by whatever search or formula.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from course_lib.cost.reliability.goodput import FailingJob, expected_goodput
from course_lib.learn.catalogue.exercise import Case, Exercise
from course_lib.learn.exercises.lesson_12.interval import wrong_answers
from course_lib.learn.judging.compare import difference, short
from course_lib.learn.judging.isolated_judge import CasesApart, by_cases_apart

__all__ = ["CASES", "INTERVAL", "best_of"]

_DAY_S = 86_400.0
_LLAMA = 419 / 16_384 / 54  # failures of one GPU in a day
_INTERVAL_WITHIN, _GOODPUT_WITHIN = 0.01, 0.001


def best_of(gpus: int, failures_per_gpu_day: float, checkpoint_s: float, restart_s: float) -> tuple[float, float]:
    """The best interval, in seconds, and the goodput with it; infinity and 1 where nothing fails."""
    if not failures_per_gpu_day:
        return math.inf, 1.0
    mean_s = _DAY_S / (gpus * failures_per_gpu_day)
    job = FailingJob(mean_time_between_s=mean_s, write_s=checkpoint_s, restart_s=restart_s)
    return job.best_interval_s, expected_goodput(job, job.best_interval_s).useful


_SIZES = (
    ("16,384 GPUs that fail as Llama 3's did", (16_384, _LLAMA, 60.0, 300.0)),
    ("100,000 such GPUs", (100_000, _LLAMA, 60.0, 300.0)),
    ("8 GPUs that hardly ever fail", (8, 0.0004, 20.0, 90.0)),
    ("one GPU that fails every fifty days", (1, 0.02, 45.0, 30.0)),
    ("GPUs that never fail", (1024, 0.0, 60.0, 300.0)),
    ("a restart that takes no time", (4096, 0.001, 25.0, 0.0)),
    ("two failures of each GPU in a day", (8, 2.0, 5.0, 60.0)),
    ("a restart longer than the time between failures", (20_000, 0.00432, 40.0, 1500.0)),
    ("a checkpoint in a fiftieth of a second", (100_000, 0.05, 0.02, 10.0)),
    ("a checkpoint as long as the time between failures", (12_000, 0.0072, 1000.0, 120.0)),
    ("a checkpoint half as long again as the time between failures", (12_000, 0.0072, 1500.0, 0.0)),
    ("a checkpoint six times as long as the time between failures", (24_000, 0.0072, 3000.0, 200.0)),
    ("a checkpoint a hundred times as long as the time between failures", (24_000, 0.0072, 50_000.0, 200.0)),
)
CASES = tuple(Case(label, args, best_of) for label, args in _SIZES)


def _compare(expected: Sequence[float], got: Any) -> str:
    """Two numbers with a name and a tolerance each, in a tuple, a list or an array."""
    got = got.tolist() if hasattr(got, "tolist") else got
    if not isinstance(got, Sequence) or isinstance(got, str) or len(got) != 2:
        return difference(expected, got) or f"expected two numbers, got {short(got)}"
    within = (_INTERVAL_WITHIN, _GOODPUT_WITHIN)
    for name, want, have, relative in zip(("the interval", "the goodput"), expected, got, within, strict=True):
        if found := difference(want, have, relative=relative, absolute=0.0):
            return f"{name}: {found}"
    return ""


class _Tolerant(CasesApart):
    """Two wrong answers are alike where they are so within these tolerances, whatever way each was searched."""

    compare = staticmethod(_compare)


INTERVAL = Exercise(
    name="12.interval",
    title="The best interval between checkpoints",
    judge=_Tolerant(**vars(by_cases_apart(CASES, compare=_compare))),
    mistakes=wrong_answers.MISTAKES,
    hints=(
        "Two steps: how many seconds pass from one failure of the job to the next, on average? And then, which "
        "interval makes the docstring's goodput largest? For the second you need no formula: a program can search.",
        "Drawn over the interval, the goodput is one hill: it rises, has a top, and falls. The top never lies beyond "
        "M. Begin with 0 and M, and throw away, a hundred times, a part that cannot hold it. The lower one of two "
        "points inside has the top on its other side. Where nothing fails there is no M; answer that first.",
        "`mean_s = 86_400 / (gpus * failures_per_gpu_day)`, `low, high = 0.0, mean_s`, and a hundred times: "
        "`third = (high - low) / 3`; `low += third` where the goodput at `low + third` is below that at "
        "`high - third`, else `high -= third`. `math.expm1(x)` is `exp(x) - 1`. A rate of 0 gives `(math.inf, 1.0)`.",
    ),
    forbidden=(
        "course_lib.cost.reliability.checkpoints.best_interval_s",
        "course_lib.cost.reliability.goodput.expected_goodput",
        "course_lib.cost.reliability.goodput.FailingJob",
    ),
    passed="The interval is right also where a checkpoint takes longer than the time between failures, and you know "
    "what is left for training.",
)
