"""A server that keeps the port which it has found free: learners who start at the same moment do not meet there.

JupyterLab's own closes the port again, and binds it when its loop runs. On a busy machine that is seconds later: then
the port may be another's, and the server ends.
"""

from __future__ import annotations

import errno
import socket

from jupyter_server.serverapp import ServerApp
from tornado.netutil import bind_sockets

__all__ = ["KeepsItsPort"]

_TRIES = 20


class KeepsItsPort(ServerApp):
    """JupyterLab's server, listening from the moment at which it has found its port."""

    _kept: tuple[socket.socket, ...] = ()

    def _find_http_port(self) -> None:
        for _ in range(_TRIES):
            super()._find_http_port()
            try:
                self._kept = tuple(bind_sockets(self.port, self.ip))
                return
            except OSError as error:  # taken since a moment ago
                if error.errno != errno.EADDRINUSE:
                    raise

    def _bind_http_server_tcp(self) -> bool:
        if not self._kept:
            return super()._bind_http_server_tcp()
        self.http_server.add_sockets(self._kept)
        return True
