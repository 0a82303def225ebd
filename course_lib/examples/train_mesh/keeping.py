# In the course: written by ./course build --programs from course_lib/authoring/programs/sources/keeping.py.jinja,
# so edit that one, with what it includes. In a copy of this folder there is no other: edit this file.
"""What a run keeps in its folder: the last two checkpoints and ``log.jsonl``; one run at a time may write there.

A checkpoint is a folder to which every rank writes its own file. It is written as a draft and gets its name,
``step-00000200``, when every file of it is on the disk. So what has such a name is whole, and a kill at any moment
leaves the ones that were there.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
import socket
from pathlib import Path
from typing import IO, Any

from .settings import SettingsError
from .start import Rank, by_rank_0, of_all

__all__ = ["RunFolder", "checkpoint_of"]

NUM_KEPT = 2  # the last, and one more, should the last be damaged later
_CHECKPOINT = re.compile(r"step-\d{8,}")
_DRAFT = re.compile(r"step-\d{8,}\.[0-9a-f]{8}\.draft")  # being written, or being removed


class RunFolder:
    """The folder of a run. Every rank makes one, and writes to the same disk; rank 0 gives and takes names."""

    def __init__(self, me: Rank, folder: Path) -> None:
        self.me, self.folder = me, folder
        self.lock: IO[str] | None = None
        token = by_rank_0(me, self._open)
        self._check_that_all_see_it(token)
        by_rank_0(me, self._remove_drafts)

    def _open(self) -> str:
        """Make the folder and lock it: two runs that write to one would each undo the other's work.

        The system frees a lock when its process ends, however it ends. Returns what now stands in the lock's file.
        """
        folder = self.folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self.lock = (folder / "lock").open("a+")
        except OSError as error:
            raise SettingsError(f"--out {folder} cannot be written to: {error.strerror}.") from error
        try:
            import fcntl

            fcntl.lockf(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except ImportError:
            pass  # Windows
        except (BlockingIOError, PermissionError) as error:
            self.lock.seek(0)
            raise SettingsError(
                f"--out {folder} is in use by {self.lock.read().strip() or 'another run'}. End that run, or give "
                "another folder."
            ) from error
        except OSError:
            pass  # a file system without locks
        token = f"process {os.getpid()} on {socket.gethostname()}, run {secrets.token_hex(4)}"
        self.lock.truncate(0)
        self.lock.write(token)
        self.lock.flush()
        return token

    def _check_that_all_see_it(self, token: str) -> None:
        """``SettingsError`` on all ranks unless all see what rank 0 wrote: each will write its part of a checkpoint."""
        # Not by rank 0: whoever closes a file that it holds a lock on gives the lock up.
        seen = self.me.rank == 0
        if not seen:
            with contextlib.suppress(OSError):
                seen = (self.folder / "lock").read_text() == token
        all_seen = of_all(self.me, seen)
        if not all(all_seen):
            raise SettingsError(
                f"--out {self.folder} is not the same folder for rank {all_seen.index(False)} as for rank 0. Every "
                "rank writes its part of a checkpoint: give a folder on a disk that all machines share."
            )

    def _remove_drafts(self) -> None:
        """What a killed run was writing, or removing, helps nobody."""
        for entry in self.folder.iterdir():
            if _DRAFT.fullmatch(entry.name):
                self.remove(entry)

    # -- by rank 0 alone ------------------------------------------------------------------------------------------

    def new_draft(self, step: int, about: dict[str, Any]) -> Path:
        """A folder to write the checkpoint after ``step`` steps to. ``about`` goes along, to be read first."""
        draft = self.folder / f"step-{step:08d}.{secrets.token_hex(4)}.draft"
        try:
            draft.mkdir()
            with (draft / "about.json").open("w") as file:
                json.dump({"step": step, **about}, file, indent=1)
                file.flush()
                os.fsync(file.fileno())  # on the disk, not in some buffer
        except OSError as error:
            self.remove(draft)
            raise RuntimeError(f"{checkpoint_of(draft)} could not be saved: {error.strerror}") from error
        return draft

    def publish(self, draft: Path) -> Path:
        """Give a draft, of which every file is on the disk, its name; then let go of all but the last two."""
        path = checkpoint_of(draft)
        _flush_names(draft)
        os.replace(draft, path)  # atomic: there is never half a checkpoint of this name
        _flush_names(self.folder)
        for old in self.checkpoints()[:-NUM_KEPT]:
            # Its name goes first: a kill in between must leave nothing that looks whole.
            without_name = old.with_name(f"{old.name}.{secrets.token_hex(4)}.draft")
            with contextlib.suppress(OSError):
                os.replace(old, without_name)
                self.remove(without_name)
        return path

    def remove(self, draft: Path) -> None:
        """Remove a draft with all that is in it; what cannot be removed now is when a run next opens the folder."""
        shutil.rmtree(draft, ignore_errors=True)

    def checkpoints(self) -> list[Path]:
        """The whole ones, oldest first."""
        found = [entry for entry in self.folder.iterdir() if _CHECKPOINT.fullmatch(entry.name)]
        return sorted(found, key=lambda entry: int(entry.name.removeprefix("step-")))

    def note(self, **numbers: float) -> None:
        """Add a line of numbers to the log."""
        with (self.folder / "log.jsonl").open("a") as log:
            log.write(json.dumps(numbers) + "\n")


def checkpoint_of(draft: Path) -> Path:
    """The name that a draft gets when it is whole."""
    return draft.with_name(draft.name.partition(".")[0])


def _flush_names(folder: Path) -> None:
    """Bring the names in a folder to the disk, and not only the files' contents."""
    with contextlib.suppress(OSError):  # not every system can
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
