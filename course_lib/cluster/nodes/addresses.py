"""By which of its addresses, and which network interface, this machine is reached by another one."""

from __future__ import annotations

import socket

import psutil

__all__ = ["address_towards", "interface_towards"]


def address_towards(host: str) -> str:
    """This machine's address, as ``host`` ("b", "ada@b", "b:22") reaches it.

    Raises:
        ValueError: The host is not known, or no network leads there.
    """
    name = host.rpartition("@")[2].partition(":")[0]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((name, 9))  # of a datagram socket: nothing is sent
            return str(probe.getsockname()[0])
        except OSError as error:
            raise ValueError(f"the host {name!r} cannot be reached from here: {error}") from None


def interface_towards(host: str) -> str:
    """The network interface of this machine by which ``host`` is reached; empty where the system does not say."""
    try:
        own = address_towards(host)
    except ValueError:
        return ""
    addresses = psutil.net_if_addrs().items()
    return next((name for name, of_name in addresses if any(one.address == own for one in of_name)), "")
