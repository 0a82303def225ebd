"""07.pipe: what is expected on each rank, as a report of the step's kind, and how a table is told by its events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import torch

from course_lib.learn.exercises.lesson_07.pipe.cases import SITUATIONS, STEPS, batch_of, oracle
from course_lib.learn.exercises.lesson_07.pipe.reports import FINE, Gradients, PipeValuesReport
from course_lib.learn.judging.report import NOT_DEMANDED, NOTHING
from course_lib.parallel.pipeline.messages import steps_of
from course_lib.schedules import in_flight_counts
from course_lib.schedules.action import Action
from course_lib.schedules.table import Schedule

__all__ = ["NOTED", "actions_seen", "right", "sent_before"]

NOTED = ("ran", "sent", "others", "held", "in_flight", "stale", "rooms", "left")  # not in every case
_AHEAD = 2  # tensors of `room` that are there beside those that must be: one that arrives, and one that a name has
_STALE = 1
Event = tuple[str, int, int]


def right(label: str, report: type[PipeValuesReport]) -> Callable[[int, int], PipeValuesReport]:
    """``expected(rank, world_size)`` of a case."""
    return lambda rank, world_size: report.of(_facts(label, rank, world_size))


def _facts(label: str, rank: int, num_ranks: int) -> dict[str, Any]:
    situation = SITUATIONS[label]
    schedule = situation.schedule(num_ranks)
    mine, has_loss = schedule.stages_of_rank[rank], schedule.rank_of_stage[-1] == rank
    runs = [oracle(label, num_ranks, number) for number in range(situation.num_pipelines)]
    facts: dict[str, Any] = {
        "losses": [one.losses[step] if has_loss else None for step in range(STEPS) for one in runs],
        "gradients": Gradients(
            {name: g for name, g in one.gradients[step].items() if int(name.partition(".")[0]) in mine}
            for step in range(STEPS)
            for one in runs
        ),
        "ended": (FINE,),
    }
    if situation.is_coarse:
        facts["gradients"].eps = torch.finfo(torch.float32).eps
    facts |= dict.fromkeys(NOTED, NOT_DEMANDED)
    if situation.is_counted:
        facts |= {
            "ran": actions_seen(_events(schedule, rank), schedule),
            "sent": _messages(label, schedule, rank),
            "others": NOTHING,
            "held": NOTHING,
            "in_flight": _in_flight(schedule, rank),
            "stale": _STALE,
            "rooms": _rooms(schedule, rank),
            "left": NOTHING,
        }
    return facts


# -- what ran ---------------------------------------------------------------------------------------------------------


def _events(schedule: Schedule, rank: int) -> list[Event]:
    """What stages would note of this rank's row."""
    halves = {"F": ("F",), "B": ("in", "weights"), "I": ("in",), "W": ("weights",)}
    return [(each, action.stage, action.micro_batch) for action in schedule.rows[rank] for each in halves[action.kind]]


def actions_seen(events: Sequence[Event], schedule: Schedule) -> list[str]:
    """The actions that such events tell of. Where both gradients come one behind the other it is a B.

    Of stage 0 nobody waits for a gradient, so that it cannot be told where a backward in halves has its first; in a
    table with halves it is left out.
    """
    found: list[Action] = []
    for kind, stage, i in events:
        before = found[-1] if found else None
        if kind == "F":
            found.append(Action("F", stage, i))
        elif kind == "back" or (kind == "in" and stage == 0) or (schedule.is_split and stage == 0):
            continue
        elif stage == 0:
            if before != Action("B", stage, i):
                found.append(Action("B", stage, i))
        else:
            letter = "I" if kind == "in" else "W"
            if before is not None and before[1:] == (stage, i) and before.kind in ("B", "I", "W"):
                if before.kind != letter:
                    found[-1] = Action("B", stage, i)
            else:
                found.append(Action(letter, stage, i))
    return [schedule.label(action) for action in found]


# -- messages ---------------------------------------------------------------------------------------------------------


def _messages(label: str, schedule: Schedule, rank: int) -> dict[tuple[int, int], int]:
    """By peer and bytes, how many messages this rank sends in a step."""
    model = SITUATIONS[label].model(schedule.num_ranks)
    rows = [len(one) for one in batch_of(label, schedule.num_ranks, 0)[1]]
    sent: Counter[tuple[int, int]] = Counter()
    for transfer in schedule.dependencies.sends.values():
        if transfer.sender == rank:
            behind = model[max(transfer.from_stage, transfer.to_stage)].first
            size = rows[transfer.micro_batch] * (1 + behind.in_features) * behind.weight.element_size()
            sent[transfer.receiver, size] += 1
    return dict(sent)


def sent_before(schedule: Schedule, rank: int) -> dict[Event, int]:
    """For each action of a row but W, by what a stage notes of its beginning: how many messages have set out by then.

    Of two actions that overlap the second need not wait for what the first has made.
    """
    found, count = {}, 0
    for cell in schedule.in_cells[rank]:
        for kind, stage, i in cell:
            if kind != "W":
                found["F" if kind == "F" else "back", stage, i] = count
        count += sum(action in schedule.dependencies.sends for action in cell)
    return found


# -- memory -----------------------------------------------------------------------------------------------------------


def _in_flight(schedule: Schedule, rank: int) -> list[int]:
    """Of each F of this rank, how many are in flight before it."""
    counts = in_flight_counts(schedule)[rank]
    return [count - 1 for action, count in zip(schedule.rows[rank], counts, strict=True) if action.kind == "F"]


def _rooms(schedule: Schedule, rank: int) -> int:
    """The most inputs and messages that are in flight when a forward begins."""
    here: set[tuple[str, int, int]] = set()
    most = 0
    for step in steps_of(schedule)[rank]:
        here |= {(one.kind, one.to_stage, one.micro_batch) for one in step.recvs}
        for action in (step.action, step.overlapped):
            if action is None:
                continue
            if action.kind == "F":
                most = max(most, len(here))
            elif action.kind in ("B", "W"):
                here -= {("F", *action[1:]), ("B", *action[1:])}
    return most + _AHEAD
