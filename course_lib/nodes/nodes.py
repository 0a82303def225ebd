"""``Nodes``: what a learner holds. Makes the nodes, starts jobs on them, counts what went between, leaves nothing.

::

    with Nodes(2, ranks_per_node=2, link=Link(bandwidth_bytes_per_s=25e6)) as nodes:
        print(nodes)                                # what was found here
        job = nodes.torchrun("train.py", "--steps", "4")
        job.wait(timeout_s=60)
        nodes.sent_bytes()                          # by node, as the kernel counted
"""

from __future__ import annotations

import itertools
import json
import math
import os
import pickle
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from course_lib.base.checks import known
from course_lib.cluster.failures.errors import RankInterrupted
from course_lib.cluster.process.defer_interrupt import deferred_interrupts
from course_lib.cluster.process.serialization import pack
from course_lib.layouts.link import Link
from course_lib.nodes import arguments
from course_lib.nodes.command import AgentCommand
from course_lib.nodes.job import NodesJob
from course_lib.nodes.ports import free_port
from course_lib.nodes.supervisor.capabilities import Capabilities, find_capabilities
from course_lib.nodes.supervisor.namespaces import shape_words
from course_lib.nodes.supervisor.supervisor_client import SupervisorClient

__all__ = ["Link", "Nodes"]

_BEFORE_A_JOB = "Interrupted while the nodes were made. None of them is left; run the cell again to make others."
_PORT = 29400  # torchrun's own habit; a node with a network of its own has all ports for itself


