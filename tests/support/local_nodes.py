"""Two nodes that are both this machine, for the tests of a file."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from waiting import wait_until

from course_lib.cluster.nodes import found
from course_lib.cluster.nodes.command import main
from course_lib.cluster.nodes.record import VARIABLE

__all__ = ["agents", "close_all", "two_local_nodes"]


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
