"""The learner's own record: one JSON line per event in a file that two kernels may write at once.

A line says what was done, when, and how it went; never what code was written. Nothing here stops a lesson: a
folder that cannot be written is told once.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from course_lib.base.paths import data_dir

__all__ = ["Store", "parse", "record", "store"]

_LOCK_WAIT_S = 1.0
_told: set[str] = set()  # what was already said in this process


@dataclass(frozen=True)
class Store:
    """The events in one file; ``path`` None keeps nothing (under tests)."""

    path: Path | None
    messages: list[str] = field(default_factory=list, compare=False)  # what the learner should know about the file

    def append(self, event: dict[str, Any]) -> None:
        """Add one event. Failures of the file system are told once and otherwise ignored."""
        if self.path is None:
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            _need_file(self.path)
            with _locked(self.path):
                _append(self.path, _line_of(event))
        except OSError as error:
            reason = error.strerror or type(error).__name__
            _tell_once(f"Your progress is not being kept: {self.path} cannot be written ({reason}). Lessons go on.")

    def read(self) -> list[dict[str, Any]]:
        """Every good event, in order. A damaged file is set aside under another name, and its good lines are
        kept.
        """
        events: list[dict[str, Any]] = []
        if self.path is None or not self.path.exists():
            return events
        try:
            _need_file(self.path)
            events, damaged = parse(self.path.read_bytes())
            if damaged:
                with _locked(self.path):
                    events, damaged = parse(self.path.read_bytes())  # again: another kernel may have mended it
                    if damaged:
                        self._set_aside(events, damaged)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            self.messages.append(f"Your progress could not be read whole: {self.path} ({reason}).")
        return events

    def _set_aside(self, events: list[dict[str, Any]], damaged: int) -> None:
        assert self.path is not None
        stamp = datetime.now().strftime("%Y%m%d-%H%M%S-%f")
        aside = self.path.with_name(f"{self.path.stem}-damaged-{stamp}{self.path.suffix}")
        fresh = self.path.with_name(f"{self.path.name}.{os.getpid()}.new")
        fresh.write_bytes(b"".join(map(_line_of, events)))
        self.path.rename(aside)
        fresh.replace(self.path)
        lines = "1 line" if damaged == 1 else f"{damaged} lines"
        self.messages.append(
            f"{lines} of your progress file could not be read. The file was set aside as {aside}; "
            f"the {len(events)} good events are kept."
        )


def _line_of(event: dict[str, Any]) -> bytes:
    """One line of the file; half a character, as a broken name may hold, is written as its number."""
    try:
        return json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
    except UnicodeEncodeError:
        return json.dumps(event, separators=(",", ":")).encode() + b"\n"


def _need_file(path: Path) -> None:
    """Raise ``OSError`` for a pipe or a device under the file's name: to open it could wait for ever."""
    if path.exists() and not path.is_file():
        raise OSError(22, "it is no file")


def parse(data: bytes) -> tuple[list[dict[str, Any]], int]:
    """The events in the bytes of a progress file, and how many lines are no event."""
    events, damaged = [], 0
    for line in data.split(b"\n"):
        if not line.strip():
            continue
        try:
            event = json.loads(line)
            if not (isinstance(event, dict) and isinstance(event["event"], str) and isinstance(event["name"], str)):
                raise ValueError(line)
            events.append(event)
        except (ValueError, KeyError, RecursionError):
            damaged += 1
    return events, damaged


def record(event: str, name: str, **fields: Any) -> None:
    """Write down that something was done ("check", "hint", "solution", "guess", "predict", "quiz", "problem"), and how
    it went. A "guess" is an answer that was locked before a run, a "predict" the same beside model and measurement.
    """
    from course_lib import __version__

    known = {key: value for key, value in fields.items() if value is not None}
    now = datetime.now(UTC).isoformat(timespec="seconds")
    store().append({"time": now, "event": event, "name": name, **known, "course": __version__})


def store() -> Store:
    """The learner's store, or one that keeps nothing where a test is running."""
    if _is_off():
        return Store(None)
    try:
        return Store(data_dir() / "progress.jsonl")
    except RuntimeError as error:  # a user without a home folder, as containers have them
        _tell_once(f"Your progress is not being kept: {error}. COURSE_HOME may name a folder. Lessons go on.")
        return Store(None)


@lru_cache(maxsize=1)
def _is_off() -> bool:
    """Off where ``COURSE_PROGRESS`` says so, inside pytest, in a kernel that pytest (nbval) has started, and where
    nbgrader marks a notebook: that is not the work of who runs it.
    """
    if os.environ.get("NBGRADER_EXECUTION") == "autograde":
        return True
    if os.environ.get("COURSE_PROGRESS", "").lower() in ("off", "0", "no"):
        return True
    return "_pytest" in sys.modules or _started_by_pytest()


def _started_by_pytest() -> bool:
    import psutil

    with contextlib.suppress(psutil.Error, OSError):
        for parent in psutil.Process().parents()[:4]:
            with contextlib.suppress(psutil.Error, OSError):
                words = [Path(word).name for word in parent.cmdline()[:4]]
                if any(word in ("pytest", "py.test") for word in words):
                    return True
    return False


def _append(path: Path, line: bytes) -> None:
    """One write at the end of the file; a write cut short (a full disk) is taken back."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        size_bytes = os.fstat(file).st_size
        if size_bytes and os.pread(file, 1, size_bytes - 1) != b"\n":
            line = b"\n" + line  # the last writer was cut off: do not join its half line
        if os.write(file, line) != len(line):
            os.ftruncate(file, size_bytes)
            raise OSError(28, "No space left on device")
    finally:
        os.close(file)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock beside the file. After a second it goes on without: one write of one line is safe by
    itself.
    """
    try:
        import fcntl
    except ImportError:  # Windows: a single appending write will do
        yield
        return
    file = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        until_s = time.monotonic() + _LOCK_WAIT_S
        while time.monotonic() < until_s:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(0.005)
            except OSError:  # a file system without locks
                break
        yield
    finally:
        os.close(file)


def _tell_once(sentence: str) -> None:
    if sentence not in _told:
        _told.add(sentence)
        print(sentence, file=sys.stderr)
