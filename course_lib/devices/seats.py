"""A seat: which GPUs this process uses, chosen so that the notebooks of a class spread over all of a machine.

A process takes its seat once and keeps it, so that timings do not jump. Of the GPUs that it may use it prefers those
that the fewest other processes of the course have taken, as their locked files say (``lock_files.py``), and puts them
first in ``CUDA_VISIBLE_DEVICES``. So "cuda:0" means the same GPU to the notebook, its ranks, a ``torchrun`` that a cell
starts and ``nn.DataParallel``. A variable that already says the same is left as it is, and so is the order once CUDA
has begun in this process, since CUDA reads the variable once.

Programs that this process starts share its seat (``COURSE_SEAT`` tells them).
"""

from __future__ import annotations

import atexit
import json
import os
import re
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from course_lib.devices import gpu_choice
from course_lib.devices.gpus import Device
from course_lib.devices.lock_files import MOST_FILES, Folder, LockFile, UnavailableError, folder_for

__all__ = ["Others", "Survey", "survey", "take", "threads_each", "where"]

_OF_PARENT = "COURSE_SEAT"
# What a file says, as ``_text`` writes it. Of what another user has put there a parser may think for milliseconds.
_OURS = re.compile(r'\{"kind": "\w{1,16}", "gpus": \[((?:"[^"\\]{1,80}"(?:, )?){0,128})\]\}')


@dataclass(frozen=True)
class Others:
    """Other processes of the course on this machine, by their locked files: each with its kind and its GPUs."""

    seats: tuple[tuple[str, frozenset[str]], ...] = ()

    def on(self, gpus: Sequence[Device]) -> Others:
        """Those of them that have one of these GPUs."""
        uuids = {gpu.uuid for gpu in gpus}
        return Others(tuple(seat for seat in self.seats if seat[1] & uuids))

    def __len__(self) -> int:
        return len(self.seats)

    def __str__(self) -> str:
        """ "2 other notebooks", "1 other notebook and 1 program"; "no other notebook"."""
        notebooks = sum(kind == "notebook" for kind, _ in self.seats)
        programs = len(self.seats) - notebooks
        words = [_counted(notebooks, "other notebook")] if notebooks else []
        words += [_counted(programs, "program" if notebooks else "other program")] if programs else []
        return " and ".join(words) or "no other notebook"


@dataclass(frozen=True)
class Survey:
    """What the lock files say: ``others`` is None where there are none, and ``reason`` says why.

    ``is_kept_waiting``: somebody holds the whole folder locked, so that this process has taken its seat without order.
    ``is_crowded``: there were more files than are looked at.
    """

    others: Others | None
    folder: str = ""
    reason: str = ""
    is_kept_waiting: bool = False
    is_crowded: bool = False

    @property
    def warning(self) -> str:
        """What another user of the machine keeps from being known, and what to do; "" where it is nothing."""
        if self.is_kept_waiting:
            found = (
                f"Another process keeps {self.folder} locked, in which notebooks take turns to choose their GPUs: this "
                "one went on without its turn, so two notebooks may have chosen the same."
            )
        elif self.is_crowded:
            found = (
                f"{self.folder}, in which each notebook of the machine has a file, holds more than {MOST_FILES:,}: "
                "this one has looked at so many, and chosen its GPUs and threads by those."
            )
        else:
            return ""
        return f"{found} COURSE_SEATS=/a/folder/of/yours names another place, COURSE_SEATS=off none."


@dataclass
class _Seat:
    gpus: tuple[Device, ...]
    folder: Folder | None = None
    file: LockFile | None = None
    num_claimed: int = 0
    reason: str = ""

    def claim(self, num_gpus: int) -> bool:
        """Say to the others that the first ``num_gpus`` are in use here; what was claimed stays so.

        True where their order was changed first: none was claimed before, and others have come meanwhile.
        """
        if self.file is None or self.folder is None or num_gpus <= self.num_claimed:
            return False
        before = self.gpus
        with self.folder.alone():
            if not self.num_claimed and not _cuda_has_begun():
                self.gpus = _freest_first(self.gpus, self.folder)
            self.num_claimed = num_gpus
            self.file.write(_text(self.gpus[:num_gpus]))
        return self.gpus != before


@dataclass
class _Process:
    seat: _Seat | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)


_here = _Process()


def take(gpus: Sequence[Device], spare: Sequence[Device], *, num_gpus: int, is_narrowed: bool) -> bool:
    """Take this process's seat, ``len(gpus)`` of ``gpus`` and ``spare``, and claim the first ``num_gpus`` of it.

    Later calls keep the seat and only claim more of it; while nothing is claimed, its order may change. True where
    ``CUDA_VISIBLE_DEVICES`` was changed: other GPUs, or another order; ``is_narrowed`` says that CUDA would show more
    than ``gpus`` and ``spare``. Without lock files the seat is ``gpus``.
    """
    with _here.lock:
        if _here.seat is not None:
            seat = _here.seat
            if not seat.claim(min(num_gpus, len(seat.gpus))):
                return False
        else:
            seat = _here.seat = _sit([*gpus, *spare], most=len(gpus), num_gpus=min(num_gpus, len(gpus)))
            if seat.file is not None:
                os.environ[_OF_PARENT] = seat.file.name
            if seat.gpus == tuple(gpus) and not is_narrowed:
                return False
        uuids = ",".join(gpu.uuid for gpu in seat.gpus)
        os.environ["CUDA_VISIBLE_DEVICES"] = uuids
        if os.environ.get(gpu_choice.VARIABLE, "").strip() and uuids:
            os.environ[gpu_choice.VARIABLE] = uuids  # its numbers would count anew
        return True


