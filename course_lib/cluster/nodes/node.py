"""A node, as a notebook holds it: the line to its agent, by ssh or to a process here, and the ranks that are there."""

from __future__ import annotations

import contextlib
import math
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from course_lib.cluster.failures.cpu_deadline import Reading
from course_lib.cluster.nodes.agent import RankEvent
from course_lib.cluster.nodes.agent_process import EVENT
from course_lib.cluster.nodes.errors import NodeLost
from course_lib.cluster.nodes.facts import NodeFacts
from course_lib.cluster.nodes.line import Line
from course_lib.cluster.nodes.meeting.table import MeetingTable
from course_lib.cluster.nodes.node_clock import ClockReading, NodeClock, clocks_here
from course_lib.cluster.nodes.remote_rank import RemoteRank
from course_lib.cluster.process.defer_interrupt import deferred_interrupts

__all__ = ["RemoteNode"]

_ANSWER_S = 30.0  # for a request that no rank has to answer, from an agent that says nothing else meanwhile
_LONGEST_ANSWER_S = 300.0  # from one that does: a rank starts there, and imports torch from a slow disk
_LIFE_S = 10.0  # until it is asked again whether it lives
_GLANCE_S = 0.5  # for what is of use only now
_GOODBYE_S = 10.0  # for ssh, or an agent here, to end when it is asked to
_FAREWELL_S = 5.0  # for an agent to end its ranks and remove their folders
_FIRST_ANSWER_S = 90.0  # ssh connects, Python starts there and imports torch
_NUM_CLOCK_READINGS = 5
_LONGEST_WORD = 300  # characters of what ssh has said last


@dataclass(frozen=True)
class _Answered:
    value: Any
    arrived: ClockReading  # what our clocks showed then


