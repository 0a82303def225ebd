"""A port at which agents meet, from where the system itself takes none."""

from __future__ import annotations

import errno
import random
import socket

__all__ = ["free_port"]

_PORTS = range(10_000, 30_000)  # systems give away ports from 32768 on (Linux) or 49152 (macOS)
_TRIES = 100
_dice = random.SystemRandom()  # a learner's own seed is left alone, and does not choose


def free_port() -> int:
    """One that nobody listens at now.

    A rank of another job that asks the system for a port never gets this one before the agent comes. Should another
    program take it, the failure of the job says so. Raises OSError where all that were tried are taken.
    """
    for port in _dice.sample(_PORTS, _TRIES):
        with socket.socket() as one:
            try:
                one.bind(("", port))
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
            else:
                return port
    raise OSError(errno.EADDRINUSE, f"{_TRIES} ports from {_PORTS.start} to {_PORTS.stop - 1} are all taken")
