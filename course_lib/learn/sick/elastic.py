"""What a job leaves behind that is started again and again: who saw which sample, in which step of which start.

Each rank keeps a diary, a file to which it adds a line in every step. Afterwards the files of all ranks, the dead ones'
too, say what was done twice, and whether an epoch is whole. All ranks must see the folder. Lesson 12.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from course_lib.base.checks import at_least
from course_lib.cluster.base.rank import Rank

__all__ = [
    "Diary",
    "Note",
    "Start",
    "dealt",
    "kept",
    "next_share",
    "read_diaries",
    "starts_of",
    "wait_for",
    "wait_for_files",
]

_LOOKS_EVERY_S = 0.05  # each look reads all diaries


@dataclass(frozen=True)
class Note:
    """One step of one rank. ``start`` counts from 0 how often the job's ranks have begun; ``time_s`` is the system's
    monotonic clock, the same for all processes of one machine."""

    start: int
    rank: int
    world_size: int
    process: int
    epoch: int
    step: int
    samples: tuple[int, ...]
    time_s: float


class Diary:
    """A rank's file of notes. Every rank of a start makes one at the same time: they agree on the start's number."""

    def __init__(self, me: Rank, folder: str | Path) -> None:
        import torch
        import torch.distributed as dist

        self._me, folder = me, Path(folder)
        number = torch.zeros(1, dtype=torch.int64, device=me.device)
        if me.rank == 0:
            number += len(list(folder.glob("start_*")))
            (folder / f"start_{number.item()}").touch()
        dist.broadcast(number, src=0)
        self.start = int(number.item())
        self._file = (folder / f"diary_{self.start}_{me.rank}.jsonl").open("a", encoding="utf-8")

    def note(self, state: Mapping[str, Any], samples: Sequence[int]) -> None:
        """The step that ``state`` has reached, and what this rank saw in it; a line is written whole."""
        me = self._me
        note = Note(
            self.start, me.rank, me.world_size, os.getpid(), state["epoch"], state["step"], tuple(samples),
            time.monotonic(),
        )  # fmt: skip
        self._file.write(json.dumps(asdict(note)) + "\n")
        self._file.flush()


def read_diaries(folder: str | Path) -> list[Note]:
    """All notes in a folder, in the order of time. A last line that was cut off by a kill is left out."""
    notes = []
    for path in Path(folder).glob("diary_*.jsonl"):
        for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
            if line.endswith("\n"):
                entry: dict[str, Any] = json.loads(line)
                entry["samples"] = tuple(entry["samples"])
                notes.append(Note(**entry))
    return sorted(notes, key=lambda note: note.time_s)


@dataclass(frozen=True)
class Start:
    """What one start of the ranks did: steps ``first`` to ``last``, those that every rank of it has noted."""

    number: int
    processes: tuple[int, ...]  # in the order of ranks
    first: int
    last: int
    first_s: float
    last_s: float

    @property
    def world_size(self) -> int:
        return len(self.processes)


def starts_of(notes: Iterable[Note]) -> list[Start]:
    """The starts in order; one in which no step was done by all is left out."""
    by_number: dict[int, list[Note]] = {}
    for note in notes:
        by_number.setdefault(note.start, []).append(note)
    starts = []
    for number, own in sorted(by_number.items()):
        ranks = {note.rank: note.process for note in own}
        if len(ranks) < own[0].world_size:
            continue
        by_step = Counter(note.step for note in own)
        done = sorted(step for step, count in by_step.items() if count == len(ranks))
        if done:
            times = [note.time_s for note in own if note.step in (done[0], done[-1])]
            processes = tuple(ranks[rank] for rank in sorted(ranks))
            starts.append(Start(number, processes, done[0], done[-1], min(times), max(times)))
    return starts


def kept(notes: Iterable[Note]) -> list[Note]:
    """The notes of steps that are part of the weights in the end: of a step that was done twice, the last time."""
    notes = list(notes)
    last: dict[int, int] = {}
    for note in notes:
        last[note.step] = max(note.start, last.get(note.step, 0))
    return [note for note in notes if note.start == last[note.step]]


def dealt(notes: Iterable[Note], num_samples: int) -> dict[int, tuple[int, int]]:
    """Of each epoch in the notes: how many samples nobody saw, and how many were seen more than once."""
    at_least(1, num_samples=num_samples)
    seen: dict[int, Counter[int]] = {}
    for note in notes:
        seen.setdefault(note.epoch, Counter()).update(note.samples)
    return {
        epoch: (num_samples - len(counts), sum(count > 1 for count in counts.values()))
        for epoch, counts in sorted(seen.items())
    }


def next_share(me: Rank, order: Sequence[int], drawn: int, batch_size: int) -> Sequence[int]:
    """This rank's part of the next global batch, after ``drawn`` samples of the epoch on all ranks together."""
    at_least(1, batch_size=batch_size)
    return order[drawn : drawn + batch_size][me.rank :: me.world_size]


def wait_for(
    folder: str | Path,
    *,
    world_size: int,
    steps: int = 1,
    after: int = -1,
    job: Any = None,
    timeout_s: float = 90.0,
) -> int:
    """Wait until a start later than ``after``, of so many ranks, has done so many steps; its number.

    ``job``, of ``Nodes.torchrun``: where it ends before that, its own failure is raised. Raises TimeoutError, with what
    there was, where no start has come so far after ``timeout_s`` seconds.
    """
    at_least(1, world_size=world_size, steps=steps)
    until_s = time.monotonic() + timeout_s
    while True:
        is_over = job is not None and not job.is_running
        starts = starts_of(read_diaries(folder))
        for start in starts:
            done = start.last - start.first + 1
            if start.number > after and start.world_size == world_size and done >= steps:
                return start.number
        if is_over:
            job.wait()
        if is_over or time.monotonic() > until_s:
            found = [f"start {s.number}: {s.world_size} ranks, steps {s.first} to {s.last}" for s in starts]
            when = "before the job was over" if is_over else f"in {timeout_s:g} s"
            raise TimeoutError(
                f"no start after number {after} has done {steps} steps on {world_size} ranks {when}; there is "
                f"{', '.join(found) or 'none'}"
            )
        time.sleep(_LOOKS_EVERY_S)


def wait_for_files(folder: str | Path, pattern: str, count: int, *, timeout_s: float = 20.0) -> bool:
    """Wait until ``count`` files in a folder match ``pattern``, such as "rank_*"; False where the time was up before.

    Raises ValueError for a folder that is not there.
    """
    at_least(1, count=count)
    folder = Path(folder)
    if not folder.is_dir():
        raise ValueError(f"folder is {str(folder)!r}, and there is no such folder; make it first")
    until_s = time.monotonic() + timeout_s
    while len(list(folder.glob(pattern))) < count:
        if time.monotonic() > until_s:
            return False
        time.sleep(_LOOKS_EVERY_S)
    return True
