"""A kernel that listens at files in a folder of ours, and not at TCP ports.

A port is found free, let go of, and taken by the kernel a second later: by then it may be another's, and the kernel
ends with "Address already in use". Files in a private folder have no such race.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import zmq
from jupyter_client.connect import ConnectionFileMixin

__all__ = ["LONGEST_PATH", "listen_at_files", "take_no_ports"]

LONGEST_PATH = 107 if sys.platform == "linux" else 103  # bytes of a socket's path; the system keeps one more
_ROOM_FOR_A_NUMBER = len("-12345")


def listen_at_files(manager: ConnectionFileMixin, place: Path) -> None:
    """Have a kernel that is still to start listen at files beginning with ``place``; its key lies in ``place.json``."""
    manager.connection_file = f"{place}.json"
    take_no_ports(manager, place)


def take_no_ports(manager: ConnectionFileMixin, place: Path) -> None:
    """Have it listen at ``place-1`` to ``place-5``, wherever its key lies.

    Where that path is too long for a socket, or the system has no such sockets, it listens at ports of loopback.
    """
    if zmq.has("ipc") and len(os.fsencode(place)) + _ROOM_FOR_A_NUMBER <= LONGEST_PATH:
        manager.transport, manager.ip = "ipc", str(place)
