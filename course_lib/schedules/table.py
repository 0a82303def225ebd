"""A pipeline schedule is a table: for each rank, the actions that it runs, one after the other.

Messages are implied: what F makes goes to the next stage, what B or I makes goes to the one before. A stage is a
piece of the model; a rank holds one of them or several, which are then called its virtual stages.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

from course_lib.base.checked import checked
from course_lib.base.checks import at_least
from course_lib.schedules.action import Action, Cell, Overlap, actions_in
from course_lib.schedules.dependencies import Dependencies

__all__ = ["PLACEMENTS", "Row", "Schedule", "placement"]

PLACEMENTS = ("loop", "v")

Row = tuple[Cell | None, ...]


_MOST_CELLS = 1_000_000


@checked
@dataclass(frozen=True)
class Schedule:
    """Who does what in which order. Nothing here says that the order works: that is ``validate``'s question.

    ``actions[r]`` is what rank r runs, first to last, the two of an ``Overlap`` at the same time; None is an idle cell,
    which is there to be seen and changes nothing. ``rank_of_stage[s]`` is the rank that holds stage s. Raises
    ValueError for counts below 1 and for a stage on a rank that is not there.
    """

    name: str
    num_micro_batches: int
    rank_of_stage: tuple[int, ...]
    actions: tuple[Row, ...]

    def __post_init__(self) -> None:
        at_least(1, num_micro_batches=self.num_micro_batches, num_stages=self.num_stages)
        at_least(1, num_ranks=self.num_ranks)
        for stage, rank in enumerate(self.rank_of_stage):
            if not 0 <= rank < self.num_ranks:
                nearest = min(max(rank, 0), self.num_ranks - 1)
                raise ValueError(
                    f"Stage {stage} is on rank {rank}, but the table has rows for ranks 0 to {self.num_ranks - 1}. "
                    f"The nearest is {nearest}."
                )

    @property
    def num_ranks(self) -> int:
        return len(self.actions)

    @property
    def num_stages(self) -> int:
        return len(self.rank_of_stage)

    @cached_property
    def stages_of_rank(self) -> tuple[tuple[int, ...], ...]:
        """For each rank the stages that it holds, first to last."""
        stages: list[list[int]] = [[] for _ in range(self.num_ranks)]
        for stage, rank in enumerate(self.rank_of_stage):
            stages[rank].append(stage)
        return tuple(map(tuple, stages))

    @property
    def is_split(self) -> bool:
        """Whether some backward is cut into I and W."""
        return any(action.kind == "W" for _, _, action in self.cells)

    @cached_property
    def rows(self) -> tuple[tuple[Action, ...], ...]:
        """What each rank runs, first to last, without the idle cells; of two that overlap the forward first."""
        return tuple(map(_actions_of, self.actions))

    @cached_property
    def in_cells(self) -> tuple[tuple[tuple[Action, ...], ...], ...]:
        """``rows`` by cells: ``in_cells[r][i]`` has the one action of the i-th cell of rank r, or its two."""
        return tuple(tuple(actions_in(cell) for cell in row if cell is not None) for row in self.actions)

    @cached_property
    def cells(self) -> tuple[tuple[int, int, Action], ...]:
        """All actions as (rank, column, action), rank by rank; idle cells take a column and are left out."""
        return tuple(
            (rank, column, action)
            for rank, row in enumerate(self.actions)
            for column, cell in enumerate(row)
            if cell is not None
            for action in actions_in(cell)
        )

    @cached_property
    def dependencies(self) -> Dependencies:
        """What waits for what: worked out once, read by whoever checks, simulates or runs the schedule."""
        return Dependencies(self.in_cells, self.rank_of_stage)

    def label(self, cell: Cell) -> str:
        """A cell in few letters: ``F0`` where every rank holds one stage at most, else ``F0.2``."""
        return cell.short if self.has_one_stage_a_rank else str(cell)

    @cached_property
    def has_one_stage_a_rank(self) -> bool:
        return all(len(stages) <= 1 for stages in self.stages_of_rank)

    def with_actions(self, actions: Iterable[Iterable[Cell | None]], *, name: str | None = None) -> Schedule:
        """The same stages and micro-batches in another order: what an editor makes of a schedule."""
        return replace(self, name=self.name if name is None else name, actions=tuple(map(tuple, actions)))

    def forward_only(self) -> Schedule:
        """Its forward half, as used to evaluate a model: no backward, and no activation is kept."""
        return self.with_actions([action for action in row if action.kind == "F"] for row in self.rows)

    def one_by_one(self) -> Schedule:
        """The same order without overlap: each forward of two that overlap runs first, then the backward."""
        return self if self.rows == self.actions else self.with_actions(self.rows)

    def aligned(self) -> Schedule:
        """The same order with idle cells, so that a column is a moment in which every cell takes as long.

        Actions that never get to run stand at the end of their row.
        """
        rows: list[list[Cell | None]] = [[] for _ in self.rows]
        for step, rank, action in self.dependencies.order:
            row = rows[rank]
            if step < len(row) and isinstance(before := row[-1], Action):
                row[-1] = Overlap(before, action)
            else:
                row += [None] * (step - len(row)) + [action]
        for rank in self.dependencies.stuck:
            cells = [cell for cell in self.actions[rank] if cell is not None]
            rows[rank] += cells[sum(cell is not None for cell in rows[rank]) :]
        return self.with_actions(rows)

    def __str__(self) -> str:
        """A table in text, a line for each rank, under a line that names it; ``from_text`` reads it back."""
        stages, m = self.num_stages, self.num_micro_batches
        lines = [
            f"{self.name}: {stages} stage{'s' * (stages > 1)} on rank{'s' * (stages > 1)} "
            f"{' '.join(map(str, self.rank_of_stage))}, {m} micro-batch{'es' * (m > 1)}"
        ]
        rows = [["." if cell is None else self.label(cell) for cell in row] for row in self.actions]
        width = max((len(cell) for row in rows for cell in row), default=0)
        margin = len(str(self.num_ranks - 1))
        for rank, row in enumerate(rows):
            lines.append(f"{rank:>{margin}}: {' '.join(cell.ljust(width) for cell in row)}".rstrip())
        return "\n".join(lines) + "\n"


def _actions_of(row: Row) -> tuple[Action, ...]:
    """A row of single actions is what it is: no copy of it is made."""
    if all(isinstance(cell, Action) for cell in row):
        return cast("tuple[Action, ...]", row)
    return tuple(action for cell in row if cell is not None for action in actions_in(cell))


@checked
def placement(num_ranks: int, num_virtual_stages: int = 1, style: str = "loop") -> tuple[int, ...]:
    """The rank of each of ``num_ranks * num_virtual_stages`` stages.

    ``"loop"`` goes round (0 1 2 0 1 2), ``"v"`` turns at the ends (0 1 2 2 1 0), so that the first and the last
    stage share rank 0.
    """
    check_counts(num_ranks, 1, num_virtual_stages)
    if style not in PLACEMENTS:
        raise ValueError(f"style is {style!r}; stages are placed as {' or '.join(map(repr, PLACEMENTS))}.")
    forth: Sequence[int] = range(num_ranks)
    back: Sequence[int] = range(num_ranks - 1, -1, -1)
    return tuple(rank for turn in range(num_virtual_stages) for rank in (back if style == "v" and turn % 2 else forth))


def check_counts(num_ranks: int, num_micro_batches: int, num_virtual_stages: int = 1) -> None:
    """Raise ``ValueError`` for counts below 1, and for a table that nobody could read or wait for."""
    at_least(1, num_ranks=num_ranks, num_micro_batches=num_micro_batches, num_virtual_stages=num_virtual_stages)
    cells = num_ranks * num_micro_batches * num_virtual_stages
    if cells > _MOST_CELLS:
        raise ValueError(
            f"num_ranks={num_ranks}, num_micro_batches={num_micro_batches} and num_virtual_stages={num_virtual_stages} "
            f"would make a table of {cells:,} cells; a table takes at most {_MOST_CELLS:,}. Take fewer micro-batches."
        )
