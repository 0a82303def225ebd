"""Whether two workers compute side by side: does one get on while the other is busy? Counted, and not timed.

One worker counts its steps, and gives way after each. The other stays busy for a while, in Python or in one large
operator, and looks at the count before and after. Threads that share an interpreter lock take turns: while one stays in
Python, the other's count stands still, however many cores there are. On a crowded machine a worker without a core
stands still as well, so what got on in one try of some is enough.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist

from course_lib.cluster.api.cluster import Cluster
from course_lib.cluster.base.rank import Rank

__all__ = ["processes_get_on", "threads_get_on"]

_IN_PYTHON_S, _STEP_S = 0.1, 1e-4
_NUM_TRIES = 40
_NUM_TRIES_OF_THREADS = 3  # in Python: with a lock they all fail, and without one the first succeeds
_NO_SWITCH_S = 60.0  # a thread is asked for the lock after so long, in place of 5 ms: so it gives it away by itself


def threads_get_on(*, beside_operator: bool) -> bool:
    """Whether a thread gets on while another one of its process stays in Python, or in one large operator."""
    steps, is_over = [0], threading.Event()

    def count_steps() -> None:
        while not is_over.is_set():
            steps[0] += 1
            time.sleep(_STEP_S)  # gives the lock away

    thread = threading.Thread(target=count_steps, daemon=True)
    large, switch_s = torch.ones(1024, 1024), sys.getswitchinterval()
    sys.setswitchinterval(_NO_SWITCH_S)
    try:
        thread.start()
        while not steps[0]:
            time.sleep(_STEP_S)
        if beside_operator:
            return _gets_on(lambda: steps[0], lambda: large @ large, _NUM_TRIES)
        return _gets_on(lambda: steps[0], _stay_in_python, _NUM_TRIES_OF_THREADS)
    finally:
        is_over.set()
        sys.setswitchinterval(switch_s)
        thread.join()


def processes_get_on(cluster: Cluster) -> bool:
    """Whether rank 1 gets on while rank 0 stays in Python: each has an interpreter of its own."""
    with tempfile.TemporaryDirectory() as folder:
        return cluster.call(_rank_gets_on, (Path(folder),), show=False)[0]


def _rank_gets_on(me: Rank, folder: Path) -> bool:
    """Rank 1 counts its steps by the bytes of a file, until rank 0 has made another file."""
    steps, over = folder / "steps", folder / "over"
    got_on = False
    if me.rank == 0:
        steps.touch()
    dist.barrier()
    if me.rank == 0:
        got_on = _gets_on(lambda: steps.stat().st_size, _stay_in_python, _NUM_TRIES)
        over.touch()
    elif me.rank == 1:
        while not over.exists():
            with steps.open("ab") as file:
                file.write(b".")
            time.sleep(_STEP_S)
    dist.barrier()
    return got_on


def _gets_on(count: Callable[[], int], work: Callable[[], object], num_tries: int) -> bool:
    """Whether the other worker's count moves while this one works, in one try of some."""
    for _ in range(num_tries):
        before = count()
        work()
        if count() > before:
            return True
    return False


def _stay_in_python() -> None:
    """Run Python for a while, with no operator and no call that gives the interpreter lock away."""
    until_s = time.perf_counter() + _IN_PYTHON_S
    while time.perf_counter() < until_s:
        pass
