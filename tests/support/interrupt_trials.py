"""Interrupts at random moments of every kind of call: after each, the next call has to work.

As a script, in a process of its own: ``python tests/support/interrupt_trials.py COUNT SEED`` prints a line for each
fault, and last how many trials there were and how many interrupts had come within a call.
"""

from __future__ import annotations

import collections
import contextlib
import os
import random
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable

import torch
import torch.distributed as dist

from course_lib.cluster import Cluster, RankError, shared_cluster

NUM_RANKS = 2


def meet(me):
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    return tensor.item()


def compute(me):
    end_s = time.monotonic() + 0.1
    while time.monotonic() < end_s:
        sum(range(1000))


def wait_for_a_late_peer(me):
    if me.rank == 0:
        time.sleep(0.2)
    meet(me)


def fail(me):
    if me.rank == 0:
        raise ValueError("a slip")
    meet(me)


def begin_and_not_wait(me):
    dist.all_reduce(torch.ones(1), async_op=True)


def shared() -> Cluster:
    return shared_cluster(NUM_RANKS)


def cells() -> None:
    shared().cell("x = rank", show=False)
    shared().push(y=3)
    shared().pull("x")
    shared().cell("dist.all_reduce(torch.ones(1))", show=False)


def cells_that_fail() -> None:
    shared().cell("x = rank", show=False)
    shared().cell("if rank: raise ValueError(x)\ndist.all_reduce(torch.ones(1))", show=False)


def anew() -> None:
    with Cluster(NUM_RANKS) as cluster:
        cluster.call(meet, show=False)


def close_and_begin() -> None:
    shared().close()
    shared().call(meet, show=False)


CALLS: dict[str, Callable[[], object]] = {
    "warm": lambda: shared().call(meet, show=False),
    "large": lambda: shared().call(lambda me, x: x + 1, (torch.ones(100_000),), show=False),
    "busy": lambda: shared().call(compute, show=False),
    "waiting": lambda: shared().call(wait_for_a_late_peer, show=False),
    "failing": lambda: shared().call(fail, show=False),
    "left over": lambda: shared().call(begin_and_not_wait, show=False),
    "cells": cells,
    "failing cells": cells_that_fail,
    "a new cluster": anew,
    "close": close_and_begin,
}


def timed_s(call: Callable[[], object]) -> float:
    began_s = time.monotonic()
    with contextlib.suppress(RankError):
        call()
    return time.monotonic() - began_s


class Interrupts:
    """What Ctrl-C does in a notebook, while ``armed``; at other times, which are this script's own, nothing."""

    def __init__(self) -> None:
        self.armed = False
        signal.signal(signal.SIGINT, self._ring)

    def _ring(self, *_: object) -> None:
        if self.armed:
            raise KeyboardInterrupt

    def during(self, call: Callable[[], object], delays_s: list[float]) -> tuple[bool, str]:
        """Whether an interrupt came within the call, and what else came out of it but its usual error."""
        sender = threading.Thread(target=_send, args=(delays_s,))
        sender.start()
        came, fault = False, ""
        try:
            try:
                self.armed = True
                call()
            finally:
                self.armed = False
        except RankError:
            pass
        except KeyboardInterrupt:
            came = True
        except Exception:
            fault = f"the call itself: {traceback.format_exc()}"
        self.armed = False  # an interrupt may have come in the place of the line above
        sender.join()
        return came, fault


def _send(delays_s: list[float]) -> None:
    for delay_s in delays_s:
        time.sleep(delay_s)
        os.kill(os.getpid(), signal.SIGINT)


def trials(count: int, seed: int) -> int:
    """Try ``count`` times; the number of faults."""
    draw, interrupts = random.Random(seed), Interrupts()
    usual_s = {name: min(timed_s(call) for _ in range(2)) for name, call in CALLS.items()}
    faults, came_by_kind = 0, collections.Counter[str]()
    for trial in range(count):
        kind = draw.choice(list(CALLS))
        burst = draw.choice([1, 1, 2, 4])
        delays_s = [draw.uniform(0, 1.2 * usual_s[kind]), *(draw.uniform(0, 0.02) for _ in range(burst - 1))]
        came, fault = interrupts.during(CALLS[kind], delays_s)
        came_by_kind[kind] += came
        try:
            found = list(shared().call(meet, show=False))
            fault += "" if found == [NUM_RANKS] * NUM_RANKS else f"the next call gave {found}"
        except BaseException:
            fault += f"the next call: {traceback.format_exc()}"
        if fault:
            faults += 1
            print(f"FAULT in trial {trial} ({kind}, {delays_s} of {usual_s[kind]:.3f} s): {fault}", flush=True)
    shared().close()
    print(f"{count} trials, {came_by_kind.total()} interrupted within a call, {faults} faults")
    print(dict(came_by_kind))
    return faults


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(trials(int(sys.argv[1]), int(sys.argv[2])) > 0)
