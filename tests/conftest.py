"""What every test shares: a home of its own, warm ranks, and an end to anything that hangs."""

from __future__ import annotations

import atexit
import faulthandler
import gc
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key
from breadth import more_of_the_same
from lesson_names import lesson_of
from process_state import changed, process_state
from small_projects import (  # noqa: F401 - fixtures of the tests of set-up
    empty_environment,
    made_project,
    no_network,
    project,
)
from waiting import crowd

from course_lib.cluster.process import processes
from course_lib.devices.container_limits import available_memory_bytes

if "COURSE_HOME" not in os.environ:  # never the learner's own; workers of pytest-xdist share that of their controller
    os.environ["COURSE_HOME"] = tempfile.mkdtemp(prefix="course-home-")
    atexit.register(shutil.rmtree, os.environ["COURSE_HOME"], ignore_errors=True)
os.environ.setdefault("COURSE_PROGRESS", "off")
os.environ["COURSE_SEATS"] = "off"  # a test that wants others to be there makes them
# Tests run side by side, each with ranks of its own: threads of one waiting for threads of another cost tenfold.
os.environ.setdefault("OMP_NUM_THREADS", "1")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # started in the background; what is tested here must hear Ctrl-C
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A function of a test comes to a rank with its module, and each rank would import for itself what many of them import.
processes.PRELOADED[:0] = ["pytest", "torch.distributed.optim"]

pytest.register_assert_rewrite("told_runs")  # tests to inherit: what they compared is said as in a file of tests

_LIMIT_S = 300.0  # of one test; a hang then shows where every thread stands, and ends the run
_errors = os.dup(2)  # what a worker of pytest-xdist says last; pytest keeps what is written to 2 itself for its report


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="run the tests marked long as well")


@pytest.hookimpl(tryfirst=True)  # before `-m long` chooses by what is marked here
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give each file a group of its own: its tests run in one process, which makes its fixtures once.

    To deal out single tests cost half a millisecond for each besides. The exercises have a group for each lesson, whose
    ranks and oracles are found warm: in one group, they kept one process busy long after the others had nothing to do.
    What is marked ``long`` waits for ``--long``, or for the one who names a single test, and is dealt out one by one.
    """
    asked = config.getoption("--long") or any("::" in word for word in config.args)
    for item in more_of_the_same(items):
        item.add_marker(pytest.mark.long)
    left_out = [] if asked else [item for item in items if item.get_closest_marker("long")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        gone = set(left_out)
        items[:] = [item for item in items if item not in gone]
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            if item.get_closest_marker("long") is None:
                item.add_marker(pytest.mark.xdist_group(item.path.stem))
        elif any(mark.args == ("exercises",) for mark in item.iter_markers("xdist_group")):
            item.add_marker(pytest.mark.xdist_group(f"lesson_{lesson_of(item.nodeid)}"))  # the names are joined


# What is collected lives to the end of the run: the collector need not look through it while it grows, nor again and
# again beside the tests. Each of the workers collects all tests.
gc.disable()


def pytest_collection_finish(session: pytest.Session) -> None:
    gc.enable()
    gc.freeze()


@pytest.fixture(autouse=True)
def _no_hang(request: pytest.FixtureRequest) -> Iterator[None]:
    marker = request.node.get_closest_marker("limit_s")
    limit_s = (marker.args[0] if marker else _LIMIT_S) * crowd()
    errors = request.config.stash.get(fault_handler_stderr_fd_key, 2)  # 2 itself pytest keeps for its report
    faulthandler.dump_traceback_later(limit_s, exit=True, file=errors)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture(scope="module", autouse=True)
def _leaves_its_process_as_it_was(request: pytest.FixtureRequest) -> Iterator[None]:
    """With COURSE_PROCESS_STATE=1: what a file meets in its process is another in each run, by who ran there before."""
    if os.environ.get("COURSE_PROCESS_STATE") != "1":
        yield
        return
    before = process_state()
    yield
    if found := changed(before, process_state()):
        pytest.fail(f"{request.node.name} has changed what the next file meets. " + "; ".join(found), pytrace=False)


@pytest.fixture
def sockets() -> Iterator[Path]:
    """A folder whose path is short enough for the sockets of a kernel."""
    with tempfile.TemporaryDirectory(prefix="k-") as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def cluster2():
    """Two warm ranks for the whole test session; a test that makes ranks fail starts its own."""
    yield from _warm(2)


@pytest.fixture(scope="session")
def cluster4():
    yield from _warm(4)


_warm_for_the_session: list[Any] = []
_have_used_warm_ranks: set[pytest.Module] = set()
_MOST_GROUPS = 4  # that are left alone
_SHORT_OF_MEMORY_BYTES = 2 << 30
_WARM = frozenset({"cluster2", "cluster4", "clusters"})  # fixtures of these


def _warm(world_size: int) -> Iterator[Any]:
    from course_lib.cluster import Cluster

    with Cluster(world_size) as cluster:
        _warm_for_the_session.append(cluster)
        yield cluster


@pytest.fixture(autouse=True)
def _note_use_of_warm_ranks(request: pytest.FixtureRequest) -> None:
    if not _WARM.isdisjoint(request.fixturenames):
        _have_used_warm_ranks.add(request.node.getparent(pytest.Module))


@pytest.fixture(scope="module", autouse=True)
def _new_ranks_where_a_file_has_left_groups(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each group of gloo has a thread that looks for messages for ever.

    With the 67 groups that ranks were found with, a rank that had nothing to do took a sixteenth of a core. New ranks
    begin in a moment, where ending the groups is not enough: DTensor keeps their names.
    """
    yield
    if request.node not in _have_used_warm_ranks:
        return
    _have_used_warm_ranks.remove(request.node)
    for cluster in _warm_for_the_session:
        if not cluster.is_closed and max(cluster.run(number_of_groups)) > _MOST_GROUPS:
            cluster._lifecycle.drop(gently=True)


