"""What a job leaves to read: who began, what they printed, returned and raised. Kept when its folder goes."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from course_lib.cluster.process.serialization import NotSendable, Payload, unpack_all
from course_lib.nodes import failures, records
from course_lib.nodes.command import AgentCommand
from course_lib.nodes.failures import ProgramFault
from course_lib.nodes.launch import path_of
from course_lib.nodes.records import AttemptStart, RestartRound

__all__ = ["JobOutcome"]

_TEXTS = ("stdout", "stderr")


class JobOutcome:
    """Reads the folder of a job; after ``keep`` it answers from memory."""

    def __init__(self, plan: AgentCommand, *, is_function: bool) -> None:
        self._plan, self._is_function = plan, is_function
        self._results: list[Any] | None = None
        self._unreadable: str | None = None  # why results could not be made again here
        self._kept: dict[str, str] | None = None
        self._began: list[AttemptStart] = []
        self._faults: list[ProgramFault] = []

    @property
    def began(self) -> list[AttemptStart]:
        """Every process of a rank that has begun, in order of time."""
        return records.read(self._plan.folder) if self._kept is None else self._began

    @property
    def rounds(self) -> list[RestartRound]:
        """The meetings of ranks, in order."""
        return records.rounds(self.began)

    @property
    def faults(self) -> list[ProgramFault]:
        """Ranks that died or raised, in order of time."""
        if self._kept is not None:
            return self._faults
        texts = {node: self.agent_text(node) for node in range(self._plan.num_nodes)}
        return failures.faults(self._plan.folder, self.began, texts)

    def agent_text(self, node: int) -> str:
        """What the agents of a node wrote."""
        return self._read(self._plan.node_folder(node) / "agent.log")

    def rank_text(self, rank: int) -> str:
        """What a rank printed, all of its processes one after the other."""
        return "".join(self._text_of(one) for one in self.began if one.rank == rank)

    def printed(self, rank: int, marks: Mapping[str, int]) -> str:
        """What a rank wrote to its standard output, without what ``marks`` (of ``lengths``) has of it already."""
        paths = [self._path_of(one, "stdout") for one in self.began if one.rank == rank]
        return "".join(self._read(path)[marks.get(str(path), 0) :] for path in paths)

    def lengths(self) -> dict[str, int]:
        """How much each process of a rank has written to its standard output so far, by the file."""
        paths = [self._path_of(one, "stdout") for one in self.began]
        return {str(path): len(self._read(path)) for path in paths}

    def results(self) -> list[Any]:
        """By global rank of the last meeting: what each returned, or printed where the program is a file.

        None for a rank that returned nothing, or did not come to its end.
        """
        if self._unreadable is not None:
            raise NotSendable(self._unreadable)
        if self._results is None:
            last = self.rounds[-1].ranks if self.rounds else ()
            self._results = self._returned(last) if self._is_function else self._all_printed(last)
        return self._results

    def location(self, one: AttemptStart) -> str:
        """Where a rank stood when it was asked for its stacks."""
        return failures.location(self._plan.folder, one)

    def keep(self) -> None:
        """Read everything now: the folder is about to go."""
        if self._kept is not None:
            return
        began, faults = self.began, self.faults
        with contextlib.suppress(NotSendable):  # told to the one who asks for them
            self.results()
        paths = [self._plan.node_folder(node) / "agent.log" for node in range(self._plan.num_nodes)]
        paths += [self._path_of(one, name) for one in began for name in _TEXTS]
        kept = {str(path): self._read(path) for path in paths}
        self._kept, self._began, self._faults = kept, began, faults

    def _text_of(self, one: AttemptStart, names: tuple[str, ...] = _TEXTS) -> str:
        return "".join(self._read(self._path_of(one, name)) for name in names)

    def _path_of(self, one: AttemptStart, name: str) -> Path:
        return path_of(self._plan.folder, name, one)

    def _returned(self, last: Sequence[AttemptStart]) -> list[Any]:
        payloads: dict[int, Payload] = {}
        for one in last:
            with contextlib.suppress(FileNotFoundError):
                payloads[one.rank] = pickle.loads(path_of(self._plan.folder, "result", one).read_bytes())
        try:
            results = unpack_all(payloads)
        except NotSendable as error:
            self._unreadable = str(error)
            raise
        return [results.get(one.rank) for one in last]

    def _all_printed(self, last: Sequence[AttemptStart]) -> list[str]:
        return [self._text_of(one, ("stdout",)) for one in last]

    def _read(self, path: Path) -> str:
        if self._kept is not None:
            return self._kept.get(str(path), "")
        with contextlib.suppress(OSError):
            return path.read_text(errors="replace")
        return ""