class RemoteNode:
    """Node ``number``, reached by the command ``words``, which starts its agent; ``host`` is its name until it answers.

    One thread takes in what the agent says, one sends it what there is to say, and one says now and then that the
    notebook lives.
    """

    def __init__(self, number: int, host: str, words: Sequence[str], env: Mapping[str, str] | None = None) -> None:
        self.number, self.host = number, host
        self.facts: NodeFacts | None = None
        self.why_lost = ""
        self.clock = NodeClock()
        self._is_lost, self._gone = False, threading.Event()
        self._has_answered = False
        self._threads: dict[tuple[str, tuple[int, ...]], Reading] = {}
        self._ranks: dict[tuple[str, int], RemoteRank] = {}
        self._tables: dict[str, MeetingTable] = {}  # by which the ranks of a team find each other
        self._answers: dict[int, Future[_Answered]] = {}
        self._num_sent = EVENT
        self._lock = threading.RLock()
        self._words = tempfile.TemporaryFile()  # noqa: SIM115 - what ssh says; open as long as the node
        self._process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._words,
            env=env,
            start_new_session=True,  # an interrupt is for the notebook
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        outgoing = Connection(os.dup(self._process.stdin.fileno()), readable=False)
        self._line = Line(Connection(os.dup(self._process.stdout.fileno()), writable=False), outgoing)
        self._process.stdin.close()
        self._process.stdout.close()
        for life in (self._listen, self._line.speak, self._say_that_we_live):
            threading.Thread(target=life, daemon=True, name=f"node-{number}").start()

    def __str__(self) -> str:
        return f"node {self.number} ({self.facts.host if self.facts else self.host})"

    @property
    def is_lost(self) -> bool:
        """Whether it has gone, with all its ranks."""
        return self._is_lost

    def meet(self, folder: str) -> NodeFacts:
        """Learn what it is, and how its clock stands to ours: by the reading that took the shortest way."""
        self.facts = self.ask("hello", folder, timeout_s=_FIRST_ANSWER_S)
        for _ in range(_NUM_CLOCK_READINGS):
            self._compare_clocks()
        return self.facts

    def begin_look(self, team: str) -> Callable[[], None]:
        """Ask which ranks of a team have died; what is returned waits for the answer, and takes it in."""
        asked, answer = clocks_here(), None
        with contextlib.suppress(NodeLost):
            answer = self._send("look", (team,))

        def end() -> None:
            with contextlib.suppress(NodeLost, RuntimeError):
                if answer is not None:
                    answered = self._answer(answer, _ANSWER_S)
                    theirs, died = answered.value
                    self.clock.take(asked, theirs, answered.arrived)
                    for rank, exit_code in died.items():
                        self._take_in(RankEvent(team, rank, "died", exit_code))

        return end

    def threads(self, team: str, ranks: Sequence[int]) -> Reading:
        """How long the threads of ranks there ran and stood in line for a core; as last heard where none answers."""
        key = team, tuple(ranks)
        with contextlib.suppress(NodeLost, RuntimeError, TimeoutError):
            found = self._send("threads", key).result(_GLANCE_S).value
            first = self.number << 32  # numbers of processes on several machines may be alike
            self._threads[key] = {(first + pid, thread): times for (pid, thread), times in found.items()}
        return self._threads.get(key, {})

    def open(self, team: str, table: MeetingTable) -> None:
        """Make room for a new team; its ranks ask ``table`` for each other."""
        self._tables[team] = table
        self.ask("open", team)

    def new_rank(self, team: str, rank: int) -> RemoteRank:
        """The handle on a rank that is about to be started here."""
        with self._lock:
            found = self._ranks[team, rank] = RemoteRank(self, team, rank)
        return found

    def forget(self, team: str, rank: int) -> None:
        with self._lock:
            self._ranks.pop((team, rank), None)

    def ask(self, method: str, *args: Any, timeout_s: float = _ANSWER_S) -> Any:
        """Have the agent do something, and wait for the answer: longer, where it says other things meanwhile.

        Raises:
            NodeLost: It does not answer.
            RuntimeError: It could not, with its own words.
        """
        return self._answer(self._send(method, args), timeout_s).value

    def _answer(
        self, answer: Future[_Answered], timeout_s: float, *, longest_s: float = _LONGEST_ANSWER_S
    ) -> _Answered:
        began_s = time.monotonic()
        while True:
            try:
                return answer.result(timeout_s)
            except TimeoutError:
                now_s = time.monotonic()
                if now_s - self._line.moved_s < timeout_s and now_s - began_s < longest_s:
                    continue
                self.lose(f"no answer within {now_s - began_s:.0f} s")
                raise NodeLost(f"{self} did not answer within {now_s - began_s:.0f} s{self._last_words()}") from None

    def post(self, method: str, *args: Any) -> None:
        """Have the agent do something, and do not wait. A node that cannot is lost, and its ranks with it.

        Raises:
            NodeLost: It has gone.
        """
        self._send(method, args).add_done_callback(self._seen_through)

    def lose(self, why: str) -> None:
        """From here on it has gone: each of its ranks has died, and nobody waits for an answer any more."""
        if self._let_go(why):
            with contextlib.suppress(OSError):
                self._process.terminate()

    def _let_go(self, why: str) -> bool:
        """Close the line; whether it was open."""
        with self._lock:
            if self._is_lost:
                return False
            self._is_lost, self.why_lost = True, why
            self._gone.set()
            self._line.end()
            ranks, answers = list(self._ranks.values()), list(self._answers.values())
            self._answers.clear()
        for answer in answers:
            answer.set_exception(NodeLost(f"{self} does not answer: {why}"))
        for rank in ranks:
            rank.die(None)
        return True

    def end(self, team: str) -> None:
        """End what is left of a team there."""
        self._tables.pop(team, None)
        with contextlib.suppress(NodeLost, RuntimeError):
            self.ask("end", team)
        self._threads = {key: reading for key, reading in self._threads.items() if key[0] != team}

    def hang_up(self) -> None:
        """Close the line, and wait for nobody; the agent ends, and all its ranks. Safe to repeat."""
        self._let_go("it was closed")

    def close(self) -> None:
        """Close the line, and wait a while until the agent has ended, and all its ranks. Safe to repeat.

        srun, terminated, kills what it runs at once, and a killed agent leaves its folders behind.
        """
        self.hang_up()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_FAREWELL_S)
        with contextlib.suppress(OSError):
            self._process.terminate()

    def _send(self, method: str, args: tuple[Any, ...]) -> Future[_Answered]:
        answer: Future[_Answered] = Future()
        with deferred_interrupts(), self._lock:
            if self._is_lost:
                raise NodeLost(self._lost_in_words())
            self._num_sent += 1
            self._line.put((self._num_sent, method, args))
            self._answers[self._num_sent] = answer
        return answer

    def _lost_in_words(self) -> str:
        if not self._has_answered:
            return f"{self} does not answer: {self.why_lost}"
        return (
            f"{self} has gone: {self.why_lost}\nA new Cluster(n) takes the nodes that answer; so does "
            "shared_cluster(n), and a %%ranks cell, when you run it again."
        )

    def _seen_through(self, sent: Future[_Answered]) -> None:
        error = sent.exception()
        if error is not None:
            self.lose(str(error))

    def _listen(self) -> None:
        """The life of the thread that takes in what the agent says."""
        while True:
            try:
                number, kind, value = self._line.take()
            except (EOFError, OSError):
                break
            self._has_answered = True
            if number == EVENT:
                self._take_in(value)
                continue
            with self._lock:
                answer = self._answers.pop(number, None)
            if answer is not None and kind == "done":
                answer.set_result(_Answered(value, clocks_here()))
            elif answer is not None:
                answer.set_exception(RuntimeError(f"{self} could not do what was asked: {value}"))
        code = self._process.wait()
        self.lose(f"its line has closed (exit code {code}){self._last_words()}")

    def _take_in(self, event: RankEvent) -> None:
        if event.kind == "meet":
            return self._look_up(event.team, *event.value)
        with self._lock:
            rank = self._ranks.get((event.team, event.rank))
        if rank is not None:
            rank.take_in(event.kind, event.value)

    def _look_up(self, team: str, number: int, what: str, details: tuple[Any, ...]) -> None:
        """A rank asks for another one. The answer may come later, when that one has said where it is."""

        def reply(value: Any) -> None:
            with contextlib.suppress(NodeLost):
                self.post("answer", team, number, value)

        if (table := self._tables.get(team)) is not None:
            table.ask(what, details, reply)

    def _say_that_we_live(self) -> None:
        with contextlib.suppress(NodeLost, RuntimeError):
            while not self._gone.wait(_LIFE_S):
                if self._has_answered:  # until then its ssh connects, and its Python starts
                    self._compare_clocks()
        try:
            self._process.wait(_GOODBYE_S)
        except subprocess.TimeoutExpired:  # it has been stopped, and cannot end by itself
            self._process.kill()

    def _compare_clocks(self) -> None:
        asked = clocks_here()
        answered = self._answer(self._send("clocks", ()), _ANSWER_S, longest_s=math.inf)
        self.clock.take(asked, answered.value, answered.arrived)

    def _last_words(self) -> str:
        """The last line that ssh, or the agent, has written to its stderr."""
        with contextlib.suppress(OSError, ValueError):
            size = os.fstat(self._words.fileno()).st_size
            text = os.pread(self._words.fileno(), 4096, max(0, size - 4096)).decode(errors="replace").strip()
            if text:
                return f": {text.splitlines()[-1][-_LONGEST_WORD:]}"
        return ""
