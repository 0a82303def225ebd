"""What every rank of a running job sent: the communication meter, without a ``Cluster``.

The calls are heard where PyTorch hands them to its back end, so it does not matter who makes them: DDP,
``fully_shard``, a pipeline, DTensor, or a line of yours. At the end of the block each rank puts its calls in the job's
store, and rank 0 takes them out: no collective is made, and nothing is added to what is measured.
"""

from __future__ import annotations

import contextlib
import itertools
import pickle
import warnings
from collections.abc import Iterator

from course_lib.base.text import rank_list
from course_lib.meter.communication.call import Call
from course_lib.meter.communication.communication import Communication
from course_lib.own_job.store_exchange import StoreExchange, job_store, own_place

__all__ = ["RecordedRun", "recorded"]

_numbers = itertools.count()  # of the blocks of this process; every rank enters them in the same order


class RecordedRun:
    """What a block recorded, once it is over. ``rank``: this process's; ``missing``: ranks whose calls never came."""

    def __init__(self) -> None:
        self.rank, self.world_size = 0, 1
        self.missing: tuple[int, ...] = ()
        self._communication: Communication | None = None

    @property
    def communication(self) -> Communication:
        """On rank 0 of all ranks; on another rank its own. ``RuntimeError`` while the block is still running."""
        if self._communication is None:
            raise RuntimeError("the block of recorded() has not ended yet: ask for its communication behind it")
        return self._communication

    def __str__(self) -> str:
        missing = f"\nof {rank_list(self.missing)} nothing has come" if self.missing else ""
        own = f"rank {self.rank} alone:\n" if self.rank else ""
        return f"{own}{self.communication}{missing}"


@contextlib.contextmanager
def recorded(*, wait_s: float = 60.0) -> Iterator[RecordedRun]:
    """In this block every collective and message of this process is recorded; all ranks enter it, in the same order.

    Behind the block ``run.communication`` says what was sent: by operation and rank, in bytes, messages and time, with
    a sentence for what NCCL would refuse. On rank 0 it is that of all ranks, on the others their own. Rank 0 waits
    ``wait_s`` seconds at most for the others to end their block, and warns of those that did not. A block that raises
    leaves the calls of this rank. Without an open process group there is one rank.

    ``ValueError`` for a time below zero.
    """
    from course_lib.meter.communication.recorder import Recorder

    if not wait_s >= 0:
        raise ValueError(f"wait_s is {wait_s}, and it must be 0 seconds or more, such as 60.")
    run, number = RecordedRun(), next(_numbers)
    rank = own_place()[0]
    recorder = Recorder(rank)
    has_ended = False
    try:
        with recorder:
            yield run
        has_ended = True
    finally:
        run.rank, run.world_size = own_place()
        calls = recorder.calls
        run._communication = Communication.of_calls(run.world_size, calls)
        if has_ended and run.world_size > 1:
            _exchange(run, calls, number, wait_s)


def _exchange(run: RecordedRun, calls: tuple[Call, ...], number: int, wait_s: float) -> None:
    exchange = StoreExchange(job_store(), f"recorded/{number}")
    if run.rank != 0:
        exchange.put(run.rank, pickle.dumps(calls))
        return
    others = range(1, run.world_size)
    found = {rank: pickle.loads(data) for rank, data in exchange.take(others, within_s=wait_s).items()}
    run.missing = tuple(rank for rank in others if rank not in found)
    if run.missing:
        warnings.warn(
            f"recorded(): {rank_list(run.missing)} did not end the block within {wait_s:g} s of rank 0; what is shown "
            "is of the others",
            stacklevel=4,
        )
    run._communication = Communication.of_calls(
        run.world_size, (*calls, *itertools.chain.from_iterable(found.values()))
    )
