"""What really went over this process's sockets, counted by the Linux kernel: the check on every table of bytes."""

from __future__ import annotations

import os
import socket
import struct
import sys

_ACKED_OFFSET = 120  # of tcpi_bytes_acked in struct tcp_info; tcpi_bytes_received follows it (linux/tcp.h)


def socket_bytes() -> tuple[int, int]:
    """Bytes sent (and acknowledged) and received so far over all TCP connections that are open in this process.

    Raises ``NotImplementedError`` outside Linux, which alone keeps this count.
    """
    if sys.platform != "linux":
        raise NotImplementedError("only Linux counts the bytes of a socket for the process that owns it")
    sent_bytes = received_bytes = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            if not os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(name))) as connection:
                info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 232)
        except OSError:
            continue  # closed meanwhile, or no TCP socket
        sent, received = struct.unpack_from("QQ", info, _ACKED_OFFSET)
        sent_bytes, received_bytes = sent_bytes + sent, received_bytes + received
    return sent_bytes, received_bytes
