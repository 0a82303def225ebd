"""A rendezvous store for code that calls ``init_process_group`` itself, as a script under torchrun would."""

from __future__ import annotations

import socket
from datetime import timedelta
from typing import Any

__all__ = ["open_rendezvous_store"]


def open_rendezvous_store(world_size: int, address: str = "127.0.0.1") -> tuple[Any, dict[str, str]]:
    """A fresh TCP store held by the caller at ``address``, and the environment that leads ``env://`` to it.

    The caller hosts it, as torchrun's agent does, so that no rank has to guess a free port. Keep the store as long
    as ranks may need it.
    """
    from torch.distributed import TCPStore

    listener = socket.create_server((address, 0))  # the system chooses its port
    port = listener.getsockname()[1]
    store = TCPStore(
        address,
        port,
        world_size,
        is_master=True,
        timeout=timedelta(seconds=60),
        wait_for_workers=False,
        master_listen_fd=listener.detach(),
    )
    return store, {
        "MASTER_ADDR": address,
        "MASTER_PORT": str(port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "TORCHELASTIC_RESTART_COUNT": "0",
    }
