"""Kernels that listen on sockets in a folder of this user alone, where the system has them, and not on TCP ports.

jupyter_client finds free ports, lets go of them, and has the kernel bind them a moment later; when a class starts at
once, another process may have taken one: "Address already in use". Files in a private folder have no such race, and
no other user can connect. `course lab` names this class to JupyterLab.
"""

from __future__ import annotations

import itertools
import os
import socket
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

import zmq
from jupyter_client.provisioning import KernelProvisionerFactory
from jupyter_server.services.kernels.kernelmanager import ServerKernelManager
from traitlets import default

from course_lib.base.front_end import IN_COURSE_LAB
from course_lib.cluster.base import temp_dirs
from course_lib.lab.forks import LabProvisioner
from course_lib.lessons.kernel_sockets import LONGEST_PATH

__all__ = ["CourseKernelManager", "private_folder"]

_ROOM_FOR_NAMES = len("/kernel-99999-5")
_numbers = itertools.count(1)


class CourseKernelManager(ServerKernelManager):
    """Starts a kernel by ``transport=ipc`` where that works here, and by TCP on loopback otherwise."""

    @default("transport")
    def _default_transport(self) -> str:
        return "tcp" if private_folder() is None else "ipc"

    @default("ip")
    def _default_ip(self) -> str:
        """The path of a kernel's sockets up to "-1", "-2", ...; an address where it speaks TCP."""
        folder = private_folder()
        if self.transport != "ipc" or folder is None:
            return super()._ip_default()
        return str(folder / f"kernel-{next(_numbers)}")

    async def start_kernel(self, *words: Any, **options: Any) -> None:
        """The kernel is told that its page gives pictures their texts, and begins as a fork where it can."""
        if LabProvisioner.forks is not None:
            LabProvisioner.install(KernelProvisionerFactory.instance(parent=self.parent))
        options["env"] = {**(options.get("env") or os.environ), IN_COURSE_LAB: "1"}
        await super().start_kernel(*words, **options)


@lru_cache(maxsize=1)
def private_folder() -> Path | None:
    """A folder for sockets, made once by a server and removed with it; None where no socket can lie in one.

    What a server that was killed has left, the next server or notebook of the same user removes.
    """
    if not zmq.has("ipc") or not hasattr(socket, "AF_UNIX"):
        return None
    for parent in dict.fromkeys([tempfile.gettempdir(), "/tmp"]):
        try:
            folder = temp_dirs.make(Path(parent))
        except OSError:
            continue
        if _takes_sockets(folder):
            import atexit

            atexit.register(temp_dirs.remove, folder)
            return folder
        temp_dirs.remove(folder)
    return None


def _takes_sockets(folder: Path) -> bool:
    """Whether a path in the folder is short enough, and its file system has sockets."""
    if len(os.fsencode(folder)) + _ROOM_FOR_NAMES > LONGEST_PATH:
        return False
    path = folder / "trial"
    try:
        with socket.socket(socket.AF_UNIX) as trial:
            trial.bind(str(path))
        path.unlink()
    except OSError:
        return False
    return True