class Nodes:
    """``num_nodes`` nodes on this machine, each for one torchrun agent with ``ranks_per_node`` ranks on the CPU.

    ``link``: the rate and the delay between nodes. ``network``: "auto" takes namespaces where the system allows
    them, "loopback" does not ask for them. Raises ``ValueError`` for what cannot be.
    """

    def __init__(
        self, num_nodes: int = 2, *, ranks_per_node: int = 2, link: Link | None = None, network: str = "auto"
    ) -> None:
        arguments.check_nodes(num_nodes, ranks_per_node, link, network)
        self.num_nodes, self.ranks_per_node = num_nodes, ranks_per_node
        self.link = link or Link()
        self._numbers = itertools.count()
        self._job: NodesJob | None = None
        self._sent_before: list[int] | None = None
        try:
            self._start(network)
        except KeyboardInterrupt:
            raise RankInterrupted(_BEFORE_A_JOB) from None

    def _start(self, network: str) -> None:
        self.capabilities = find_capabilities(network)
        with deferred_interrupts():  # a supervisor that nobody knows would be closed by nobody
            self._supervisor = SupervisorClient()
        try:
            if self.capabilities.has_namespaces:
                self._make_networks()
        except BaseException:
            self._supervisor.close()
            raise

    @property
    def world_size(self) -> int:
        return self.num_nodes * self.ranks_per_node

    def torchrun(
        self,
        program: str | os.PathLike[str] | Callable[..., Any],
        *args: Any,
        max_restarts: int = 0,
        min_nodes: int | None = None,
        env: Mapping[str, str] | None = None,
        rendezvous: str = "node 0",
        rendezvous_timeout_s: float = 60.0,
    ) -> NodesJob:
        """Start an agent on every node, and return at once. ``program``: a file, or a function of a ``Rank``.

        A file gets ``args`` as its words, as from torchrun. A function is called as ``program(me, *args)`` with its
        process group made; what it returns is in ``job.results``. ``max_restarts``: how often an agent begins its
        ranks anew. ``min_nodes``: with fewer nodes than all the job goes on (``--nnodes MIN:MAX``).
        ``rendezvous``: which process holds the store by which agents meet, that of "node 0", as with torchrun's
        ``--rdzv-endpoint`` on a first node, or one "apart", that outlives any node.
        """
        self._check_free()
        arguments.check_restarts(max_restarts, self.num_nodes if min_nodes is None else min_nodes, self.num_nodes)
        arguments.check_seconds(rendezvous_timeout_s=rendezvous_timeout_s)
        known("rendezvous", rendezvous, ("node 0", "apart"))
        variables = arguments.check_env(env)
        is_function = callable(program)
        words = () if is_function else (str(arguments.program_file(program)), *map(str, args))
        folder = self._job_folder()
        plan = AgentCommand(
            capabilities=self.capabilities,
            num_nodes=self.num_nodes,
            min_nodes=min_nodes or self.num_nodes,
            ranks_per_node=self.ranks_per_node,
            max_restarts=max_restarts,
            port=_PORT if self.capabilities.has_namespaces else free_port(),
            name=folder.name,
            folder=folder,
            program=words,
            env=variables,
            rendezvous_s=rendezvous_timeout_s,
            host=0 if rendezvous == "node 0" else -1,
        )
        self._write_job(folder, (program, args) if is_function else None)
        self._sent_before = self._count()
        self._job = NodesJob(plan, self._supervisor, is_function=is_function)
        return self._job

    def sent_bytes(self) -> list[int] | None:
        """Bytes that each node has sent over its link since the last job began, by the kernel's count; headers too.

        None on loopback, where nodes share one interface with everything else on the machine.
        """
        now = self._count()
        if now is None:
            return None
        before = self._sent_before or [0] * self.num_nodes
        return [after - earlier for after, earlier in zip(now, before, strict=True)]

    def close(self) -> None:
        """End all that runs, and take the nodes down. Safe to repeat."""
        try:
            if self._job is not None and not self._supervisor.is_closed:
                self._job.keep()
                self._job.stop()
        finally:
            self._supervisor.close()

    def __enter__(self) -> Nodes:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __str__(self) -> str:
        nodes = f"{self.num_nodes} node{'s' * (self.num_nodes > 1)}"
        ranks = f"{self.ranks_per_node} rank{'s' * (self.ranks_per_node > 1)}"
        return f"{nodes} of {ranks}, {self.capabilities.in_words(self.num_nodes, self.link)}"

    __repr__ = __str__

    def _make_networks(self) -> None:
        found, rate = self.capabilities, self.link.bandwidth_bytes_per_s
        bytes_per_s = rate if rate < math.inf and found.has_tbf else None
        shapes = shape_words(self.link.latency_s, bytes_per_s, has_netem=found.has_netem)
        answer = self._supervisor.ask("open", num_nodes=self.num_nodes, shapes=shapes)
        if "refused" in answer:  # what worked in the trial does not now
            self._supervisor.close()
            self._supervisor = SupervisorClient()
            second = found.has_second_loopback
            self.capabilities = Capabilities(False, reason=answer["refused"], has_second_loopback=second)

    def _count(self) -> list[int] | None:
        return self._supervisor.ask("count")["sent"] or None

    def _check_free(self) -> None:
        if self._supervisor.is_closed:
            raise RuntimeError("these nodes were closed; make new Nodes")
        if self._job is not None and self._job.is_running:
            raise RuntimeError("a job runs on these nodes: job.wait() until it has ended, or job.stop() it")

    def _job_folder(self) -> Path:
        folder = self._supervisor.folder / f"job{next(self._numbers)}"
        for name in ("began", "failure", "result", "stacks", "stdout", "stderr"):
            (folder / name).mkdir(parents=True)
        return folder

    def _write_job(self, folder: Path, call: tuple[Any, Any] | None) -> None:
        shaped = self.link != Link() and not self.capabilities.has_namespaces
        link = (self.link.latency_s, self.link.bandwidth_bytes_per_s) if shaped else None
        paths = [os.path.abspath(path) for path in sys.path]
        spec = {"is_function": call is not None, "link": link, "sys_path": paths}
        (folder / "job.json").write_text(json.dumps(spec))
        if call is not None:
            name = getattr(call[0], "__name__", "the function")
            (folder / "function").write_bytes(pickle.dumps(pack(call, folder=folder, what=f"{name} or an argument")))
