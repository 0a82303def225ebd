"""What the machine itself asks for: the floors beside which ``course bench launch`` stands.

A process that has imported torch, and has no ranks, forks children. They join a group and leave, or answer words that
come by a pipe, or do nothing. Nobody who starts ranks by forks can be much faster, or hold much less, on this machine.
It is a process of its own, since one with threads is not to be forked: ``floors_of(4, 5)`` starts it.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

__all__ = ["Floors", "floors_of", "has_forks"]

_LIMIT_S = 300


@dataclass(frozen=True)
class Floors:
    """``joined_s``: seconds in which n forks joined a group, all-reduced a number and left. ``round_trips_ms``:
    milliseconds in which n children each got a word by a pipe and answered. ``idle_mb``: what each of n idle forks
    holds, in MB of its proportional share; empty where the system does not say.
    """

    joined_s: tuple[float, ...]
    round_trips_ms: tuple[float, ...]
    idle_mb: tuple[float, ...]


def has_forks() -> bool:
    """Whether this system has ``fork``: Windows has not, and on macOS one with torch may crash."""
    return hasattr(os, "fork") and sys.platform != "darwin"


def floors_of(num_children: int, rounds: int) -> Floors:
    """The floors for ``num_children`` ranks: ``rounds`` starts, and 40 times as many round trips."""
    command = [sys.executable, "-m", __name__, str(num_children), str(rounds)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=_LIMIT_S)
    told = json.loads(done.stdout)
    return Floors(*(tuple(told[name]) for name in ("joined_s", "round_trips_ms", "idle_mb")))


def _measured(num_children: int, rounds: int) -> dict[str, list[float]]:
    from course_lib.authoring.bench.other_launchers import all_reduce_one

    context = multiprocessing.get_context("fork")
    joined_s = []
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        for number in range(rounds):
            began_s = time.perf_counter()
            job = [(rank, num_children, str(Path(folder, f"store{number}"))) for rank in range(num_children)]
            children = [context.Process(target=all_reduce_one, args=given) for given in job]
            for child in children:
                child.start()
            for child in children:
                child.join(_LIMIT_S)
            if any(child.exitcode for child in children):
                raise RuntimeError(f"a fork of the floor ended with {[child.exitcode for child in children]}")
            joined_s.append(time.perf_counter() - began_s)
    round_trips_ms, idle_mb = _with_children_that_answer(num_children, 40 * rounds)
    return {"joined_s": joined_s, "round_trips_ms": round_trips_ms, "idle_mb": idle_mb}


def _with_children_that_answer(num_children: int, calls: int) -> tuple[list[float], list[float]]:
    """Milliseconds of each round trip to all children, and the share of memory of each child after them."""
    context = multiprocessing.get_context("fork")
    pipes = [context.Pipe() for _ in range(num_children)]
    children = [context.Process(target=_answer, args=(there,), daemon=True) for _, there in pipes]
    for child in children:
        child.start()
    times_ms = []
    for number in range(calls):
        began_s = time.perf_counter()
        for here, _ in pipes:
            here.send(number)
        for here, _ in pipes:
            here.recv()
        times_ms.append(1e3 * (time.perf_counter() - began_s))
    idle_mb = _shares_mb([child.pid for child in children if child.pid])
    for here, _ in pipes:
        here.send(None)
    for child in children:
        child.join(_LIMIT_S)
    return times_ms, idle_mb


def _answer(there: Connection) -> None:
    while (word := there.recv()) is not None:
        there.send(word)


def _shares_mb(pids: list[int]) -> list[float]:
    import psutil

    if not psutil.LINUX:  # only Linux says how pages are shared
        return []
    return [psutil.Process(pid).memory_full_info().pss / 1e6 for pid in pids]


if __name__ == "__main__":
    import torch.distributed  # noqa: F401  what every rank has imported, before the forks

    print(json.dumps(_measured(int(sys.argv[1]), int(sys.argv[2]))))
