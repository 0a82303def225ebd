"""What every test shares: a home of its own, warm ranks, and an end to anything that hangs."""

from __future__ import annotations

import atexit
import faulthandler
import gc
import os
import re
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key
from breadth import more_of_the_same
from small_projects import (  # noqa: F401 - fixtures of the tests of set-up
    empty_environment,
    made_project,
    no_network,
    project,
)

if (
    "COURSE_HOME" not in os.environ
):  # never the learner's own; workers of pytest-xdist share that of their controller
    os.environ["COURSE_HOME"] = tempfile.mkdtemp(prefix="course-home-")
    atexit.register(shutil.rmtree, os.environ["COURSE_HOME"], ignore_errors=True)
os.environ.setdefault("COURSE_PROGRESS", "off")
# Tests run side by side, each with ranks of its own: threads of one waiting for threads of another cost tenfold.
os.environ.setdefault("OMP_NUM_THREADS", "1")

if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
):  # started in the background; what is tested here must hear Ctrl-C
    signal.signal(signal.SIGINT, signal.default_int_handler)

_LIMIT_S = 300.0  # of one test; a hang then shows where every thread stands, and ends the run
_MOST_TIMES = 10.0
_errors = os.dup(
    2
)  # what a worker of pytest-xdist says last; pytest keeps what is written to 2 itself for its report


def lesson_of(nodeid: str) -> str:
    """The number of the lesson that a test is about, by its file or by the exercise in brackets; "" for none."""
    found = re.search(r"test_lesson_(\d\d)|test_predictions_(\d\d)|\[(\d\d)\.", nodeid)
    return next(filter(None, found.groups())) if found else ""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="run the tests marked long as well")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Split the group of exercises by lesson: each finds its ranks and oracles warm, and two lessons run side by side.

    One group for all of them kept one process busy to the end of the run, long after the others had nothing to do.
    What is marked ``long`` waits for ``--long``, or for the one who names a single test.
    """
    asked = config.getoption("--long") or any("::" in word for word in config.args)
    left_out = [] if asked else [item for item in items if item.get_closest_marker("long")]
    left_out += [] if asked else more_of_the_same(items)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]
    for item in items:
        if any(mark.args == ("exercises",) for mark in item.iter_markers("xdist_group")):
            item.add_marker(
                pytest.mark.xdist_group(f"lesson_{lesson_of(item.nodeid)}")
            )  # the names are joined


# What is collected lives to the end of the run: the collector need not look through it while it grows, nor again and
# again beside the tests. Each of the workers collects all tests.
gc.disable()


def pytest_collection_finish(session: pytest.Session) -> None:
    gc.enable()
    gc.freeze()


@pytest.fixture(autouse=True)
def _no_hang(request: pytest.FixtureRequest) -> Iterator[None]:
    marker = request.node.get_closest_marker("limit_s")
    limit_s = (marker.args[0] if marker else _LIMIT_S) * _crowd()
    errors = request.config.stash.get(fault_handler_stderr_fd_key, 2)  # 2 itself pytest keeps for its report
    faulthandler.dump_traceback_later(limit_s, exit=True, file=errors)
    yield
    faulthandler.cancel_dump_traceback_later()


def _crowd() -> float:
    """How many times longer a test may take for all that want to run on this machine now; 2 where nobody else does."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return min(2.0 + load / (os.cpu_count() or 1), _MOST_TIMES)


@pytest.fixture(scope="session")
def cluster2():
    """Two warm ranks for the whole test session; a test that makes ranks fail starts its own."""
    from course_lib.cluster import Cluster

    with Cluster(2) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def cluster4():
    from course_lib.cluster import Cluster

    with Cluster(4) as cluster:
        yield cluster


def _warm_clusters() -> Iterator[Callable[[int], Any]]:
    from course_lib.cluster import Cluster

    made: dict[int, Cluster] = {}

    def of(world_size: int) -> Cluster:
        if world_size not in made:
            made[world_size] = Cluster(world_size, backend="gloo")
        return made[world_size]

    yield of
    for cluster in made.values():
        cluster.close()


@pytest.fixture(scope="session")
def clusters():
    """``clusters(n)``: n warm ranks on gloo, whose tensors lie on the CPU on any machine; not for ranks that fail."""
    yield from _warm_clusters()


@pytest.fixture(scope="module")
def own_clusters():
    """The same for one file whose functions leave groups: each has a thread that looks for messages for ever."""
    yield from _warm_clusters()


@pytest.fixture(scope="module")
def two():
    """Two ranks of a file's own, on gloo: functions on them may fail."""
    from course_lib.cluster import Cluster

    with Cluster(2, backend="gloo") as cluster:
        yield cluster
