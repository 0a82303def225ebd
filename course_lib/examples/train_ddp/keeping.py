"""What a run keeps: ``last.pt``, ``best.pt`` and ``log.jsonl`` in a folder that one run at a time may write to.

Whoever writes over the only copy loses both when the power goes. So a checkpoint is written beside the old one,
flushed to the disk, and then renamed, which nobody ever sees half done.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import socket
import zipfile
from pathlib import Path
from typing import IO, Any

import torch

from .settings import SettingsError
from .start import Rank, by_rank_0

__all__ = ["RunFolder", "read_checkpoint"]


class RunFolder:
    """The folder of a run; without one (``None``) nothing is kept. Every rank calls; rank 0 alone sees the disk."""

    def __init__(self, me: Rank, folder: Path | None) -> None:
        self.me, self.folder = me, folder
        self.best_accuracy = -1.0  # none so far
        self.lock: IO[str] | None = None
        if folder is not None:
            by_rank_0(me, lambda: self._open(folder))

    def _open(self, folder: Path) -> None:
        """Make the folder and lock it: two runs that write to one would each undo the other's work.

        The system frees a lock when its process ends, however it ends. A loader's workers do not inherit it.
        """
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self.lock = (folder / "lock").open("a+")
        except OSError as error:
            raise SettingsError(f"--out {folder} cannot be written to: {error.strerror}.") from error
        try:
            import fcntl

            fcntl.lockf(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except ImportError:
            return  # Windows
        except (BlockingIOError, PermissionError) as error:
            self.lock.seek(0)
            raise SettingsError(
                f"--out {folder} is in use by {self.lock.read().strip() or 'another run'}. End that run, or give "
                "another folder."
            ) from error
        except OSError:
            return  # a file system without locks
        self.lock.truncate(0)
        self.lock.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        self.lock.flush()

    def save(self, name: str, state: dict[str, Any]) -> None:
        """Rank 0 writes its ``state``, wholly or not at all; all ranks return when it is on the disk, or raise."""
        if self.folder is not None:
            path = self.folder / name
            by_rank_0(self.me, lambda: _write(path, state))

    def load(self, name: str) -> dict[str, Any] | None:
        """What rank 0 saved under this name, on every rank; ``None`` where nothing was. Only rank 0 needs the disk."""
        if self.folder is None:
            return None
        path = self.folder / name
        content = by_rank_0(self.me, lambda: path.read_bytes() if path.exists() else None)
        return None if content is None else read_checkpoint(content, path)

    def note(self, **numbers: float) -> None:
        """Add a line of numbers to the log."""
        if self.me.rank == 0 and self.folder is not None:
            with (self.folder / "log.jsonl").open("a") as log:
                log.write(json.dumps(numbers) + "\n")


def _write(path: Path, state: dict[str, Any]) -> None:
    content = io.BytesIO()  # torch.save into a full disk says "unexpected pos 64"; write() says what it is
    torch.save(state, content)
    draft = path.with_suffix(".draft")  # in the same folder: a rename works within one file system only
    try:
        with draft.open("wb") as file:
            file.write(content.getbuffer())
            file.flush()
            os.fsync(file.fileno())  # on the disk, not in some buffer
        os.replace(draft, path)  # atomic: the name means the old file or the new one, never half of it
        with contextlib.suppress(OSError):  # not every system can
            folder = os.open(path.parent, os.O_RDONLY)
            os.fsync(folder)  # the renaming itself is on the disk
            os.close(folder)
    except OSError as error:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
        kept = "; the one that was there is untouched" if path.exists() else ""
        raise RuntimeError(f"{path} could not be written: {error.strerror}{kept}.") from error


def read_checkpoint(content: bytes, path: Path) -> dict[str, Any]:
    """The state in a file's bytes, on the CPU. ``SettingsError`` for a file that is damaged or no checkpoint.

    The checksums in the file are looked at first, because ``torch.load`` ignores them; and nothing in it is run
    (``weights_only``), so a file from strangers does no harm.
    """
    words = f"{path} is no checkpoint, or was cut off, or damaged. Remove it, or put a good one in its place."
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            if archive.testzip() is not None:
                raise SettingsError(words)
        state = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except SettingsError:
        raise
    except Exception as error:  # parsers raise a dozen kinds
        raise SettingsError(words) from error
    if not isinstance(state, dict):
        raise SettingsError(words)
    return state
