"""The nodes that this notebook has: by the record of `course nodes up`, or by its Slurm allocation; met once."""

from __future__ import annotations

import atexit
import contextlib
import threading
import time
from collections.abc import Iterator
from contextvars import ContextVar

from course_lib.cluster.nodes.errors import NodeLost, NodesUnlike, next_step
from course_lib.cluster.nodes.node import RemoteNode
from course_lib.cluster.nodes.node_set import NodeSet
from course_lib.cluster.nodes.record import NodesRecord

__all__ = ["meet", "nodes_here", "on_this_machine"]

_UP = "name some by `course nodes up --hosts a,b` (two on this machine: `course nodes up --local 2`)"
_AGAIN_S = 60.0  # until nodes that have gone are asked again, at the next cluster
_begun: list[RemoteNode] = []
_met: dict[NodesRecord, NodeSet] = {}
_asked_s: dict[NodesRecord, float] = {}  # when all of a record were asked last, by ``time.monotonic``
_lock = threading.Lock()
_stays_here: ContextVar[bool] = ContextVar("stays_here", default=False)


@contextlib.contextmanager
def on_this_machine() -> Iterator[None]:
    """Clusters that are made within it have their ranks on this machine, whatever nodes there are."""
    token = _stays_here.set(True)
    try:
        yield
    finally:
        _stays_here.reset(token)


def nodes_here(wanted: int | None = None) -> NodeSet | None:
    """All nodes of this notebook, or the first ``wanted``; None where there are none and none are wanted.

    One that has gone is asked again, and where it does not come again after a minute; until then those that are left
    are all.

    Raises:
        ValueError: More are wanted than there are, or the record cannot be read.
        NodesUnlike: A node has another Python, PyTorch or course.
        NodeLost: No node answers.
    """
    if wanted is not None and (isinstance(wanted, bool) or not isinstance(wanted, int) or wanted < 1):
        raise ValueError(f"nodes={wanted!r} must be a whole number of at least 1; use 1")
    record = None if _stays_here.get() and wanted is None else NodesRecord.current()
    if record is None:
        if wanted is not None:
            raise ValueError(f"nodes={wanted}, and this notebook has no nodes: {_UP}, or leave nodes= out")
        return None
    with _lock:
        found = _met.get(record)
        if found is None or any(node.is_lost for node in found.nodes) or _may_be_back(record, found):
            _asked_s[record] = time.monotonic()
            found = _met[record] = meet(record, after=found)
    if wanted is not None and wanted > len(found.nodes):
        raise ValueError(f"nodes={wanted} is more than answer, {len(found.nodes)}; use nodes={len(found.nodes)}")
    return found if wanted is None else found.first(wanted)


def _may_be_back(record: NodesRecord, found: NodeSet) -> bool:
    """Whether nodes are missing that may answer by now; one that is gone costs some ten seconds each time."""
    return len(found.nodes) < len(record.hosts) and time.monotonic() - _asked_s[record] > _AGAIN_S


def meet(record: NodesRecord, *, after: NodeSet | None = None) -> NodeSet:
    """Start an agent on each node, and learn what it is. ``after``: nodes met before; those that live are kept.

    Raises:
        NodesUnlike: One has another Python, PyTorch or course than this notebook.
        NodeLost: One does not answer; after others have been met, none does.
    """
    kept = {node.number: node for node in after.nodes if not node.is_lost} if after else {}
    nodes = []
    for number, host in enumerate(record.hosts):
        nodes.append(kept.get(number) or RemoteNode(number, host, *record.command(host)))
        if number not in kept:
            _to_close(nodes[-1])
    answering, lost = [], []
    for node in nodes:
        try:
            NodeSet([node], record.address).meet()
            answering.append(node)
        except NodeLost as error:
            lost.append(f"{error}{next_step(str(error), node.host, record.ssh_options, record.python)}")
        except NodesUnlike:
            _close(nodes)
            raise
    if lost and (after is None or not answering):
        _close(nodes)
        raise NodeLost("\n".join(lost))
    missing = [node.host for node in nodes if node not in answering]
    return NodeSet(answering, record.address, missing=missing)


def _to_close(node: RemoteNode) -> None:
    """It is closed when this process ends: all nodes at the same time."""
    if not _begun:
        atexit.register(_close, _begun)
    _begun.append(node)


def _close(nodes: list[RemoteNode]) -> None:
    for node in nodes:
        node.hang_up()
    for node in nodes:
        with contextlib.suppress(OSError):
            node.close()
