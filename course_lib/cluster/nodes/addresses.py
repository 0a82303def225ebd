"""By which of its addresses, and which network interface, this machine is reached by another one."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Sequence

import psutil

__all__ = ["address_towards", "checked_address", "interface_towards", "where_ssh_goes"]


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


def where_ssh_goes(host: str, ssh_options: Sequence[str] = ()) -> str:
    """The name or address of the machine that ssh means by ``host``, which its own files of settings may name.

    Raises:
        ValueError: ssh is not installed, or does not take these options.
    """
    try:
        told = subprocess.run(["ssh", *ssh_options, "-G", host], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise ValueError("there is no program ssh here: install OpenSSH's client") from None
    if told.returncode:
        said = told.stderr.strip().splitlines()[-1:] or ["it gave no message"]
        raise ValueError(f"ssh does not take {' '.join([*ssh_options, host])}: {said[0]}. Give --ssh-option as -p2222")
    found = (line.removeprefix("hostname ") for line in told.stdout.splitlines() if line.startswith("hostname "))
    return next(found, host)


def checked_address(address: str) -> str:
    """``address``, by which nodes are to reach this machine. Raises ``ValueError`` where it is none of its own."""
    try:
        socket.create_server((address, 0)).close()
    except OSError:
        found = psutil.net_if_addrs().values()
        own = ", ".join(one.address for of_name in found for one in of_name if one.family == socket.AF_INET)
        raise ValueError(f"--address {address} is none of this machine's; it has {own}. Give one of these") from None
    return address


def interface_towards(host: str) -> str:
    """The network interface of this machine by which ``host`` is reached; empty where the system does not say."""
    try:
        own = address_towards(host)
    except ValueError:
        return ""
    addresses = psutil.net_if_addrs().items()
    return next((name for name, of_name in addresses if any(one.address == own for one in of_name)), "")
