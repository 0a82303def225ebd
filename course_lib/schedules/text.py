"""Schedules read from text that a person types, and as the CSV that PyTorch's pipelining reads and writes.

    1F1B: 2 stages on ranks 0 1, 3 micro-batches
    0: F0 F1 B0 F2 B1 B2
    1: .  F0 B0 F1 B1 F2 B2

One line for each rank; ``F0`` is the forward of micro-batch 0, a dot is an idle cell. Where ranks hold several
stages, a cell says which: ``F0.5`` is micro-batch 0 on stage 5. ``F3.0&B0.5`` are two actions that overlap. The first
line and the numbers before the colons may be left out by whoever types.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from functools import lru_cache

from course_lib.base.checked import checked
from course_lib.schedules.action import KINDS, Action, Cell, Overlap, actions_in
from course_lib.schedules.table import Row, Schedule

__all__ = ["from_csv", "from_text", "to_csv"]

_HEAD = re.compile(r"(?P<name>.*\S)\s*:\s*\d+ stages? on ranks? (?P<ranks>\d+(?: \d+)*), (?P<m>\d+) micro-batch(es)?$")
_LABEL = re.compile(r"^(?:rank\s+)?(\d+)\s*:\s*", re.IGNORECASE)
_CELL = re.compile(r"([FBIW])(\d{1,5})(?:\.(\d{1,5}))?$", re.IGNORECASE)
_CSV_CELL = re.compile(r"(\d{1,5})([FBIW])(\d{1,5})$")
_CSV_OVERLAP = re.compile(r"\(([^;()]*);([^;()]*)\)OVERLAP_F_B$")
# WAIT_...: since torch 2.15
_IMPLIED = re.compile(r"\d+(UNSHARD|RESHARD|(WAIT_)?(REDUCE_GRAD|SEND_F|SEND_B)|RECV_F|RECV_B)\d*$")
_LETTERS = ", ".join(f"{kind} ({words})" for kind, words in KINDS.items())


@checked
def from_text(
    text: str,
    *,
    name: str | None = None,
    num_micro_batches: int | None = None,
    rank_of_stage: Sequence[int] | None = None,
) -> Schedule:
    """Read what ``str(schedule)`` writes, or what a person types.

    What is neither given here nor in a first line follows from the cells: as many micro-batches as the largest
    number says, and each stage on the rank whose line names it; without stages in the cells, stage r is on rank r.
    Raises ValueError, with line and cell, for what cannot be read. Whether the order works is not asked here.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    head = _HEAD.match(lines[0]) if lines else None
    if head:
        lines = lines[1:]
        name = head["name"] if name is None else name
        num_micro_batches = int(head["m"]) if num_micro_batches is None else num_micro_batches
        if rank_of_stage is None:
            rank_of_stage = [int(rank) for rank in head["ranks"].split()]
    if not lines:
        raise ValueError("The schedule is empty; write a line for each rank, such as: F0 F1 B0 B1")
    cells = [_cells(line, rank) for rank, line in enumerate(lines)]
    if rank_of_stage is None:
        named = [[word[2] for cell in row for word in cell if word[2] is not None] for row in cells]
        rank_of_stage = _stages_seen(named) if any(named) else range(len(cells))
    stages_of_rank = [[s for s, rank in enumerate(rank_of_stage) if rank == r] for r in range(len(cells))]
    rows = [
        tuple(_joined([_with_stage(word, rank, stages_of_rank[rank]) for word in cell]) for cell in row)
        for rank, row in enumerate(cells)
    ]
    return _schedule(name or "your table", num_micro_batches, rank_of_stage, rows)


