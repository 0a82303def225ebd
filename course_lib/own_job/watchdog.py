"""When a job of your own hangs: who waits where, and who never came, in the words of the ``Cluster``.

A thread in each process looks once a second. Where its rank waits in communication, and nothing has begun or ended for
``quiet_s`` seconds, it asks all ranks through the job's store; each thread answers with its main thread's stack and its
account of calls, and rank 0 prints the story. A thread can answer since a collective waits with Python's lock released.
A process that is stopped, or that holds the lock, is told as silent.
"""

from __future__ import annotations

import contextlib
import pickle
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from course_lib.cluster.failures.deadlock import deadlocked_ranks
from course_lib.cluster.failures.hang_diagnosis import reasons
from course_lib.cluster.failures.hang_dump import write_records
from course_lib.cluster.failures.rank_status import RankStatus, StatusThread
from course_lib.cluster.failures.report import status_line
from course_lib.cluster.hooks.op_tracker import OpTracker
from course_lib.own_job.store_exchange import StoreExchange, job_store, own_place

__all__ = ["hang_story", "watchdog"]

_LOOK_S = 1.0
_MOST_ANSWER_S = 10.0  # after that a rank is silent
_ASKED = "watchdog/asked"  # a counter in the store: which question is the newest
_tracker: OpTracker | None = None  # of this process, for its life


@contextlib.contextmanager
def watchdog(*, quiet_s: float = 60.0, folder: str | Path | None = None) -> Iterator[None]:
    """In this block a hang is told once it has lasted ``quiet_s`` seconds; all ranks enter the block.

    Rank 0 prints the story to stderr, and the job goes on waiting, or ends by its own timeout. With a ``folder``, which
    every rank must have, each rank also writes what ``black_box`` writes, ``rank_N`` and ``stack_N.txt``, and rank 0
    the story as ``hang.txt``. The block costs a look at PyTorch's records a second.

    ``ValueError`` for a time that is not positive and for a folder that is not there; ``RuntimeError`` inside a rank of
    a ``Cluster``, which tells hangs itself.
    """
    if not quiet_s > 0:
        raise ValueError(f"quiet_s is {quiet_s}, and it must be more than 0 seconds, such as 60.")
    place = None if folder is None else Path(folder)
    if place is not None and not place.is_dir():
        raise ValueError(f"folder is {str(place)!r}, and there is no such folder; make it first.")
    watch = _Watch(_status_of_this_process(), quiet_s, place)
    watch.start()
    try:
        yield
    finally:
        watch.end()


def _status_of_this_process() -> StatusThread:
    from course_lib.cluster.process.rank_process import current_rank

    global _tracker
    if current_rank() is not None:
        raise RuntimeError("watchdog() is for a job of your own: a Cluster tells a hang of its ranks by itself")
    if _tracker is None:
        _tracker = OpTracker()
        _tracker.install()
    return StatusThread(0, _tracker)


class _Watch:
    """The thread of one block."""

    def __init__(self, status: StatusThread, quiet_s: float, folder: Path | None) -> None:
        self._status, self._quiet_s, self._folder = status, quiet_s, folder
        self._is_over = threading.Event()
        self._store: Any = None
        self._answered = 0  # questions
        self._thread = threading.Thread(target=self._watch, name="course-watchdog", daemon=True)

    def start(self) -> None:
        self._status.mark_call()
        self._thread.start()

    def end(self) -> None:
        self._is_over.set()
        self._thread.join(timeout=_MOST_ANSWER_S)

    def _watch(self) -> None:
        seen, since_s, told = None, time.monotonic(), False
        while not self._is_over.wait(min(_LOOK_S, self._quiet_s / 4)):
            try:
                status = self._status.status(rank=own_place()[0])
                now = _progress(status)
                if now != seen:
                    seen, since_s, told = now, time.monotonic(), False
                is_quiet = time.monotonic() - since_s >= self._quiet_s
                if is_quiet and not told and _waits(status):
                    told = True
                    self._ask(status)
                told |= self._answer(status)
            except Exception as error:  # the job is what counts
                print(f"watchdog: it can watch no more ({type(error).__name__}: {error})", file=sys.stderr, flush=True)
                return

    def _ask(self, status: RankStatus) -> None:
        if (store := self._connection()) is None:
            print(hang_story({0: status}, 1, self._quiet_s), file=sys.stderr, flush=True)
        elif store.add(_ASKED, 0) == self._answered:  # else somebody has asked just now
            store.add(_ASKED, 1)

    def _answer(self, status: RankStatus) -> bool:
        """Answer what was asked since the last look, if anything was."""
        store = self._connection()
        if store is None or (newest := store.add(_ASKED, 0)) == self._answered:
            return False
        self._answered = newest
        rank, world_size = own_place()
        exchange = StoreExchange(store, f"watchdog/{newest}")
        if rank == 0:
            self._tell(exchange, status, world_size)
        else:
            exchange.put(rank, pickle.dumps(status))
        if self._folder is not None:
            write_records(rank, self._folder)
        return True

    def _tell(self, exchange: StoreExchange, status: RankStatus, world_size: int) -> None:
        answers = exchange.take(range(1, world_size), within_s=min(_MOST_ANSWER_S, 5 + self._quiet_s))
        statuses = {0: status} | {other: pickle.loads(data) for other, data in answers.items()}
        silent = [other for other in range(world_size) if other not in statuses]
        statuses |= {other: RankStatus(other, None, (), state="silent") for other in silent}
        story = hang_story(statuses, world_size, self._quiet_s)
        print(story, file=sys.stderr, flush=True)
        if self._folder is not None:
            (self._folder / "hang.txt").write_text(story + "\n", encoding="utf-8")

    def _connection(self) -> Any:
        if self._store is None and own_place()[1] > 1:
            self._store = job_store()
            self._answered = self._store.add(_ASKED, 0)
        return self._store


def _progress(status: RankStatus) -> tuple[Any, ...]:
    """What changes when this rank begins or ends communication."""
    accounts, operation = status.accounts, status.operation
    numbers = (
        ()
        if accounts is None
        else tuple(
            tuple(sorted(counts.items()))
            for counts in (accounts.counts, accounts.sent, accounts.posted, accounts.received)
        )
    )
    return numbers, operation, status.is_in_wait


def _waits(status: RankStatus) -> bool:
    """Whether this rank waits for others, or has begun what is not over."""
    return status.is_blocked or status.pending is not None or status.message is not None


def hang_story(statuses: Mapping[int, RankStatus], world_size: int, quiet_s: float) -> str:
    """Where each rank of a job stands that has been quiet for ``quiet_s``, and why it cannot go on, as far as known."""
    lost = list(deadlocked_ranks(statuses))
    head = f"watchdog: for {quiet_s:g} s no communication has begun or ended on a rank that waits for it."
    if lost:
        head += (
            f" {len(lost)} of {world_size} ranks can never finish: the calls that they wait in will not be answered."
        )
    lines = [head, "", *(f"  rank {rank}  {status_line(statuses[rank])}" for rank in sorted(statuses))]
    if why := reasons(statuses):
        lines += ["", *why]
    return "\n".join(lines)
