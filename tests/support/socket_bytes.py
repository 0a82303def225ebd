"""What really went over this process's sockets, counted by the Linux kernel: the check on every table of bytes."""

from __future__ import annotations

import os
import socket
import struct
import sys
from collections.abc import Iterator

# Of tcpi_bytes_acked in struct tcp_info, which tcpi_bytes_received follows, and of tcpi_data_segs_out (linux/tcp.h)
_ACKED_OFFSET, _PACKETS_OFFSET = 120, 156
_UNACKED_OFFSET, _NOT_SENT_OFFSET = 24, 144  # packets on their way, and bytes that wait to be sent


def socket_bytes() -> tuple[int, int]:
    """Bytes sent (and acknowledged) and received so far over all TCP connections that are open in this process.

    Raises ``NotImplementedError`` outside Linux, which alone keeps this count.
    """
    counts = [struct.unpack_from("QQ", info, _ACKED_OFFSET) for info in _infos()]
    return sum(sent for sent, _ in counts), sum(received for _, received in counts)


def is_settled() -> bool:
    """Whether all that this process has sent so far was acknowledged."""
    return not any(
        struct.unpack_from("I", info, offset)[0] for info in _infos() for offset in (_UNACKED_OFFSET, _NOT_SENT_OFFSET)
    )


def socket_packets() -> int:
    """Packets with data in them that this process has sent so far: a short message, or a note to the sender, is one."""
    return sum(struct.unpack_from("I", info, _PACKETS_OFFSET)[0] for info in _infos())


def _infos() -> Iterator[bytes]:
    if sys.platform != "linux":
        raise NotImplementedError("only Linux counts the bytes of a socket for the process that owns it")
    for name in os.listdir("/proc/self/fd"):
        try:
            if not os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(name))) as connection:
                info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 232)
        except OSError:
            continue  # closed meanwhile, or no TCP socket
        yield info
