"""Dump of a hanging job: each rank's flight recorder and the stack of its main thread, in files.

On GPUs PyTorch writes the recorder by itself, when NCCL's watchdog finds a collective that takes too long
(``TORCH_NCCL_DUMP_ON_TIMEOUT``). gloo has no watchdog, so a thread of ours looks after the rank instead. The dump is
PyTorch's own, so ``torchfrtrace FOLDER --prefix rank_`` reads it. Two things are changed in it: gloo leaves the list
of process groups empty, which the reader needs, and names of files are cut to their last part.
"""

from __future__ import annotations

import contextlib
import pickle
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from course_lib.cluster.base.failure import Frame, file_of, is_user_code
from course_lib.cluster.base.open_groups import groups_here, ranks_of
from course_lib.cluster.base.rank import Rank
from course_lib.cluster.base.stack_of_thread import stack_of
from course_lib.cluster.failures.flight_recorder import dump_of, entries_since

__all__ = ["black_box", "write_records"]

_POLLS_PER_S = 10.0


@contextlib.contextmanager
def black_box(me: Rank, folder: str | Path, *, quiet_s: float = 2.0, frames: bool = True) -> Iterator[None]:
    """In this block: if no collective begins or ends on this rank for ``quiet_s`` seconds, write two files, once.

    ``rank_N`` is a pickle of the flight recorder. ``stack_N.txt`` has the main thread's stack as ``py-spy dump``
    prints it, the innermost call first. A block that is over in time writes nothing. Without ``frames`` the record does
    not say which line began a collective: to look that up, PyTorch imports its compiler, which takes a fresh process
    a second.
    Raises ValueError for a folder that is not there and for a time that is not positive.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise ValueError(f"folder is {str(folder)!r}, and there is no such folder; make it first.")
    if not quiet_s > 0:
        raise ValueError(f"quiet_s is {quiet_s}, and it must be more than 0 seconds, such as 2.0.")
    is_over = threading.Event()
    thread = threading.Thread(target=_watch_group, args=(me.rank, folder, quiet_s, is_over, frames), daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _watch_group(rank: int, folder: Path, quiet_s: float, is_over: threading.Event, frames: bool = True) -> None:
    """The thread: count the looks in which nothing new was seen."""
    seen, num_quiet = _progress(), 0
    while not is_over.wait(1 / _POLLS_PER_S):
        now = _progress()
        num_quiet = num_quiet + 1 if now == seen else 0
        seen = now
        if num_quiet >= quiet_s * _POLLS_PER_S:
            write_records(rank, folder, frames=frames)
            return


def write_records(rank: int, folder: Path, *, frames: bool = True) -> None:
    """Write this process's stack and flight recorder, as ``black_box`` does, now."""
    (folder / f"stack_{rank}.txt").write_text(_stack(), encoding="utf-8")
    (folder / f"rank_{rank}").write_bytes(pickle.dumps(_dump(with_frames=frames)))


def _progress() -> tuple[int, int]:
    """How many operations the recorder knows, and how many of them are over."""
    operations = [one for nccl in (False, True) for one in entries_since(0, lambda group: 0, nccl=nccl)]
    return len(operations), sum(operation.is_done for operation in operations)


def _dump(*, with_frames: bool) -> dict[str, Any]:
    """PyTorch's dump, of NCCL's collectives where there are some, with the groups filled in where they are empty."""
    of_host, of_nccl = (dump_of("fr_trace", nccl=nccl) for nccl in (False, True))
    dump: dict[str, Any] = {}
    for one in (of_nccl, of_host):
        if one is not None and not dump.get("entries"):
            dump = pickle.loads(one(True, with_frames))  # what this very process has written
    dump.setdefault("entries", [])
    for entry in dump["entries"]:
        frames = [Frame(f["filename"], f["line"], f["name"]) for f in entry.get("frames", [])]
        entry["frames"] = [{"name": f.function, "filename": file_of(f), "line": f.line_number} for f in _own(frames)]
    groups = {name: sorted(ranks_of(group)) for name, group in groups_here()}
    described = {entry["process_group"][0]: entry["process_group"][1] for entry in dump["entries"]}
    dump["pg_config"] = {
        name: {"name": name, "desc": described.get(name, ""), "ranks": str(ranks)} for name, ranks in groups.items()
    }
    return dump


def _stack() -> str:
    """The main thread's stack in the words of ``py-spy dump``."""
    frames = stack_of(threading.main_thread().ident or 0)[::-1]
    lines = [f"    {frame.function} ({file_of(frame)}:{frame.line_number})" for frame in _own(list(frames))]
    return "\n".join(["Thread (idle): MainThread", *lines]) + "\n"


def _own(frames: list[Frame]) -> list[Frame]:
    """Of frames, the innermost first: those from the caller's code inwards, without the course's own around a call."""
    own = [index for index, frame in enumerate(frames) if is_user_code(frame.filename)]
    kept = frames[: own[-1] + 1] if own else frames
    machinery = str(Path(__file__).parents[2]).replace("\\", "/")
    return [f for f in kept if not f.filename.replace("\\", "/").startswith(machinery) or is_user_code(f.filename)]
