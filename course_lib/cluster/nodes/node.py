"""A node, as a notebook holds it: the line to its agent, by ssh or to a process here, and the ranks that are there."""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from multiprocessing.connection import Connection
from typing import Any

from course_lib.base.clock import now_s
from course_lib.cluster.nodes.agent import NodeFacts, RankEvent
from course_lib.cluster.nodes.agent_process import EVENT, UNHEARD_S
from course_lib.cluster.nodes.errors import NodeLost
from course_lib.cluster.nodes.remote_rank import RemoteRank
from course_lib.cluster.process.defer_interrupt import deferred_interrupts

__all__ = ["RemoteNode"]

_ANSWER_S = 30.0  # for a request that no rank has to answer
_FIRST_ANSWER_S = 90.0  # ssh connects, Python starts there and imports torch
_NUM_CLOCK_READINGS = 5
_LONGEST_WORD = 300  # characters of what ssh has said last


class RemoteNode:
    """Node ``number``, reached by the command ``words``, which starts its agent; ``host`` is its name until it answers.

    One thread takes in what the agent says, and another says now and then that the notebook lives.
    """

    def __init__(self, number: int, host: str, words: Sequence[str], env: Mapping[str, str] | None = None) -> None:
        self.number, self.host = number, host
        self.facts: NodeFacts | None = None
        self.why_lost = ""
        self.behind_s = 0.0  # to add to a time of its clock, for one of this machine's
        self._is_lost = False
        self._ranks: dict[tuple[str, int], RemoteRank] = {}
        self._answers: dict[int, Future[Any]] = {}
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
        self._outgoing = Connection(os.dup(self._process.stdin.fileno()), readable=False)
        self._incoming = Connection(os.dup(self._process.stdout.fileno()), writable=False)
        self._process.stdin.close()
        self._process.stdout.close()
        for life in (self._listen, self._say_that_we_live):
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
        ways = []
        for _ in range(_NUM_CLOCK_READINGS):
            before_s = now_s()
            theirs_s = self.ask("clock_s")
            after_s = now_s()
            ways.append((after_s - before_s, (before_s + after_s) / 2 - theirs_s))
        self.behind_s = min(ways)[1]
        return self.facts

    def new_rank(self, team: str, rank: int) -> RemoteRank:
        """The handle on a rank that is about to be started here."""
        with self._lock:
            found = self._ranks[team, rank] = RemoteRank(self, team, rank)
        return found

    def forget(self, team: str, rank: int) -> None:
        with self._lock:
            self._ranks.pop((team, rank), None)

    def ask(self, method: str, *args: Any, timeout_s: float = _ANSWER_S) -> Any:
        """Have the agent do something, and wait for the answer.

        Raises:
            NodeLost: It does not answer.
            RuntimeError: It could not, with its own words.
        """
        try:
            return self._send(method, args).result(timeout_s)
        except TimeoutError:
            self.lose(f"no answer within {timeout_s:g} s")
            raise NodeLost(f"{self} did not answer within {timeout_s:g} s{self._last_words()}") from None

    def post(self, method: str, *args: Any) -> None:
        """Have the agent do something, and do not wait. A node that cannot is lost, and its ranks with it.

        Raises:
            NodeLost: It has gone.
        """
        self._send(method, args).add_done_callback(self._seen_through)

    def lose(self, why: str) -> None:
        """From here on it has gone: each of its ranks has died, and nobody waits for an answer any more."""
        with self._lock:
            if self._is_lost:
                return
            self._is_lost, self.why_lost = True, why
            ranks, answers = list(self._ranks.values()), list(self._answers.values())
            self._answers.clear()
        for answer in answers:
            answer.set_exception(NodeLost(f"{self} does not answer: {why}"))
        for rank in ranks:
            rank.die(None)
        with self._lock, contextlib.suppress(OSError):
            self._outgoing.close()
        with contextlib.suppress(OSError):
            self._process.terminate()

    def end(self, team: str) -> None:
        """End what is left of a team there."""
        with contextlib.suppress(NodeLost, RuntimeError):
            self.ask("end", team)

    def close(self) -> None:
        """Close the line; the agent ends, and all its ranks. Safe to repeat."""
        self.lose("it was closed")

    def _send(self, method: str, args: tuple[Any, ...]) -> Future[Any]:
        answer: Future[Any] = Future()
        with deferred_interrupts(), self._lock:  # half a request would spoil the line
            if self._is_lost:
                raise NodeLost(f"{self} has gone: {self.why_lost}")
            self._num_sent += 1
            self._answers[self._num_sent] = answer
            with contextlib.suppress(OSError):  # the listener finds out that the line has closed, and says so
                self._outgoing.send_bytes(pickle.dumps((self._num_sent, method, args)))
        return answer

    def _seen_through(self, sent: Future[Any]) -> None:
        error = sent.exception()
        if error is not None:
            self.lose(str(error))

    def _listen(self) -> None:
        """The life of the thread that takes in what the agent says."""
        while True:
            try:
                number, kind, value = pickle.loads(self._incoming.recv_bytes())
            except (EOFError, OSError):
                break
            if number == EVENT:
                self._take_in(value)
                continue
            with self._lock:
                answer = self._answers.pop(number, None)
            if answer is not None and kind == "done":
                answer.set_result(value)
            elif answer is not None:
                answer.set_exception(RuntimeError(f"{self} could not do what was asked: {value}"))
        code = self._process.wait()
        self.lose(f"its line has closed (exit code {code}){self._last_words()}")

    def _take_in(self, event: RankEvent) -> None:
        with self._lock:
            rank = self._ranks.get((event.team, event.rank))
        if rank is not None:
            rank.take_in(event.kind, event.value)

    def _say_that_we_live(self) -> None:
        with contextlib.suppress(NodeLost, RuntimeError):
            while not self._is_lost:
                time.sleep(UNHEARD_S / 4)
                self.ask("clock_s")

    def _last_words(self) -> str:
        """The last line that ssh, or the agent, has written to its stderr."""
        with contextlib.suppress(OSError, ValueError):
            size = os.fstat(self._words.fileno()).st_size
            text = os.pread(self._words.fileno(), 4096, max(0, size - 4096)).decode(errors="replace").strip()
            if text:
                return f": {text.splitlines()[-1][-_LONGEST_WORD:]}"
        return ""
