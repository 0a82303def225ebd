"""A learner's place in a trial: a folder with a home, an environment, and a mark on every process of theirs."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from pathlib import Path

from course_lib.base.paths import python_path

__all__ = ["MARK", "TrialUser", "new_token"]

MARK = "COURSE_CLASS_SEAT"  # in the environment of all processes of a seat, however they began


def new_token() -> str:
    """What tells the processes of one trial from those of another."""
    return secrets.token_hex(8)


@dataclass
class TrialUser:
    """One learner. Nothing of theirs lies outside ``folder``."""

    number: int
    token: str
    folder: Path
    kernels: int = field(default=0)

    def __post_init__(self) -> None:
        for name in ("home", "t", "course", "notebooks", "k"):
            (self.folder / name).mkdir(parents=True)

    @property
    def notebooks(self) -> Path:
        return self.folder / "notebooks"

    def environment(self, lesson: str) -> dict[str, str]:
        """What this learner's kernel of a lesson has otherwise than the one who asks."""
        home = self.folder / "home"
        return {
            MARK: f"{self.token}:{self.number}:{lesson}",
            "HOME": str(home),
            "XDG_CACHE_HOME": str(home / ".cache"),
            "XDG_CONFIG_HOME": str(home / ".config"),
            "XDG_DATA_HOME": str(home / ".local" / "share"),
            "IPYTHONDIR": str(home / ".ipython"),
            "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
            "MPLCONFIGDIR": str(home / ".config" / "matplotlib"),
            "TMPDIR": str(self.folder / "t"),
            "COURSE_HOME": str(self.folder / "course"),
            "PYTHONPATH": python_path(),
        }

    def next_kernel(self) -> Path:
        """Where the sockets and the connection file of the next kernel lie: what their names begin with."""
        self.kernels += 1
        return self.folder / "k" / str(self.kernels)

    def disk_bytes(self) -> int:
        """What this learner has written, as the disk holds it."""
        total = 0
        for path in self.folder.rglob("*"):
            try:
                total += path.lstat().st_blocks * 512
            except OSError:  # it has gone meanwhile
                continue
        return total
