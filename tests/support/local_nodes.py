"""Two nodes that are both this machine, for the tests of a file, and what their ranks are asked."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from waiting import wait_until

from course_lib.cluster.nodes import found
from course_lib.cluster.nodes.command import main
from course_lib.cluster.nodes.record import VARIABLE, NodesRecord

__all__ = ["a_long_wait", "agents", "close", "no_more_of_the_second", "place_and_sum", "two_local_nodes"]

_records: list[Path] = []  # of the nodes that this process has made


@contextlib.contextmanager
def two_local_nodes(folder: Path) -> Iterator[None]:
    """Within it clusters take them. ``folder`` keeps their record.

    They are made once for all files of tests, and end with the process: both agents and their fork servers import
    PyTorch for themselves, which took 14 s of CPU for each file.
    """
    with pytest.MonkeyPatch.context() as patch:
        if not _records:
            patch.setenv(VARIABLE, str(folder / "up.json"))
            assert main(["up", "--local", "2"]) == 0
            _records.append(folder / "up.json")
        patch.setenv(VARIABLE, str(_records[0]))
        yield


def close(*records: NodesRecord) -> None:
    """Let the nodes of these records go, as the end of this process would do; without a record, all of them."""
    gone = [node for record in records or tuple(found._met) for node in found._met.pop(record).nodes]
    for node in gone:
        node.close()
    wait_until(lambda: all(node._process.poll() is not None for node in gone), "agents end with their line")


def agents() -> list[int]:
    """Of the nodes that this test has, and not of somebody else's on this machine."""
    found_here = []
    for process in psutil.process_iter(["cmdline"]):
        if "course_lib.cluster.nodes.agent_process" in (process.info["cmdline"] or []):
            with contextlib.suppress(psutil.Error):
                if process.environ().get(VARIABLE) == os.environ[VARIABLE]:
                    found_here.append(process.pid)
    return found_here


def place_and_sum(me):
    """What a rank is, and the sum of all ranks, which it prints too."""
    import torch
    import torch.distributed as dist

    total = torch.tensor([float(me.rank)], dtype=torch.float64)
    dist.all_reduce(total)
    print(f"rank {me.rank} sums up to {total.item():g}")
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
    return me.node, me.local_rank, total.item(), [int(os.environ[name]) for name in names]


def a_long_wait(file: Path):
    """A function that never comes back, and a way to do something once it has begun on a rank."""

    def wait_long(me):
        file.touch()
        threading.Event().wait()

    def when_begun(do):
        threading.Thread(target=lambda: (wait_until(file.exists, "a rank begins"), do()), daemon=True).start()

    return wait_long, when_begun


def no_more_of_the_second(plain):
    """``NodesRecord.command`` by which the second node ends at once."""
    return lambda self, host: plain(self, host) if host != "here-1" else ([sys.executable, "-c", "1 / 0"], None)
