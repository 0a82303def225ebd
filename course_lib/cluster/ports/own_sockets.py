"""Sockets of this process: those that listen, those that are connected, and a listening port that is shut.

A socket that listens is shut by a filter that lets nothing pass, as ``socket(7)`` has it (``SO_ATTACH_FILTER``): it
answers nobody any more, and connections that stand are other sockets. To close it would be simpler, but gloo's thread
waits on it. No right of root is needed. Linux alone has such filters.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import sys
from dataclasses import dataclass

__all__ = ["End", "SocketsHere", "can_shut_ports", "shut_ports", "socket_numbers", "sockets_since"]

End = tuple[str, int]  # an address and a port

_ATTACH_FILTER = 26  # SO_ATTACH_FILTER
_RETURN_NOTHING = (0x06, 0, 0, 0)  # BPF_RET | BPF_K: of each packet zero bytes are kept
_FAMILIES = (socket.AF_INET, socket.AF_INET6)


class _Instruction(ctypes.Structure):
    _fields_ = (("code", ctypes.c_ushort), ("jt", ctypes.c_ubyte), ("jf", ctypes.c_ubyte), ("k", ctypes.c_uint32))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.POINTER(_Instruction)))


_ONE = (_Instruction * 1)(_Instruction(*_RETURN_NOTHING))
_NOTHING_PASSES = bytes(_Program(1, _ONE))  # points to _ONE, which stays


@dataclass(frozen=True)
class SocketsHere:
    """TCP sockets of this process: by file descriptor where each ``listens``, and both ends of what it connected to."""

    listens: dict[int, End]
    connected: tuple[tuple[End, End], ...]  # here, there

    @property
    def begun_here(self) -> list[tuple[End, End]]:
        """Connections that this process has asked for: its own end, the port there."""
        return [(here, there) for here, there in self.connected if here not in self.listens.values()]

    @property
    def came_here(self) -> list[tuple[End, End]]:
        """Connections that came to a port of this process: the far end, the port."""
        return [(there, here) for here, there in self.connected if here in self.listens.values()]


def socket_numbers() -> frozenset[str]:
    """The numbers by which the system knows the sockets of this process; empty where there is no ``/proc``."""
    return frozenset(_numbers().values())


def sockets_since(before: frozenset[str]) -> SocketsHere:
    """The TCP sockets of this process that were not among those ``before``."""
    listens, connected = {}, []
    for descriptor, number in _numbers().items():
        if number in before:
            continue
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as copy:  # or closed meanwhile
            if copy.family not in _FAMILIES or copy.type != socket.SOCK_STREAM:
                continue
            if copy.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                listens[descriptor] = _end(copy.getsockname())
            else:
                connected.append((_end(copy.getsockname()), _end(copy.getpeername())))
    return SocketsHere(listens, tuple(connected))


def shut_ports(sockets: SocketsHere) -> None:
    """Nobody connects to them any more; where the system has no such filter they stay as they are."""
    for descriptor in sockets.listens:
        _is_shut(descriptor)


def can_shut_ports() -> bool:
    """Whether this system lets a process do so."""
    if sys.platform != "linux":
        return False
    with socket.socket() as trial:
        return _is_shut(trial.fileno())


def _is_shut(descriptor: int) -> bool:
    """Shut it, and say whether that went."""
    try:
        with socket.socket(fileno=os.dup(descriptor)) as copy:
            copy.setsockopt(socket.SOL_SOCKET, _ATTACH_FILTER, _NOTHING_PASSES)
    except OSError:
        return False
    return True


def _numbers() -> dict[int, str]:
    found = {}
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):  # the listing's own, closed by now
                if (points_to := os.readlink(f"/proc/self/fd/{name}")).startswith("socket:"):
                    found[int(name)] = points_to
    return found


def _end(address: tuple[str, int]) -> End:
    return address[0].partition("%")[0], address[1]  # %eth0 of IPv6 is what this machine alone calls its network
