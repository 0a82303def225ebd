"""Exercise 00.report: a collective that not every rank calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from course_lib.learn.catalogue.exercise import Case, Evidence, Exercise, Mistake
from course_lib.learn.exercises.lesson_00.in_place import keeps_what_comes_back
from course_lib.learn.exercises.lesson_00.tried import alone, place_of, told_by, trial, value_of
from course_lib.learn.judging.judge import by_trial

__all__ = ["REPORT"]

_LARGER = "larger losses"
_LOSSES = {
    "one loss a rank": (1.37, 0.25, 3.91, 2.64, 0.88),
    _LARGER: (12.5, 141.3, 0.07, 31.8, 77.9),
}


def _mean(losses: tuple[float, ...], world_size: int) -> float:
    return sum(losses[:world_size]) / world_size


def _case(label: str, losses: tuple[float, ...]) -> Case:
    """The larger losses are of a model in float64; before them the answer is called with another one."""
    dtype = torch.float64 if label == _LARGER else torch.float32
    before = [torch.tensor(1.0, dtype=dtype)] if label == _LARGER else []
    return Case(
        label,
        lambda rank, world_size: (torch.tensor(losses[rank], dtype=dtype), *before),
        lambda rank, world_size: f"mean loss {_mean(losses, world_size):.2f}" if rank == 0 else None,
    )


# -- usual wrong answers -----------------------------------------------------------------------------------------------


def _gives(wrong: Callable[[tuple[float, ...], int, int], Any]) -> Callable[[Evidence], bool]:
    """Whether every rank gave ``wrong(losses, rank, world_size)``."""

    def recognise(seen: Evidence) -> bool:
        return seen.error is None and all(
            value_of(one.got) == wrong(_LOSSES[one.case.partition(",")[0]], *place_of(one)) for one in seen.outcomes
        )

    return recognise


def _reports_its_own(seen: Evidence) -> bool:
    own = _gives(lambda losses, rank, world_size: f"mean loss {losses[0]:.2f}" if rank == 0 else None)
    return own(seen) and not any(one.got.num_calls for one in seen.outcomes)


def _is_the_number(seen: Evidence) -> bool:
    """Whether rank 0 gave the right number, and not a text."""
    on_0 = [one for one in seen.outcomes if place_of(one)[0] == 0] if seen.error is None else []
    return bool(on_0) and all(
        not isinstance(value_of(one.got), str) and f"mean loss {float(value_of(one.got)):.2f}" == one.expected
        for one in on_0
    )


def _never_came(seen: Evidence) -> bool:
    error = seen.error
    return error is not None and error.kind == "RankTimeout" and bool(seen.stands.never_called)


REPORT = Exercise(
    name="00.report",
    title="Mend the report",
    judge=by_trial(
        (2, 3, 4, 5, 1),
        [_case(label, losses) for label, losses in _LOSSES.items()],
        trial(),
        compare=told_by(),
    ),
    mistakes=(
        Mistake(
            "not-alone",
            "Right on 2, 3, 4 and 5 ranks, and not on one. A job may well have one rank, whose collectives have one "
            "member and come back at once.",
            recognise=alone,
        ),
        Mistake(
            "not-everybody-calls",
            "It still hangs: some rank never calls the collective. A collective is a meeting, and no `if me.rank` may "
            "stand around it. Let every rank call it, and keep the `if` for the report.",
            recognise=_never_came,
        ),
        Mistake(
            "forgets-to-divide",
            "Rank 0 reports the sum of the losses. An all-reduce adds; divide by `me.world_size` for the mean.",
            recognise=_gives(
                lambda losses, rank, world_size: f"mean loss {sum(losses[:world_size]):.2f}" if rank == 0 else None
            ),
        ),
        Mistake(
            "own-loss",
            "It no longer hangs, because nobody meets any more: rank 0 reports its own loss. Keep the all-reduce, and "
            "have every rank call it.",
            recognise=_reports_its_own,
        ),
        Mistake(
            "everybody-reports",
            "The mean is right, but every rank reports it. Only rank 0 is to return the text; the others return None.",
            recognise=_gives(lambda losses, rank, world_size: f"mean loss {_mean(losses, world_size):.2f}"),
        ),
        Mistake(
            "number-for-text",
            "Rank 0 has the right mean, as a number. The log wants a line of text: `mean loss`, a space, and the mean "
            "with two decimals.",
            recognise=_is_the_number,
        ),
        Mistake(
            "keeps-what-comes-back",
            "`dist.all_reduce` works in place: `loss` holds the sum afterwards, and what the call returns is None. "
            "Your answer goes on with what it returns.",
            recognise=keeps_what_comes_back,
        ),
    ),
    hints=(
        "Read the table of the hang again: who waits, and who never came?",
        "The `if me.rank == 0` does two jobs: it decides who computes and who reports. Only the second is right.",
        "Call `dist.all_reduce(loss)` before the `if`; inside it, only build and return the text.",
    ),
    passed="On 2, 3, 4 and 5 ranks, all ranks call the all-reduce, rank 0 reports, and no call is left unfinished.",
)
