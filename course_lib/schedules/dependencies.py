"""What every action of a schedule waits for, worked out once; whoever needs to know it reads it here.

The forward of a stage needs what the stage before made; its backward (B or I) needs its own forward and the gradient
from the stage behind; W needs I. What another rank made comes in a message. ``validation``, the simulator
(``course_lib.cost.model_parallel.pipeline``) and the runtime (``course_lib.parallel.pipeline``) ask
``schedule.dependencies``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from course_lib.schedules.action import Action

__all__ = ["Dependencies", "Result", "Transfer", "result_of"]

Result = tuple[str, int, int]  # "F", "B" (made by B or by I) or "W"; stage; micro-batch
Step = tuple[int, int, Action]  # number of the step, rank, what it runs


class Transfer(NamedTuple):
    """A message between two ranks: the activations (kind F) or the gradients of activations (kind B) of one
    micro-batch, from one stage to the next or to the one before."""

    kind: str
    micro_batch: int
    from_stage: int
    to_stage: int
    sender: int  # ranks
    receiver: int


def result_of(action: Action) -> Result:
    """What an action makes. B and I both make the gradient that the stage before waits for: the result "B"."""
    kind, stage, micro_batch = action
    return ("B" if kind == "I" else kind, stage, micro_batch)


@dataclass(frozen=True)
class Dependencies:
    """Of the actions in ``cells[r]``, rank by rank and cell by cell, where ``rank_of_stage[s]`` holds stage s.

    Each answer is computed when it is first asked for. They make sense for actions on stages that exist;
    ``validate`` looks at that first.
    """

    cells: tuple[tuple[tuple[Action, ...], ...], ...]
    rank_of_stage: tuple[int, ...]

    @cached_property
    def rows(self) -> tuple[tuple[Action, ...], ...]:
        """What each rank runs, first to last; of two that overlap the forward first."""
        return tuple(tuple(action for cell in row for action in cell) for row in self.cells)

    @cached_property
    def needs(self) -> tuple[tuple[tuple[Result, ...], ...], ...]:
        """``needs[r][i]``: the results without which the i-th action of rank r cannot run, its own stage's first."""
        return tuple(tuple(self.needs_of(action) for action in row) for row in self.rows)

    @cached_property
    def sends(self) -> dict[Action, Transfer]:
        """For each action that sends a message: which one. W sends none, nor do stages to stages of their rank."""
        found = {action: self._transfer(result_of(action)) for row in self.rows for action in row}
        return {action: transfer for action, transfer in found.items() if transfer}

    @cached_property
    def awaits(self) -> dict[Action, Transfer]:
        """For each action that cannot begin without a message: which one."""
        return {
            action: transfer
            for row, needs in zip(self.rows, self.needs, strict=True)
            for action, needed in zip(row, needs, strict=True)
            for result in needed
            if result[1] != action.stage and (transfer := self._transfer(result))
        }

    @cached_property
    def order(self) -> tuple[Step, ...]:
        """(step, rank, action) as ranks run their rows step by step: nothing runs before what it needs.

        In each step a rank runs its next cell if all that it needs was there before the step, else it waits. Two
        actions that overlap have the same step and follow each other.
        """
        return self._walk[0]

    @cached_property
    def stuck(self) -> dict[int, tuple[Action, Result]]:
        """For each rank that ends in a deadlock: the action at which it waits for ever, and what it lacks."""
        return self._walk[1]

    def needs_of(self, action: Action) -> tuple[Result, ...]:
        """The results without which an action cannot run, its own stage's first."""
        kind, stage, micro_batch = action
        if kind == "F":
            return (("F", stage - 1, micro_batch),) if stage > 0 else ()
        if kind == "W":
            return (("B", stage, micro_batch),)
        mine = ("F", stage, micro_batch)
        return (mine, ("B", stage + 1, micro_batch)) if stage < len(self.rank_of_stage) - 1 else (mine,)

    @cached_property
    def _needs_of_cells(self) -> list[list[tuple[Result, ...]]]:
        """As ``needs``, for each cell instead of each action."""
        found = []
        for row, needs in zip(self.cells, self.needs, strict=True):
            left = iter(needs)
            found.append([next(left) if len(cell) == 1 else next(left) + next(left) for cell in row])
        return found

    def _transfer(self, result: Result) -> Transfer | None:
        """The message that carries a result: none for W, at the ends of the pipeline, and within a rank."""
        kind, stage, micro_batch = result
        to_stage = stage + 1 if kind == "F" else stage - 1
        if kind == "W" or not 0 <= to_stage < len(self.rank_of_stage):
            return None
        sender, receiver = self.rank_of_stage[stage], self.rank_of_stage[to_stage]
        return Transfer(kind, micro_batch, stage, to_stage, sender, receiver) if sender != receiver else None

    @cached_property
    def _walk(self) -> tuple[tuple[Step, ...], dict[int, tuple[Action, Result]]]:
        """Run all rows in steps until all are done or none can move; every cell takes one step."""
        rows, needs = self.cells, self._needs_of_cells
        places = [0] * len(rows)
        done: set[Result] = set()
        order: list[Step] = []
        step = 0
        while True:
            moved = [
                (step, rank, row[place])
                for rank, (row, place) in enumerate(zip(rows, places, strict=True))
                if place < len(row) and done.issuperset(needs[rank][place])
            ]
            if not moved:
                break
            for _, rank, cell in moved:
                done.update(map(result_of, cell))
                places[rank] += 1
                order += [(step, rank, action) for action in cell]
            step += 1
        stuck = {
            rank: next((action, need) for action in row[place] for need in self.needs_of(action) if need not in done)
            for rank, (row, place) in enumerate(zip(rows, places, strict=True))
            if place < len(row)
        }
        return tuple(order), stuck
