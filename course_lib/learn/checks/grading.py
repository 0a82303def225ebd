"""``check`` while a notebook is marked: the answer is tried in a process of its own, and a miss is an error.

Only the hidden tests of assignments import this (``course_lib/authoring/notebooks/assignments``). nbgrader runs a
notebook from its first cell and gives no points for a cell that raises. What the notebook has made of ``check``, of
PyTorch or of the course by then is not asked: the answer goes to a fresh interpreter, as functions go to ranks, and the
verdict of the ``check`` there counts.
"""

from __future__ import annotations

import dataclasses
import json
import linecache
import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from course_lib.base.paths import python_path
from course_lib.cluster.process.serialization import NotSendable, pack
from course_lib.forms.show import show
from course_lib.learn import exercises
from course_lib.learn.checks.checking import judged
from course_lib.learn.display.verdict import Verdict

__all__ = ["LIMIT_S", "NotPassed", "check", "need_passed"]

LIMIT_S = 540.0  # against hangs alone, a judge has its own patience; below what the assignments let a cell take
_OWN_PROCESS = "This was tried in the notebook's own process, where the notebook may have changed what tries it: {}"
_ENDED = "The process that tried it was ended by your code, or by the system (exit code {}){}."
_LATE = "It was tried for {:g} seconds, and then given up."

_said: dict[str, tuple[str, str]] = {}  # of each check its status and words, as they came from the fresh process


class NotPassed(AssertionError):
    """A check has not passed: no points. The text is the verdict."""


def check(name: str, answer: Any = ...) -> Verdict:
    """What ``check`` says of an answer, by a fresh process; shown, kept for ``need_passed``, and returned."""
    try:
        exercises.exercise(name)
    except Exception as error:
        verdict = Verdict(str(name), "blocked", str(error))
    else:
        verdict = _verdict_of_fresh_process(name, answer)
    _said[name] = verdict.status, str(verdict)
    show(verdict)
    return verdict


def need_passed(name: str) -> None:
    """Raise :class:`NotPassed` unless the last ``check`` of this name has passed."""
    status, words = _said.pop(name, ("", f"{name} was not checked."))
    if status != "passed":
        raise NotPassed(words)


def _verdict_of_fresh_process(name: str, answer: Any) -> Verdict:
    with tempfile.TemporaryDirectory(prefix="course-grading-", ignore_cleanup_errors=True) as path:
        folder = Path(path)
        try:
            parcel = pack(answer, folder=folder, what="the answer")
        except NotSendable as error:
            return _here(name, answer, str(error))
        (folder / "given").write_bytes(pickle.dumps((name, parcel, _cells())))
        try:
            code, said = _run(folder)
        except subprocess.TimeoutExpired:
            return Verdict(name, "too slow", _LATE.format(LIMIT_S))
        try:
            told = json.loads((folder / "verdict").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return Verdict(name, "raised", _ENDED.format(code, f"; it last said: {said}" if said else ""))
    return Verdict(**told["verdict"]) if "verdict" in told else _here(name, answer, told["cannot"])


def _here(name: str, answer: Any, reason: str) -> Verdict:
    """The verdict of this process, for an answer that no other can be given."""
    verdict = judged(exercises.exercise(name), answer)
    return dataclasses.replace(verdict, warning=_OWN_PROCESS.format(reason))


def _cells() -> dict[str, Any]:
    """The texts of the notebook's cells by their file names, so that a verdict can quote a line."""
    return {name: entry for name, entry in linecache.cache.items() if "ipykernel_" in name and len(entry) == 4}


def _run(folder: Path) -> tuple[int, str]:
    """Run the fresh process to its end; its exit code, and the last line that it wrote to stderr."""
    command = [sys.executable, "-P", "-m", "course_lib.learn.checks.grading_process", str(folder)]
    with (folder / "stderr").open("w+", encoding="utf-8", errors="replace") as errors:
        done = subprocess.run(
            command,
            env=os.environ | {"PYTHONPATH": python_path()},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            timeout=LIMIT_S,
        )
        errors.seek(0)
        return done.returncode, next(iter(errors.read().strip().splitlines()[-1:]), "")
