"""Looks every few seconds at what each learner's processes take together: memory, by shares, and their number."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from typing import Self

import psutil

from course_lib.authoring.bench.class_of_users.users import User

__all__ = ["LearnerWatch"]

_EVERY_S = 2.0


class LearnerWatch:
    """The most that each learner took at a time. Pages that several processes share count in parts (PSS)."""

    def __init__(self, users: Sequence[User]) -> None:
        self._users = list(users)
        self._servers: dict[str, psutil.Process] = {}
        self.most_bytes = [0.0] * len(users)
        self.most_processes = [0.0] * len(users)
        self.most_bytes_of_all = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look_again, daemon=True)

    def follow(self, user: User, pid: int) -> None:
        """Count this process and all below it as the user's."""
        with contextlib.suppress(psutil.Error):
            self._servers[user.name] = psutil.Process(pid)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look_again(self) -> None:
        while not self._over.wait(_EVERY_S):
            of_all = 0.0
            for number, user in enumerate(self._users):
                processes = self._processes(user)
                size = sum(map(_bytes, processes))
                of_all += size
                self.most_bytes[number] = max(self.most_bytes[number], size)
                self.most_processes[number] = max(self.most_processes[number], float(len(processes)))
            self.most_bytes_of_all = max(self.most_bytes_of_all, of_all)

    def _processes(self, user: User) -> list[psutil.Process]:
        server = self._servers.get(user.name)
        if server is None:
            return []
        with contextlib.suppress(psutil.Error):
            return [server, *server.children(recursive=True)]
        return []


def _bytes(process: psutil.Process) -> float:
    with contextlib.suppress(psutil.Error):
        known = process.memory_full_info()
        return float(getattr(known, "pss", known.uss))
    return 0.0
