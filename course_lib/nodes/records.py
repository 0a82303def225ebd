"""Who began where: a small file that each rank writes when it begins, and what is read from all of them."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

__all__ = ["AttemptStart", "RestartRound", "note", "read", "rounds"]


@dataclass(frozen=True)
class AttemptStart:
    """One process of a rank. The same rank has another one after each restart."""

    time: float  # by time.time()
    rank: int
    world_size: int
    local_rank: int
    group_rank: int  # the number that torchrun gave the node at this rendezvous
    node: int  # the node's own number
    restart_count: int  # of its agent
    pid: int
    rendezvous: str  # the same for all ranks that met at one rendezvous


@dataclass(frozen=True)
class RestartRound:
    """The ranks that met at one rendezvous, in their order."""

    ranks: tuple[AttemptStart, ...]

    @property
    def is_complete(self) -> bool:
        return len(self.ranks) == self.ranks[0].world_size

    @property
    def time(self) -> float:
        return max(one.time for one in self.ranks)

    @property
    def nodes(self) -> tuple[int, ...]:
        return tuple(sorted({one.node for one in self.ranks}))

    @property
    def restart_counts(self) -> tuple[int, ...]:
        """By node: how often its agent has begun its ranks anew after a failure."""
        counts = {one.node: one.restart_count for one in self.ranks}
        return tuple(counts[node] for node in self.nodes)


def note(folder: Path, env: Mapping[str, str]) -> AttemptStart:
    """On a rank: write down who begins, as torchrun says it."""
    began = AttemptStart(
        time=time.time(),
        rank=int(env["RANK"]),
        world_size=int(env["WORLD_SIZE"]),
        local_rank=int(env["LOCAL_RANK"]),
        group_rank=int(env["GROUP_RANK"]),
        node=int(env["COURSE_NODE"]),
        restart_count=int(env.get("TORCHELASTIC_RESTART_COUNT", "0")),
        pid=os.getpid(),
        rendezvous=f"{env['MASTER_ADDR']}:{env['MASTER_PORT']}/{env['WORLD_SIZE']}",
    )
    began_folder = folder / "began"
    draft = began_folder / f".{began.pid}"
    draft.write_text(json.dumps(asdict(began)))
    draft.rename(began_folder / f"{began.time:.6f}-{began.node}-{began.local_rank}.json")
    return began


def read(folder: Path) -> list[AttemptStart]:
    """All that have begun so far, in order of time."""
    return [AttemptStart(**json.loads(path.read_text())) for path in sorted((folder / "began").glob("[!.]*.json"))]


def rounds(began: Sequence[AttemptStart]) -> list[RestartRound]:
    """The meetings, in order. Of two processes of one rank at one meeting the later counts."""
    by_rendezvous: dict[str, dict[int, AttemptStart]] = {}
    for one in began:
        by_rendezvous.setdefault(one.rendezvous, {})[one.rank] = one
    made = [RestartRound(tuple(ranks[rank] for rank in sorted(ranks))) for ranks in by_rendezvous.values()]
    return sorted(made, key=lambda one: min(rank.time for rank in one.ranks))
