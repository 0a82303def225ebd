"""05.fsdp: what is expected on each rank, as a report of the step's kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from course_lib.learn.exercises.lesson_05.fsdp.cases import SITUATIONS, STEPS, compared, numbered, oracle
from course_lib.learn.exercises.lesson_05.fsdp.models import WIDE_LAYERS
from course_lib.learn.exercises.lesson_05.fsdp.reports import LOOKED_AT, FsdpValuesReport
from course_lib.learn.judging.report import NOT_DEMANDED, NOTHING

__all__ = ["right"]

_CALLS_OF_A_UNIT = 3
_ROOM_AT_REST, _ROOM_BETWEEN = 0.5, 1.5  # in sizes of a unit
_ROOM_AFTER_TOOLS = 0.3  # in sizes of the model
_ROOM_AT_MOST = 3.0 + 2.0  # two whole units and the gradients of one; and two for whoever packs and unpacks


def right(label: str, report: type[FsdpValuesReport]) -> Callable[[int, int], FsdpValuesReport]:
    """``expected(rank, world_size)`` of a case."""
    return lambda rank, world_size: report.of(_facts(label, rank, world_size))


def _facts(label: str, rank: int, world_size: int) -> dict[str, Any]:
    situation = SITUATIONS[label]
    each = [oracle(label, world_size, number) for number in range(situation.num_models)]
    facts: dict[str, Any] = dict.fromkeys(LOOKED_AT, NOT_DEMANDED)
    facts |= {
        "own": situation.num_own(world_size),
        "names": sorted(each[0].begin),
        "begin": numbered([one.begin for one in each]),
        "losses": NOT_DEMANDED
        if situation.is_coarse
        else [[loss for one in each for loss in one.losses[rank][step]] for step in range(STEPS)],
        "weights": [compared(label, numbered([one.weights[step] for one in each])) for step in range(STEPS)],
    }
    if situation.clips:
        facts["norms"] = each[0].norms
    if situation.is_held:
        facts["held"] = _ROOM_AFTER_TOOLS
    if world_size == 1:
        return facts
    if situation.is_counted:
        num_all = sum(p.numel() for p in situation.model().parameters())
        facts |= {
            "sent": 3 * (world_size - 1) * situation.num_own(world_size) / num_all + 64 / (8 * num_all),
            "num_calls": _CALLS_OF_A_UNIT * situation.num_units(),
        }
    if situation.prefetch is not None:
        due = [(min(unit + situation.prefetch, WIDE_LAYERS), unit) for unit in range(1, WIDE_LAYERS + 1)]
        facts |= {"ahead": due, "ahead_back": due}
    if situation.is_weighed:
        part = WIDE_LAYERS / world_size
        facts |= {
            "rest": part + _ROOM_AT_REST,
            "between": part + _ROOM_BETWEEN,
            "fullest": 2 * part + _ROOM_AT_MOST,
            "evaluated": part + _ROOM_BETWEEN,
            "growth": NOTHING,
        }
    return facts
