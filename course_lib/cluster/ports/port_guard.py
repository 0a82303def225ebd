"""Port guard: looks at each group of gloo that is made in this process, and shuts the port at which its ranks met.

gloo opens a port for each group, and whoever connects first and names a small number stands in a rank's place. Once a
group is made, all its pairs are connected and nobody has to come any more. Up to then the port is open: ranks on nodes
therefore tell each other which connections they have asked for, before the group is given to who made it. Ranks of one
machine do not: they have no store that answers at once.

gloo's pairs connect within the constructor of ``ProcessGroupGloo`` (``Context::createAndConnectAllPairs``), but for its
lazy ones (``TORCH_GLOO_LAZY_INIT``), which need the port for longer and keep it.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable
from typing import Any

from course_lib.cluster.ports.connections import connections_to, strangers, strangers_in_words
from course_lib.cluster.ports.own_sockets import End, SocketsHere, shut_ports, socket_numbers, sockets_since

__all__ = ["StrangerConnected", "guard_ports"]

_KEY = "connections"


class StrangerConnected(RuntimeError):
    """Somebody who is no rank of a group has connected to it while its ranks met."""


def guard_ports(*, asks_who_came: bool) -> None:
    """From now on, for the life of the process. Safe to repeat.

    Args:
        asks_who_came: Look at who is connected, too: two questions to the group's store by each rank. A group is then
            refused by ``StrangerConnected``.
    """
    import torch.distributed as dist

    if not dist.is_available() or not dist.is_gloo_available():
        return
    from torch._C._distributed_c10d import ProcessGroupGloo

    if not hasattr(ProcessGroupGloo.__init__, "_guards"):
        ProcessGroupGloo.__init__ = _guarded(ProcessGroupGloo.__init__, asks_who_came)  # type: ignore[method-assign]


def _guarded(plain: Callable[..., None], asks_who_came: bool) -> Callable[..., None]:
    @functools.wraps(plain)
    def make(group: Any, store: Any, rank: int, size: int, *args: Any, **kwargs: Any) -> None:
        before = socket_numbers()
        plain(group, store, rank, size, *args, **kwargs)
        sockets = sockets_since(before)
        try:
            if asks_who_came and size > 1:
                _tell_whom_we_asked(store, rank, sockets)
                _look_at_who_came(store, rank, size, before)
        finally:
            if not _is_lazy() and len(sockets.connected) >= len(sockets.listens) * (size - 1):
                shut_ports(sockets)

    make._guards = True  # type: ignore[attr-defined]
    return make


def _is_lazy() -> bool:
    """Whether gloo connects at the first message: it needs its port then, and other groups connect meanwhile."""
    return os.environ.get("TORCH_GLOO_LAZY_INIT", "").lower() not in ("", "0", "n", "no", "f", "false")


def _tell_whom_we_asked(store: Any, rank: int, sockets: SocketsHere) -> None:
    """Both ends of each connection that this rank has asked for; None where it cannot say."""
    store.set(f"{_KEY}/{rank}", json.dumps(sockets.begun_here if sockets.listens and not _is_lazy() else None))


def _look_at_who_came(store: Any, rank: int, size: int, before: frozenset[str]) -> None:
    """Raises ``StrangerConnected``. The port is still open: who is late, for a stranger took its place, comes in."""
    said = [json.loads(one) for one in store.multi_get([f"{_KEY}/{other}" for other in range(size) if other != rank])]
    if None in said:
        return
    asked_for = {(_end(near), _end(far)) for ends in said for near, far in ends}
    sockets = sockets_since(before)
    if not asked_for.issuperset(sockets.came_here):
        ports = frozenset(sockets.listens.values())
        found = strangers(connections_to(ports), asked_for, ports)  # reads a list of the whole machine's
        if found:
            raise StrangerConnected(strangers_in_words(found, rank))


def _end(pair: list[Any]) -> End:
    return str(pair[0]), int(pair[1])