_files_since_a_call: WeakKeyDictionary[Any, tuple[Any, int]] = WeakKeyDictionary()  # cluster: (its last call, files)
_MOST_FILES_IDLE = 20  # about as long as to start ranks again costs what they take while they wait


@pytest.fixture(scope="module", autouse=True)
def _no_idle_ranks() -> Iterator[None]:
    """Warm ranks of a session, and those that checks share, add up to sixty processes: more than 3 GB have room for.

    Each takes a five-hundredth of a core while it waits, so those that nobody has called for long end too.
    """
    yield
    shared = sys.modules.get("course_lib.cluster.api.shared")
    is_short = available_memory_bytes() < _SHORT_OF_MEMORY_BYTES
    for cluster in [*_warm_for_the_session, *(shared._clusters.values() if shared else ())]:
        team = cluster._lifecycle.team
        last, files = _files_since_a_call.get(cluster, (None, 0))
        call = team and team._supervisor.outcome  # a new one at each call
        files = files + 1 if call is last else 0
        _files_since_a_call[cluster] = call, files
        if is_short or files >= _MOST_FILES_IDLE:
            cluster._lifecycle.drop(gently=True)
    if is_short and (nodes := sys.modules.get("local_nodes")):
        nodes.close()


def number_of_groups(me: Any) -> int:
    """How many groups this rank knows, with that of all ranks."""
    import torch.distributed as dist

    return len(dist.distributed_c10d._world.pg_map)


@pytest.fixture(scope="session")
def clusters() -> Iterator[Callable[[int], Any]]:
    """``clusters(n)``: n warm ranks on gloo, whose tensors lie on the CPU on any machine; not for ranks that fail."""
    from course_lib.cluster import Cluster

    made: dict[int, Cluster] = {}

    def of(world_size: int) -> Cluster:
        if world_size not in made:
            made[world_size] = Cluster(world_size, backend="gloo")
            _warm_for_the_session.append(made[world_size])
        return made[world_size]

    yield of
    for cluster in made.values():
        cluster.close()


@pytest.fixture(scope="module")
def two():
    """Two ranks of a file's own, on gloo: functions on them may fail."""
    from course_lib.cluster import Cluster

    with Cluster(2, backend="gloo") as cluster:
        yield cluster