def survey() -> Survey:
    """Who else of the course is on this machine, now; for this no seat need be taken."""
    seat = _here.seat
    if seat is not None and seat.folder is None:
        return Survey(None, reason=seat.reason)
    try:
        folder = seat.folder if seat is not None and seat.folder is not None else folder_for(os.environ)
    except UnavailableError as error:
        return Survey(None, reason=str(error))
    try:
        others = _others(folder)
        return Survey(others, str(folder.path), is_kept_waiting=folder.keeps_waiting, is_crowded=folder.is_crowded)
    except OSError as error:  # the folder has gone
        return Survey(None, reason=f"{folder.path}: {error.strerror or error}")
    finally:
        if seat is None:
            folder.close()


def where(num_ranks: int, gpus: Sequence[Device], *, cores: int, seen: Survey | None = None) -> str:
    """A sentence on where ranks run and who is there too; "" where there is nothing to say.

    ``gpus`` are those of the ranks, none for ranks on the CPU; ``seen`` is a survey, made now where it is not given.
    """
    seen = survey() if seen is None else seen
    ranks = _counted(num_ranks, "rank")
    if seen.reason.endswith("=off"):
        return ""
    if not gpus:
        if not seen.others:
            return ""
        verb = "is" if len(seen.others) == 1 else "are"
        return (
            f"{ranks} on {_counted(cores, 'core')}; {seen.others} of this course {verb} open here, so timings are of a "
            "shared machine."
        )
    verb = "share" if num_ranks > len(gpus) else "on"
    kinds = ", ".join(dict.fromkeys(gpu.name for gpu in gpus))
    it = "it" if len(gpus) == 1 else "them"
    head = f"{ranks} {verb} {_numbers(gpus)} ({kinds})"
    if seen.others is None:
        return f"{head}; whether other notebooks use {it} is not known here ({seen.reason})."
    here = seen.others.on(gpus)
    if not here:
        return f"{head}; no other notebook of this course uses {it}."
    uses = "uses" if len(here) == 1 else "use"
    some = it if len(gpus) == 1 else f"some of {it}"
    return f"{head}; {here} of this course {uses} {some}, so timings are of shared GPUs."


def threads_each(asked: int, *, num_ranks: int, cores: int, others: Others | None) -> int:
    """Threads for each of ``num_ranks``: what was asked for, or this notebook's share of the cores; at least 1."""
    if not others:
        return asked
    return max(1, min(asked, cores // (len(others) + 1) // num_ranks))


def _sit(candidates: list[Device], *, most: int, num_gpus: int) -> _Seat:
    gpus = tuple(candidates[:most])
    try:
        folder = folder_for(os.environ)
    except UnavailableError as error:
        return _Seat(gpus, reason=str(error))
    try:
        with folder.alone():
            if folder.is_held(os.environ.get(_OF_PARENT, "")):
                return _Seat(gpus, folder)  # of the process that started this one
            if not _cuda_has_begun():
                gpus = _freest_first(candidates, folder)[:most]
            return _Seat(gpus, folder, folder.hold(_text(gpus[:num_gpus])), num_gpus)
    except OSError as error:
        folder.close()
        return _Seat(tuple(candidates[:most]), reason=f"{folder.path}: {error.strerror or error}")


def _freest_first(gpus: Sequence[Device], folder: Folder) -> tuple[Device, ...]:
    """In the order in which others of the course use them, those that nobody uses first."""
    taken = Counter(uuid for _, uuids in _others(folder).seats for uuid in uuids)
    return tuple(sorted(gpus, key=lambda gpu: taken[gpu.uuid]))


def _others(folder: Folder) -> Others:
    texts = folder.held_by_others(own=os.environ.get(_OF_PARENT, ""))
    return Others(tuple(_read(text) for text in texts.values()))


def _text(gpus: Sequence[Device]) -> str:
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    kind = "notebook" if hasattr(shell, "kernel") else "program"
    return json.dumps({"kind": kind, "gpus": [gpu.uuid for gpu in gpus]})


def _read(text: str) -> tuple[str, frozenset[str]]:
    """The kind and the GPUs that a file tells; whatever else stands in it, it is one process with no GPU."""
    if not _OURS.fullmatch(text):
        return "program", frozenset()
    told = json.loads(text)
    return told["kind"], frozenset(told["gpus"])


def _cuda_has_begun() -> bool:
    """Whether CUDA has read ``CUDA_VISIBLE_DEVICES`` in this process; on Linux also where torch does not say so."""
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "cuda") and torch.cuda.is_initialized():
        return True
    try:
        handles = os.listdir("/proc/self/fd")
    except OSError:
        return False
    return any(_leads_to(f"/proc/self/fd/{handle}") == "/dev/nvidia-uvm" for handle in handles)


def _leads_to(link: str) -> str:
    try:
        return os.readlink(link)
    except OSError:
        return ""


def _numbers(gpus: Sequence[Device]) -> str:
    """ "GPU 3", "GPUs 0 and 2", "GPUs 0, 2 and 5": as nvidia-smi counts them."""
    *first, last = [str(gpu.index if gpu.board is None else gpu.board) for gpu in gpus]
    return f"GPUs {', '.join(first)} and {last}" if first else f"GPU {last}"


def _counted(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"


def _leave() -> None:
    seat, _here.seat = _here.seat, None
    if seat is not None and seat.file is not None:
        seat.file.close()


def _become_a_fork() -> None:
    """In a fork of this process: the seat is the parent's, and its end is not to wait for the fork's."""
    seat = _here.seat
    _here.seat, _here.lock = None, threading.Lock()
    if seat is not None and seat.file is not None:
        seat.file.forget()
    if seat is not None and seat.folder is not None:
        seat.folder.close()


atexit.register(_leave)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_become_a_fork)
