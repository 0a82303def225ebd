"""What a notebook gets when one of its cells imports the cluster: ``%%ranks``, and ranks that soon start quickly.

It also takes the notebook's seat (``devices/seats.py``), before a cell asks CUDA for anything: CUDA looks at its
environment once.

The first start of ranks waits for the fork server, which has to import torch. It begins here, beside the notebook,
which imports torch itself and is then read. Nowhere else does an import start a process: not in a script, a test,
or JupyterLab's server.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Any

from course_lib.devices import seated

__all__ = ["prepare"]


def prepare() -> None:
    """Safe anywhere: outside a notebook it does nothing, and it never fails the import that led here."""
    from IPython import get_ipython

    shell = get_ipython()
    if shell is None:
        return
    from course_lib.cluster.api import magic
    from course_lib.cluster.process import processes

    magic.register(shell)
    if hasattr(shell, "kernel") and _a_cell_imports(shell):
        with contextlib.suppress(Exception):  # what is wrong with it, the first cluster says
            seated(1)
        # No process to be had, no room for its socket: the first cluster meets it again, and says so.
        with contextlib.suppress(Exception):
            processes.warm()


def _a_cell_imports(shell: Any) -> bool:
    """Whether the import that runs now was asked for by a cell, and not by some other thread or extension."""
    frame = sys._getframe()
    while frame is not None:
        if frame.f_globals is shell.user_ns:
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False
