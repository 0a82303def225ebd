"""One process of the learner's own, which has imported what lessons import: kernels of the lab begin as its forks.

`course lab` begins it before JupyterLab, and it imports while the page loads. A kernel then starts in a moment, and its
memory is shared with that of the other kernels and of all ranks. Where it is behind what lies on the disk it is made
anew. On other systems than Linux, and with COURSE_FORKS=off, each kernel starts by itself.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from course_lib.base.front_end import IN_COURSE_LAB
from course_lib.cluster.base import temp_dirs
from course_lib.kernels.provisioner import ForkProvisioner
from course_lib.kernels.server import KernelForkServer

__all__ = ["LabForks", "LabProvisioner", "are_wanted", "begin_forks"]

_LOOK_EVERY_S = 0.05
_PATIENCE_S = 10.0  # with the imports: a kernel that starts by itself has them before it as well
_NAMED = 3  # files or variables in a sentence


def are_wanted() -> bool:
    """Whether kernels of this machine can begin so, and nobody has said otherwise."""
    return sys.platform == "linux" and os.environ.get("COURSE_FORKS", "").strip().lower() != "off"


class LabForks:
    """The fork server that this lab asks, and those before it whose kernels still live.

    ``say`` is given a sentence where a kernel starts by itself. ``idle_s``: so long without a kernel, and the server
    ends; the next kernel begins another. 0 keeps it.
    """

    def __init__(self, *, idle_s: float = 0.0, say: Callable[[str], None] = print, **server: Any) -> None:
        self._idle_s, self._say, self._server_options = idle_s, say, server
        self._servers: list[KernelForkServer] = []  # the last one is asked
        self._cannot_begin = False
        self._said: set[str] = set()

    def begin(self) -> None:
        """Begin the process, without waiting for its imports. Safe to repeat."""
        if self._cannot_begin or (self._servers and self._servers[-1].is_alive):
            return
        self._begin_another()

    @property
    def are_ready(self) -> bool:
        """Whether the next kernel need not wait."""
        return bool(self._servers) and self._servers[-1].is_ready

    async def folder_for(self, env: dict[str, str]) -> Path | None:
        """The folder of a server that may fork a kernel with this environment; None where it has to start by itself."""
        self.begin()
        if self._cannot_begin:
            return None
        server = self._servers[-1]
        latest_s = time.monotonic() + _PATIENCE_S
        while not server.is_ready:
            if not server.is_alive:
                self._give_up("the process that imports for it has ended")
                return None
            if time.monotonic() > latest_s:
                return None
            await asyncio.sleep(_LOOK_EVERY_S)
        if changed := server.changed_files():
            self._renew(server, changed)
            return None
        if others := server.other_variables(env):
            self._say_once(f"A kernel starts by itself: its environment has other values of {_some(others)}.")
            return None
        return server.folder

    def close(self) -> None:
        """End all of them, with their kernels. Safe to repeat."""
        for server in self._servers:
            server.close()
            temp_dirs.remove(server.folder)
        self._servers.clear()

    def _renew(self, server: KernelForkServer, changed: list[str]) -> None:
        server.take_no_more()  # its kernels live on
        self._say(
            f"course lab: {_some(changed)}: changed since kernels were prepared. This kernel starts without a "
            "prepared process; later ones use the new state."
        )
        self._begin_another()

    def _begin_another(self) -> None:
        for old in [old for old in self._servers if not old.is_alive]:
            self._servers.remove(old)
            old.close()
            temp_dirs.remove(old.folder)
        try:
            env = {**os.environ, IN_COURSE_LAB: "1"}
            server = KernelForkServer(folder=temp_dirs.make(), idle_s=self._idle_s, env=env, **self._server_options)
        except OSError as error:
            self._give_up(str(error))
            return
        self._servers.append(server)

    def _give_up(self, why: str) -> None:
        self._cannot_begin = True
        self._say_once(f"Kernels start by themselves, which takes some seconds each: {why}.")

    def _say_once(self, sentence: str) -> None:
        if sentence not in self._said:
            self._said.add(sentence)
            self._say(f"course lab: {sentence}")


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:_NAMED])
    return shown if len(names) <= _NAMED else f"{shown} and {len(names) - _NAMED} more"


class LabProvisioner(ForkProvisioner):
    """Begins kernels of this lab as forks of its server."""

    forks: LabForks | None = None  # of this process

    async def folder_to_ask(self, env: dict[str, str]) -> Path | None:
        return None if self.forks is None else await self.forks.folder_for(env)


def begin_forks(idle_minutes: int) -> LabForks:
    """Begin the process that this server's kernels are forked from; with COURSE_FORKS=off there is none."""
    forks = LabForks(idle_s=60.0 * idle_minutes, say=_say)
    if are_wanted():
        LabProvisioner.forks = forks
        forks.begin()
    return forks


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)
