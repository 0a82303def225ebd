"""What an action waits for, and what happens when every rank runs its row as far as it can.

The forward of a stage needs what the stage before made; its backward (B or I) needs its own forward and the gradient
from the stage behind; W needs I. Ranks move in steps: in each step a rank runs its next action if all that it needs
was there before the step, else it waits.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from course_lib.parallel.pipeline.schedule import Action, Schedule

__all__ = ["Result", "Walk", "aligned", "needs", "result_of", "walk"]

Result = tuple[str, int, int]  # "F", "B" (made by B or by I) or "W"; stage; micro-batch


def result_of(action: Action) -> Result:
    """What an action makes. B and I both make the gradient that the stage before waits for: the result "B"."""
    kind, stage, micro_batch = action
    return ("B" if kind == "I" else kind, stage, micro_batch)


def needs(action: Action, num_stages: int) -> tuple[Result, ...]:
    """The results without which an action cannot run, its own stage's first."""
    kind, stage, micro_batch = action
    if kind == "F":
        return (("F", stage - 1, micro_batch),) if stage > 0 else ()
    if kind == "W":
        return (("B", stage, micro_batch),)
    mine = ("F", stage, micro_batch)
    return (mine, ("B", stage + 1, micro_batch)) if stage < num_stages - 1 else (mine,)


@dataclass(frozen=True)
class Walk:
    """How far the ranks get.

    ``order`` holds (step, rank, action), step by step: an order in which nothing runs before what it needs.
    ``stuck[r]`` is the action at which rank r waits for ever with what it lacks, for ranks that do not finish.
    """

    order: tuple[tuple[int, int, Action], ...]
    stuck: dict[int, tuple[Action, Result]]


def walk(schedule: Schedule) -> Walk:
    """Run all rows in steps until all are done or none can move; every action takes one step."""
    rows, num_stages = schedule.rows, schedule.num_stages
    places = [0] * len(rows)
    done: set[Result] = set()
    order: list[tuple[int, int, Action]] = []
    step = 0
    while True:
        moved = [
            (step, rank, row[place])
            for rank, (row, place) in enumerate(zip(rows, places, strict=True))
            if place < len(row) and done.issuperset(needs(row[place], num_stages))
        ]
        if not moved:
            break
        for _, rank, action in moved:
            done.add(result_of(action))
            places[rank] += 1
        order += moved
        step += 1
    stuck = {
        rank: (row[place], _first(needs(row[place], num_stages), done))
        for rank, (row, place) in enumerate(zip(rows, places, strict=True))
        if place < len(row)
    }
    return Walk(tuple(order), stuck)


def aligned(schedule: Schedule) -> Schedule:
    """The same schedule with idle cells, so that a column is a moment in which every action takes as long.

    Actions that never get to run stand at the end of their row.
    """
    result = walk(schedule)
    rows: list[list[Action | None]] = [[] for _ in range(schedule.num_ranks)]
    for step, rank, action in result.order:
        rows[rank] += [None] * (step - len(rows[rank])) + [action]
    for rank in result.stuck:
        rows[rank] += schedule.rows[rank][sum(cell is not None for cell in rows[rank]) :]
    return schedule.with_actions(rows)


def _first(results: Iterable[Result], done: set[Result]) -> Result:
    return next(result for result in results if result not in done)
