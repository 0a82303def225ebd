"""One job on the nodes: wait for it, kill parts of it, start a node again, and read what came of it."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable
from typing import Any

from course_lib.nodes import arguments, events, reports
from course_lib.nodes.command import AgentCommand
from course_lib.nodes.events import Event
from course_lib.nodes.failures import JobFailed, JobTimeout, ProgramFault
from course_lib.nodes.outcome import JobOutcome
from course_lib.nodes.records import AttemptStart
from course_lib.nodes.supervisor.supervisor_client import SupervisorClient, SupervisorGone

__all__ = ["NodesJob"]

_POLL_S = 0.1
_BEGIN_S = 60.0  # that a rank may take to begin, before it is killed
_STACKS_S = 1.0


class NodesJob:
    """Made by ``Nodes.torchrun``. Its agents run until they end, are killed, or the nodes are closed."""

    def __init__(self, plan: AgentCommand, supervisor: SupervisorClient, *, is_function: bool) -> None:
        self.plan, self._supervisor = plan, supervisor
        self._outcome = JobOutcome(plan, is_function=is_function)
        self._began_at = time.time()
        self._ours: list[Event] = []  # what we did, and what the supervisor said
        self._running: set[int] = set()
        self._codes: dict[int, int] = {}  # by node, of agents that have ended
        self._killed: list[int] = []  # nodes, and not started again
        self._killed_pids: set[int] = set()  # processes of ranks that we killed
        self._marks: dict[str, int] = {}  # how much each rank had printed when it was last killed, or a node begun
        self._is_stopped = False
        if plan.host == -1:
            self._begin(-1)
        for node in range(plan.num_nodes):
            self._begin(node)
            self._note("started", f"the agent of node {node} started", node)

    # -- what a learner does -----------------------------------------------------------------------------------------

    def wait(self, timeout_s: float = 120.0) -> NodesJob:
        """Until the job has ended. Raises ``JobFailed``; at ``timeout_s`` ends all of it and raises ``JobTimeout``."""
        arguments.check_seconds(timeout_s=timeout_s)
        self._take_news_until(lambda: not self._running, timeout_s)
        if self.has_failed:
            raise JobFailed(self._why(), self.faults)
        return self

    def wait_for(self, text: str, *, rank: int, timeout_s: float = 60.0) -> NodesJob:
        """Until a rank has printed ``text``, since the last kill or start of a node.

        Raises ``JobFailed`` where the job ends before, and ``JobTimeout``.
        """
        arguments.check_seconds(timeout_s=timeout_s)
        self._check_rank(rank)

        def printed() -> bool:
            return text in self._outcome.printed(rank, self._marks)

        self._take_news_until(lambda: printed() or not self._running, timeout_s)
        if not printed():
            why = self._why() if self.has_failed else "The job had come to its end."
            raise JobFailed(f"rank {rank} never printed {text!r}. {why}", self.faults)
        return self

    def kill(self, *, rank: int | None = None, node: int | None = None) -> None:
        """SIGKILL to a rank's process, or to a node's agent and all of its ranks: nobody can catch it or prepare."""
        if (rank is None) == (node is None):
            raise ValueError(f"kill(rank={rank!r}, node={node!r}) must name either a rank or a node")
        if rank is not None:
            self._kill_rank(self._check_rank(rank))
            return
        assert node is not None
        self._check_node(node)
        self._take_news(0.0)
        if node not in self._running or node in self._killed:
            raise ValueError(f"node {node} has no agent that runs; there is nothing to kill")
        self._marks = self._outcome.lengths()
        self._killed.append(node)
        self._note("killed", f"node {node} was killed, its agent and its ranks", node)
        self._supervisor.ask("kill_node", node=node)

    def start_node(self, node: int) -> None:
        """Begin the agent of a killed node again; it joins the rendezvous, and all ranks begin anew."""
        self._check_node(node)
        self._take_news(0.0)
        if node in self._running and node not in self._killed:
            raise ValueError(f"node {node} runs already; job.kill(node={node}) would end it")
        self._take_news_until(lambda: node not in self._running, _BEGIN_S)
        if not self._running:
            raise ValueError("the job has ended; start another with nodes.torchrun(...)")
        self._marks = self._outcome.lengths()
        self._codes.pop(node, None)
        self._killed = [one for one in self._killed if one != node]
        self._begin(node)
        self._note("started", f"the agent of node {node} started again", node)

    def stop(self) -> None:
        """End the job now, with all that it has started. Safe to repeat."""
        if self._running and not self._supervisor.is_closed:
            self._is_stopped = True
            with contextlib.suppress(SupervisorGone):  # who has taken all of it along
                self._supervisor.ask("stop")
        self._running.clear()

    def command(self, node: int = 0) -> str:
        """What one would type on a node; where logs go, and what stands around the program here, are left out."""
        return self.plan.in_words(self._check_node(node))

    # -- what a learner reads ----------------------------------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        """Whether an agent still runs."""
        self._take_news(0.0)
        return bool(self._running)

    @property
    def has_failed(self) -> bool:
        """Whether an agent ended with an error and nobody had killed it, or none came to its end."""
        ended = [code for node, code in self._codes.items() if node not in (*self._killed, *self._late)]
        return not self._running and (self._is_stopped or not ended or any(ended))

    @property
    def _late(self) -> list[int]:
        """Nodes that came to a rendezvous which was over, since the others had finished: no failure of the job."""
        if 0 not in self._codes.values():
            return []
        failed = [node for node, code in self._codes.items() if code and node not in self._killed]
        return [node for node in failed if "RendezvousClosedError" in self._outcome.agent_text(node)]

    @property
    def results(self) -> list[Any]:
        """What each rank returned, in the order of global ranks; of a program that is a file, what it printed.

        After a failure None stands for ranks that did not come to their end.
        """
        if self.is_running:
            raise RuntimeError("the job still runs: job.wait() first")
        return self._outcome.results()

    def log(self, *, rank: int | None = None, node: int | None = None) -> str:
        """What a rank printed, all of its processes one after the other; or what the agent of a node wrote."""
        if (rank is None) == (node is None):
            raise ValueError(f"log(rank={rank!r}, node={node!r}) must name either a rank or a node")
        if node is not None:
            return self._outcome.agent_text(self._check_node(node))
        return self._outcome.rank_text(self._check_rank(rank))

    @property
    def events(self) -> list[Event]:
        """What happened, in order, with seconds since the job began."""
        self._take_news(0.0)
        met = events.of_rounds(self._outcome.rounds, self._began_at)
        others = [fault for fault in self.faults if fault.pid not in self._killed_pids]
        return events.in_order(self._ours, met, events.of_faults(others, self._began_at))

    @property
    def faults(self) -> list[ProgramFault]:
        """Ranks that died or raised, in order of time."""
        return self._outcome.faults

    def keep(self) -> None:
        """Read what there is into memory: the nodes are about to go, with their folder."""
        with contextlib.suppress(Exception):
            self._take_news(0.0)
        self._outcome.keep()

    def __repr__(self) -> str:
        return "\n".join(map(str, self.events))

    # -- machinery ---------------------------------------------------------------------------------------------------

    def _begin(self, node: int) -> None:
        plan = self.plan
        folder = plan.node_folder(node)
        folder.mkdir(exist_ok=True)
        answer = self._supervisor.ask(
            "start",
            node=node,
            argv=plan.argv(node),
            env=plan.environment(node),
            cwd=plan.working_folder,
            log=str(folder / "agent.log"),
        )
        if "refused" in answer:
            self.stop()
            raise JobFailed(f"The agent of node {node} could not be started: {answer['refused']}")
        if node >= 0:
            self._running.add(node)

    def _kill_rank(self, rank: int) -> None:
        def latest() -> AttemptStart | None:
            rounds = self._outcome.rounds
            ranks = rounds[-1].ranks if rounds and rounds[-1].is_complete else ()
            return next((one for one in ranks if one.rank == rank), None)

        self._take_news_until(lambda: latest() is not None or not self._running, _BEGIN_S)
        target = latest()
        self._marks = self._outcome.lengths()
        at = time.time()
        hit = target and self._supervisor.ask("signal", pids=[target.pid], number=int(signal.SIGKILL))["hit"]
        if not (target and hit):
            raise ValueError(f"rank {rank} has no process that runs; there is nothing to kill")
        self._killed_pids.add(target.pid)
        self._note("killed", f"rank {rank} (node {target.node}) was killed", target.node, (rank,), at)

    def _take_news(self, timeout_s: float) -> None:
        """Hear what the supervisor says."""
        if self._supervisor.is_closed or not self._running:
            return
        for news in self._supervisor.news(timeout_s):
            node, code = news["node"], news["code"]
            if node not in self._running:
                continue
            self._running.discard(node)
            self._codes[node] = code
            if node not in self._killed:
                end = "finished" if code == 0 else f"left with exit code {code}"
                end += " (it came when the others had finished)" if node in self._late else ""
                what = "finished" if code == 0 else "ended"
                self._note(what, f"the agent of node {node} {end}", node, at=news["time"])
            if not self._running:
                self._supervisor.ask("stop")  # a store that stands apart, and whatever else is left

    def _take_news_until(self, happened: Callable[[], bool], timeout_s: float) -> None:
        """Listen until something has happened. At the limit, or interrupted, end the job; at the limit raise."""
        until = time.monotonic() + timeout_s
        try:
            while not happened():
                left_s = until - time.monotonic()
                if left_s <= 0:
                    raise JobTimeout(self._hang_report(timeout_s), self.faults)
                self._take_news(min(_POLL_S, left_s))
        except BaseException:
            self.stop()
            raise

    def _hang_report(self, timeout_s: float) -> str:
        rounds = self._outcome.rounds
        if rounds and hasattr(signal, "SIGUSR1"):
            pids = [one.pid for one in rounds[-1].ranks]
            self._supervisor.ask("signal", pids=pids, number=int(signal.SIGUSR1))
            until = time.monotonic() + _STACKS_S
            while time.monotonic() < until and not all(map(self._outcome.location, rounds[-1].ranks)):
                time.sleep(0.02)
        num_ranks = self.plan.num_nodes * self.plan.ranks_per_node
        return reports.not_ended(self._outcome, timeout_s, num_ranks=num_ranks)

    def _why(self) -> str:
        return reports.failed(self._outcome, killed=self._killed, codes=self._codes, host=self.plan.host)

    def _note(self, what: str, text: str, node: int, ranks: tuple[int, ...] = (), at: float | None = None) -> None:
        self._ours.append(Event((at or time.time()) - self._began_at, what, text, node, ranks))

    def _check_rank(self, rank: Any) -> int:
        return arguments.check_index("rank", rank, self.plan.num_nodes * self.plan.ranks_per_node)

    def _check_node(self, node: Any) -> int:
        return arguments.check_index("node", node, self.plan.num_nodes)
