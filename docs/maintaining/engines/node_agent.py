"""One agent on a node: starts that node's ranks by the course's fork server, forwards requests, answers questions."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Sequence
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from course_lib.cluster.base import temp_dirs
from course_lib.cluster.base.backends import RankDevice
from course_lib.cluster.base.process_group import RankConfig
from course_lib.cluster.failures.rank_status import RankStatus
from course_lib.cluster.process import processes
from course_lib.cluster.process.caller_context import context_here
from course_lib.cluster.process.serialization import Payload

processes.PRELOADED[:] = ["two_node_preload"]
Wire = tuple[tuple[int, ...], Any]  # the sizes of a payload's pieces, and the pieces, or all of them in one


def to_wire(payload: Payload) -> Wire:
    """A payload as (sizes, pieces): what lies in a file of this node becomes bytes."""
    if payload.inline is not None:
        return payload.sizes, payload.inline
    with open(payload.path, "rb") as file:
        whole = file.read()
    os.unlink(payload.path)
    return payload.sizes, whole


def from_wire(wire: Wire, folder: Path, name: object) -> Payload:
    sizes, pieces = wire
    if isinstance(pieces, tuple):
        return Payload(sizes, pieces, None)
    path = folder / f"parcel-{name}"
    path.write_bytes(pieces)
    return Payload(sizes, None, str(path))


class NodeAgent:
    """``notify`` is called, from a thread, with ("answer", rank, answer) and ("died", rank, exit code)."""

    def __init__(self, ranks: Sequence[int], world_size: int, store: str, notify: Callable[[tuple], None]) -> None:
        from course_lib.cluster.api.supervisor import Supervisor  # within a kernel, this starts the fork server

        self.ranks, self.notify, self.calls, self.is_ending = ranks, notify, 0, False
        self.folder = temp_dirs.make()
        here = {"TWO_NODES_STORE": store, "GLOO_SOCKET_IFNAME": os.environ.get("TWO_NODES_IFNAME", "eth0")}
        self.processes = {}
        for local, rank in enumerate(ranks):
            env = here | {"LOCAL_RANK": str(local), "LOCAL_WORLD_SIZE": str(len(ranks))}
            config = RankConfig(rank, world_size, RankDevice("cpu", "gloo"), self.folder, 1, False, True, env)
            self.processes[rank] = processes.start(config, context_here())
        self.supervisor = Supervisor(self.processes, self.folder)
        self.asking = threading.Lock()
        threading.Thread(target=self._pump, daemon=True).start()

    def call(self, wire: Wire) -> None:
        self.calls += 1
        payload = from_wire(wire, self.folder, self.calls)
        for rank in self.ranks:
            with contextlib.suppress(OSError):  # it has died, and the pump says so
                self.processes[rank].work.send(("run", payload, None, None))

    def status(self) -> dict[int, RankStatus]:
        with self.asking:
            return self.supervisor.probe(self.ranks)

    def interrupt(self) -> None:
        for process in self.processes.values():
            process.interrupt()

    def reset(self, ranks: Sequence[int], generation: int = 1) -> None:
        for rank in set(ranks) & set(self.ranks):
            self.processes[rank].work.send(("reset", generation))

    def end(self) -> None:
        self.is_ending = True
        for process in self.processes.values():
            process.kill()
        for process in self.processes.values():
            process.wait(1.0)
        temp_dirs.remove(self.folder)

    def _pump(self) -> None:
        lines = {process.work: rank for rank, process in self.processes.items()}
        while lines:
            for line in wait(list(lines)):
                rank = lines[line]
                try:
                    kind, content, text, _leaks = line.recv()
                except (EOFError, OSError):
                    del lines[line]
                    if self.is_ending:
                        return
                    self.processes[rank].process.join(1.0)
                    self.notify(("died", rank, self.processes[rank].process.exitcode))
                    continue
                if kind == "done":
                    content = to_wire(content)
                self.notify(("answer", rank, (kind, content, text)))