@checked
def to_csv(schedule: Schedule) -> str:
    """A line for each rank, cells such as ``2F0`` (stage 2, micro-batch 0), an idle cell is empty.

    Two actions that overlap are ``(0F3;5B0)OVERLAP_F_B``.

    PyTorch reads it with ``_PipelineScheduleRuntime._load_csv(path, format="compute_only")``.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for row in schedule.actions:
        writer.writerow("" if cell is None else _in_csv(cell) for cell in row)
    return out.getvalue()


@checked
def from_csv(text: str, *, name: str = "from CSV") -> Schedule:
    """Read what ``to_csv`` or PyTorch's ``_dump_csv`` writes; stages and micro-batches are those of the cells.

    Cells that a schedule implies (``0SEND_F1``, ``2RECV_B0``, ``1UNSHARD``, ...) are left out. Raises ValueError
    for a cell that is none of these, and where no rank runs one of the stages.
    """
    rows: list[Row] = []
    for rank, line in enumerate(csv.reader(io.StringIO(text))):
        rows.append(tuple(_csv_cell(c.strip(), rank) for c in line if not _IMPLIED.match(c.strip())))
    if not any(cell for row in rows for cell in row):
        raise ValueError("The table holds no action; write a line for each rank, such as: 0F0,0F1,0B0,0B1")
    seen = [[action.stage for cell in row if cell for action in actions_in(cell)] for row in rows]
    rank_of_stage = _stages_seen(seen)
    return _schedule(name, None, rank_of_stage, rows)


Word = tuple[str, int, int | None]  # kind, micro-batch, and the stage where it was written


def _cells(line: str, rank: int) -> list[tuple[Word, ...]]:
    """The cells of a rank's line: one action, two that overlap, or none where it is idle."""
    label = _LABEL.match(line)
    if label:
        if int(label[1]) != rank:
            raise ValueError(
                f"Line {rank + 1} is labelled rank {label[1]}, but lines are in the order of ranks: this one belongs "
                f"to rank {rank}."
            )
        line = line[label.end() :]
    cells: list[tuple[Word, ...]] = []
    for number, text in enumerate(line.split(), start=1):
        words = _words(text)
        if words is None:
            raise ValueError(
                f"Rank {rank}, cell {number}: {text!r} is no action. Write a letter and a micro-batch (99999 at most), "
                f"such as F0: {_LETTERS}. F0.5 is on stage 5, F1&B0 are two that overlap, and a dot is an idle cell."
            )
        cells.append(words)
    return cells


@lru_cache(maxsize=8192)
def _words(text: str) -> tuple[Word, ...] | None:
    """The actions of a cell; None for what is no cell. Whoever types changes one cell of hundreds."""
    found = [] if text == "." else [_CELL.match(part) for part in text.split("&")]
    words = [(word[1].upper(), int(word[2]), int(word[3]) if word[3] else None) for word in found if word]
    return tuple(words) if len(words) == len(found) <= 2 else None


def _joined(actions: Sequence[Action]) -> Cell | None:
    """The cell that holds these: none, one or two."""
    if len(actions) == 2:
        return Overlap(*actions)
    return actions[0] if actions else None


def _with_stage(word: Word, rank: int, stages: Sequence[int]) -> Action:
    kind, micro_batch, stage = word
    if stage is None:
        if not stages:
            raise ValueError(
                f"Rank {rank}: {kind}{micro_batch} names no stage, though other cells do; write {kind}{micro_batch}.5 "
                "for stage 5."
            )
        if len(stages) > 1:
            raise ValueError(
                f"Rank {rank} holds stages {' and '.join(map(str, stages))}, so {kind}{micro_batch} does not say which "
                f"it means; write {kind}{micro_batch}.{stages[0]} for stage {stages[0]}."
            )
        stage = stages[0]
    return Action(kind, stage, micro_batch)


def _in_csv(cell: Cell) -> str:
    words = [f"{stage}{kind}{micro_batch}" for kind, stage, micro_batch in actions_in(cell)]
    return words[0] if len(words) == 1 else f"({';'.join(words)})OVERLAP_F_B"


def _csv_cell(cell: str, rank: int) -> Cell | None:
    both = _CSV_OVERLAP.match(cell)
    words = [word.strip() for word in both.groups()] if both else [cell] if cell else []
    return _joined([_csv_action(word, rank) for word in words])


def _csv_action(cell: str, rank: int) -> Action:
    found = _CSV_CELL.match(cell)
    if not found:
        raise ValueError(
            f"Rank {rank}: {cell!r} is no action of a schedule. A cell is stage, letter, micro-batch, such as 2F0; "
            f"the letters are {_LETTERS}."
        )
    return Action(found[2], int(found[1]), int(found[3]))


def _stages_seen(stages: Sequence[Sequence[int]]) -> list[int]:
    """The rank of each stage: the first whose line names it. ValueError for a stage that no line names."""
    rank_of: dict[int, int] = {}
    for rank, mine in enumerate(stages):
        for stage in mine:
            rank_of.setdefault(stage, rank)
    missing = next(stage for stage in range(len(rank_of) + 1) if stage not in rank_of)
    if missing < len(rank_of):
        raise ValueError(f"No rank runs stage {missing}, though stage {max(rank_of)} is there; name every stage.")
    return [rank_of[stage] for stage in sorted(rank_of)]


def _schedule(name: str, num_micro_batches: int | None, rank_of_stage: Sequence[int], rows: Sequence[Row]) -> Schedule:
    actions = (action for row in rows for cell in row if cell for action in actions_in(cell))
    most = max((action.micro_batch for action in actions), default=0)
    m = most + 1 if num_micro_batches is None else num_micro_batches
    return Schedule(name, m, tuple(rank_of_stage), tuple(rows))
