"""Who is connected to the ports of this process, as the system lists it, and which of them no rank of a group is.

Each rank says by the group's store which connections it has asked for, both ends as it sees them. What is connected
to a port of another rank has to be one of these. Addresses may be translated on the way (NAT): then the two ends
are told differently, and as many strange ends are let pass as connections of ranks have not been seen to come in.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Collection, Iterable
from pathlib import Path

from course_lib.cluster.ports.own_sockets import End

__all__ = ["connections_to", "strangers", "strangers_in_words"]

_TABLES = tuple(Path("/proc/self/net") / name for name in ("tcp", "tcp6"))
_CONNECTED, _HALF = "01", "03"  # TCP_ESTABLISHED, TCP_SYN_RECV


def connections_to(ports: Collection[End], tables: Iterable[Path] = _TABLES) -> dict[tuple[End, End], bool]:
    """(the far end, the port) of each connection to one of these, and whether it is whole or still being made."""
    marks, found = tuple(f":{port:04X} " for _, port in ports), {}
    for table in tables:
        try:
            lines = table.read_text().splitlines()[1:] if ports else []
        except OSError:  # no such family here
            continue
        for line in lines:
            if any(mark in line for mark in marks):
                _, near, far, state, *_ = line.split()
                if state in (_CONNECTED, _HALF) and (end := _end(near)) in ports:
                    found[_end(far), end] = state == _CONNECTED
    return found


def strangers(
    come: dict[tuple[End, End], bool], asked_for: Collection[tuple[End, End]], ports: Collection[End]
) -> list[tuple[End, End]]:
    """Connections to these ports, (far end, port), that no rank has asked for.

    Args:
        come: What ``connections_to`` has found.
        asked_for: Both ends, as the ranks see them, of all that they have connected to.
        ports: Those of this rank.
    """
    not_seen = [ends for ends in asked_for if ends[1] in ports and ends not in come]
    unknown = [ends for ends, is_whole in come.items() if is_whole and ends not in asked_for]
    return unknown if len(unknown) > len(not_seen) else []


def strangers_in_words(found: Collection[tuple[End, End]], rank: int) -> str:
    """The sentence of a group that is refused. ``rank``: this one, in the group."""
    ends = [f"{address}, port {port}" for (address, port), _ in found]
    one = len(ends) == 1
    return (
        f"{'a stranger has' if one else 'strangers have'} connected to rank {rank} of this group while its ranks met: "
        f"{'; '.join(ends)}. No rank of the group is there, and {'it' if one else 'they'} may stand in a rank's "
        "place. So the group is not used, and no tensor was sent in it. Run the call again. If this happens again, "
        f"another user of {'that machine' if one else 'these machines'} tries ports. `ss -tnp` there names the "
        "process. Or use a network where only your machines are."
    )


def _end(written: str) -> End:
    """Of an address as ``/proc/net/tcp`` writes it: words of 32 bits in this machine's order of bytes, in hex."""
    address, _, port = written.partition(":")
    words = [int(address[at : at + 8], 16) for at in range(0, len(address), 8)]
    raw = struct.pack(f"={len(words)}I", *words)
    return socket.inet_ntop(socket.AF_INET if len(words) == 1 else socket.AF_INET6, raw), int(port, 16)
