"""Which lessons run on this machine, which run in part, and which are blocked, each with its reasons."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from course_lib.devices import Machine
from course_lib.doctor import Finding
from course_lib.lessons.info import LessonInfo, lessons, source_files

__all__ = ["LessonHere", "choose", "judge"]

# A cell that cannot run somewhere says so in these words.
_CELL_NEEDS = re.compile(r"blocked: needs (?P<gpus>a GPU|\d+ GPUs)")
_MAKES_NODES = re.compile(r"^from course_lib\.nodes import ", re.MULTILINE)
_GPUS_OF = {"cpu": 0, "one gpu": 1, "many gpus": 2}


@dataclass(frozen=True)
class LessonHere:
    """``status``: "runs", "in part" or "blocked"; ``reasons`` say why not all of it, and ``remedy`` what to do."""

    label: str
    title: str
    minutes: int
    status: str
    reasons: tuple[str, ...] = ()
    remedy: str = ""


def choose(words: Sequence[str], root: Path) -> list[LessonInfo]:
    """The lessons that words name, in order: "02a" is a part, "02" all parts of it; no word names all lessons.

    Raises:
        ValueError: A word that names none; the text says the nearest.
    """
    known = lessons(root)
    if not known:
        raise ValueError(f"{root / 'notebooks' / 'src'} holds no lesson. Type this in a clone of the course.")
    names = [name for info in known for name in dict.fromkeys((info.label, info.number))]
    for word in words:
        if word not in names:
            near = "0" + word  # "2a" was meant to be "02a"
            if near not in names:
                near = difflib.get_close_matches(word, names, n=1, cutoff=0.0)[0]
            raise ValueError(f"there is no lesson {word!r}; the nearest is {near}.")
    return [info for info in known if not words or {info.label, info.number} & set(words)]


def judge(chosen: Sequence[LessonInfo], here: Machine, doctor: Sequence[Finding], root: Path) -> list[LessonHere]:
    """Each of the lessons, by the machine and by what the doctor found."""
    ills = [finding for finding in doctor if finding.status == "blocked"]
    sources = {path.stem: path for path in source_files(root)}
    return [_judge(info, here, ills, sources[info.stem]) for info in chosen]


def _judge(info: LessonInfo, here: Machine, ills: Sequence[Finding], source: Path) -> LessonHere:
    def told(status: str, reasons: Sequence[str] = (), remedy: str = "") -> LessonHere:
        return LessonHere(info.label, info.title, info.minutes, status, tuple(reasons), remedy)

    needed, found = _GPUS_OF[info.needs], len(here.devices)
    if ills:
        reasons = [f"{ill.name}: {ill.detail}" for ill in ills]
        return told("blocked", reasons, next((ill.remedy for ill in ills if ill.remedy), ""))
    if found < needed:
        nearest = "It can be shown on another machine, or left out."
        return told("blocked", [f"it needs {_gpus(needed)}, and this machine has {_have(here)}"], nearest)
    text = source.read_text(encoding="utf-8")
    return _in_part(told, text, here)


def _in_part(told, text: str, here: Machine) -> LessonHere:  # type: ignore[no-untyped-def]
    reasons = []
    for cell in _CELL_NEEDS.finditer(text):
        wanted = 1 if cell["gpus"] == "a GPU" else int(cell["gpus"].split()[0])
        if len(here.devices) < wanted:
            reasons.append(f"a cell needs {_gpus(wanted)}, and says so")
    if _MAKES_NODES.search(text):
        reasons += _why_no_namespaces()
    return told("in part" if reasons else "runs", reasons)


def _why_no_namespaces() -> list[str]:
    from course_lib.nodes.supervisor.capabilities import find_capabilities

    around = find_capabilities()
    return [] if around.has_namespaces else [f"its nodes meet on loopback, not on a network ({around.reason})"]


def _gpus(number: int) -> str:
    return "a GPU" if number == 1 else f"{number} GPUs"


def _have(here: Machine) -> str:
    if here.devices:
        return _gpus(len(here.devices)).replace("a GPU", "one")
    if here.unusable_devices:
        return f"none that PyTorch can use: {here.gpu_note}"
    return "none"
