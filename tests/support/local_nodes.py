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
from course_lib.cluster.nodes.record import VARIABLE

__all__ = ["a_long_wait", "agents", "close_all", "no_more_of_the_second", "place_and_sum", "two_local_nodes"]


@contextlib.contextmanager
def two_local_nodes(folder: Path) -> Iterator[None]:
    """Within it clusters take them. ``folder`` keeps their record."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, str(folder / "up.json"))
        assert main(["up", "--local", "2"]) == 0
        yield
        assert main(["down"]) == 0
        close_all()


def close_all() -> None:
    """Let all nodes of this process go, as its end would do."""
    for nodes in found._met.values():
        for node in nodes.nodes:
            node.close()
    found._met.clear()
    wait_until(lambda: not agents(), "agents end with their line")


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
