"""A store for rendezvous in a process of its own: it stands between the nodes and outlives any of them."""

from __future__ import annotations

import sys
import threading

__all__ = ["main"]


def main() -> None:
    """``python -m course_lib.nodes.rendezvous_server ADDRESS PORT``: serve until killed."""
    from torch.distributed import TCPStore

    store = TCPStore(sys.argv[1], int(sys.argv[2]), is_master=True, wait_for_workers=False)
    threading.Event().wait()
    del store


if __name__ == "__main__":
    main()
