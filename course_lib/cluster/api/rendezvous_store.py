"""A rendezvous store for code that calls ``init_process_group`` itself, as a script under torchrun would."""

from __future__ import annotations

import itertools
import socket
from datetime import timedelta
from typing import Any

from course_lib.cluster.api.rank_layout import RankLayout

__all__ = ["open_rendezvous_store"]

_numbers = itertools.count(1)  # of calls, in place of a port


def open_rendezvous_store(world_size: int, layout: RankLayout) -> tuple[Any, dict[str, str]]:
    """A fresh store for ranks of this layout, and the environment that leads ``env://`` to it.

    On one machine it is a TCP store that the caller hosts on loopback, as torchrun's agent does, so that no rank has to
    guess a free port. Keep it as long as ranks may need it. Ranks on nodes ask their agents, and None is open: a number
    stands where a port would (``process_group.join``).
    """
    env = {
        "MASTER_ADDR": layout.address,
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "TORCHELASTIC_RESTART_COUNT": "0",
    }
    if layout.nodes is not None:
        return None, {**env, "MASTER_PORT": str(next(_numbers))}
    from torch.distributed import TCPStore

    listener = socket.create_server((layout.address, 0))  # the system chooses its port
    port = listener.getsockname()[1]
    store = TCPStore(
        layout.address,
        port,
        world_size,
        is_master=True,
        timeout=timedelta(seconds=60),
        wait_for_workers=False,
        master_listen_fd=listener.detach(),
    )
    return store, {**env, "MASTER_PORT": str(port)}
