"""Which of the GPUs that CUDA shows this process may use: ``COURSE_GPUS``, and Slurm's allocation.

``CUDA_VISIBLE_DEVICES`` comes first: ``gpus.py`` obeys it as CUDA does. Of what it leaves, ``COURSE_GPUS`` names
some or says how many. Where ``CUDA_VISIBLE_DEVICES`` is not set, a job of Slurm keeps to the GPUs that Slurm gave it:
its numbers count all GPUs of the node, also where a control group hides the others, and then nothing is left to do.

Source: Slurm, srun and sbatch manuals, "Output environment variables" (``SLURM_STEP_GPUS``, ``SLURM_JOB_GPUS``).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType

from course_lib.devices.gpus import Device

__all__ = ["VARIABLE", "Choice", "RefusedChoice", "choose"]

VARIABLE = "COURSE_GPUS"
_NONE = ("0", "none", "cpu")
_ADVICE = "Write numbers of GPUs (COURSE_GPUS=0,2), how many (COURSE_GPUS=2), or COURSE_GPUS=none for the CPU"


class RefusedChoice(ValueError):
    """A ``COURSE_GPUS`` that cannot be obeyed. Its sentence is all that a notebook, the command line or a script shows:
    no line of a program is at fault.

    A script whose ``sys.excepthook`` is Python's own gets one that leaves the stack of this error out, and no other's.
    """

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence)
        if sys.excepthook is sys.__excepthook__:
            sys.excepthook = _show

    def _render_traceback_(self) -> list[str]:
        return [f"{self}"]


def _show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if isinstance(error, RefusedChoice):
        print(error, file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, trace)


@dataclass(frozen=True)
class Choice:
    """The GPUs that may be used, in CUDA's order; ``most`` of them at a time (None: all)."""

    devices: tuple[Device, ...]
    most: int | None = None
    note: str = ""


def choose(shown: Sequence[Device], env: Mapping[str, str]) -> Choice:
    """What ``env`` leaves of the GPUs that CUDA shows.

    Raises ``ValueError`` with a sentence for a ``COURSE_GPUS`` that cannot be understood or names no GPU of these.
    """
    allowed = tuple(shown)
    if "CUDA_VISIBLE_DEVICES" not in env:
        allowed = _of_slurm(allowed, env)
    text = env.get(VARIABLE, "").strip()
    if not text:
        return Choice(allowed)
    if text.lower() in _NONE:
        has_gpus = shown or not env.get("CUDA_VISIBLE_DEVICES", "-")
        return Choice((), note=f"{VARIABLE}={text} keeps the course on the CPU." if has_gpus else "")
    if _is_number(text):
        return Choice(allowed, most=int(text))
    return Choice(_named(text, allowed))


def _named(text: str, shown: Sequence[Device]) -> tuple[Device, ...]:
    """The GPUs that a list names, by their numbers or by the beginnings of their UUIDs."""
    chosen: list[Device] = []
    for word in (part.strip() for part in text.removesuffix(",").split(",")):
        if not _is_number(word) and not word.startswith(("GPU-", "MIG-")):
            raise ValueError(f"{VARIABLE}={text!r}: {word!r} is no GPU. {_ADVICE}.")
        if not shown:  # the same setting for every machine of a class: here it has nothing to choose from
            continue
        device = _one(word, text, shown)
        if device in chosen:
            raise ValueError(f"{VARIABLE}={text!r} names {word} twice. {_ADVICE}.")
        chosen.append(device)
    return tuple(chosen)


def _one(word: str, text: str, shown: Sequence[Device]) -> Device:
    if _is_number(word):
        if int(word) >= len(shown):
            raise ValueError(
                f"{VARIABLE}={text!r}: there is no GPU {word} here; CUDA shows {len(shown)}, and the highest number is "
                f"{len(shown) - 1}."
            )
        return shown[int(word)]
    found = [device for device in shown if device.uuid.startswith(word)]
    if len(found) != 1:
        raise ValueError(
            f"{VARIABLE}={text!r}: {len(found)} of the GPUs here have a UUID that begins with {word}; one must. "
            f"{_ADVICE}."
        )
    return found[0]


def _of_slurm(shown: tuple[Device, ...], env: Mapping[str, str]) -> tuple[Device, ...]:
    """The GPUs of this job's step, else of this job, among all of the node; all where Slurm names none of these."""
    numbers = _numbers(env.get("SLURM_STEP_GPUS") or env.get("SLURM_JOB_GPUS") or "")
    boards = {device.board for device in shown}
    if not numbers or len(boards) <= len(numbers) or any(device.is_mig_slice for device in shown):
        return shown  # as many as Slurm gave, or fewer: a control group has hidden the rest
    return tuple(device for device in shown if device.board in numbers) or shown


def _numbers(text: str) -> set[int]:
    """The numbers in "0,2" or "0-3,6"; none where there is anything else."""
    numbers: set[int] = set()
    for word in filter(None, (part.strip() for part in text.split(","))):
        found = re.fullmatch(r"(\d{1,4})(?:-(\d{1,4}))?", word, re.ASCII)
        if found is None:
            return set()
        numbers |= set(range(int(found[1]), int(found[2] or found[1]) + 1))
    return numbers


def _is_number(word: str) -> bool:
    return re.fullmatch(r"\d{1,4}", word, re.ASCII) is not None
