"""Pythons, and versions of torch: the one that runs this, and others, each in an environment made for the purpose."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from course_lib.environment.settings import for_uv, pip_settings
from course_lib.environment.step import step_environment

__all__ = [
    "NEWEST",
    "PINNED",
    "PYTHONS",
    "Environment",
    "NotMadeError",
    "found_pythons",
    "make",
    "this_environment",
]

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
PINNED, NEWEST = "pinned", "newest"
_OLDEST_TORCH = "2.13"
_ASK_LIMIT_S = 60
_MAKE_LIMIT_S = 3600  # a CUDA build of torch is some gigabytes
_TELL = "import platform, importlib.metadata as m; print(platform.python_version(), m.version('torch'))"
_VERSION = re.compile(r"\d+\.\d+(\.\d+)?(\+\w+)?")

Run = Callable[..., subprocess.CompletedProcess[str]]


class NotMadeError(Exception):
    """An environment cannot be had here. The text says why, in a line."""


@dataclass(frozen=True)
class Environment:
    """A Python with the course's packages: its interpreter, and the versions that it has told."""

    interpreter: str
    python: str
    torch: str
    is_this: bool = False


def this_environment() -> Environment:
    """The one that runs this."""
    return _told(sys.executable, subprocess.run, is_this=True)


def found_pythons(wanted: Sequence[str], *, run: Run = subprocess.run) -> tuple[list[str], list[tuple[str, str]]]:
    """Interpreters, and what was left out and why. ``wanted``: versions, paths, or ``this``; none: all of `PYTHONS`.

    What is asked for by its version is looked for on the PATH, and has to answer: a version manager leaves names with
    nothing behind them. Versions of the Python that runs this are left out without a word, since that is it.
    """
    found, left_out = [], []
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    for word in wanted or PYTHONS:
        if word in ("this", own):
            continue
        name = f"python{word}" if re.fullmatch(r"\d+\.\d+", word) else word
        path = shutil.which(name)
        if path is None:
            left_out.append((f"Python {word}", f"there is no {name} on the PATH"))
        elif not _answers(path, run):
            left_out.append((f"Python {word}", f"{name} is there, and does not run"))
        else:
            found.append(path)
    return found, left_out


def make(folder: Path, python: str, torch: str, *, root: Path, run: Run = subprocess.run) -> Environment:
    """An environment of ``python`` with the packages of requirements.txt, and torch: pinned, newest, or a version.

    It is made in ``folder``, or taken from there when it was made before.

    Raises:
        ValueError: ``torch`` is none of these.
        NotMadeError: It cannot be made.
    """
    if torch not in (PINNED, NEWEST) and not _VERSION.fullmatch(torch):
        raise ValueError(f"torch {torch!r} is no version; give {PINNED}, {NEWEST}, or a version such as 2.14.1.")
    place = folder / re.sub(r"[^\w.-]+", "_", f"{Path(python).name}-torch-{torch}")
    interpreter = str(place / ("Scripts/python.exe" if os.name == "nt" else "bin/python"))
    done = place / "made"
    if not done.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        requirements = folder / f"{place.name}.txt"
        requirements.write_text(_requirements(root, torch), encoding="utf-8")
        for command, env in _commands(python, place, interpreter, requirements, root=root):
            _do(command, env, run)
        place.mkdir(exist_ok=True)
        done.touch()
    return _told(interpreter, run)


def _requirements(root: Path, torch: str) -> str:
    """The pins, with another torch. What torch itself brings along is for the installer to choose."""
    pins = (root / "requirements.txt").read_text(encoding="utf-8")
    if torch == PINNED:
        return pins
    wanted = f"torch>={_OLDEST_TORCH}" if torch == NEWEST else f"torch=={torch}"
    return re.sub(r"^torch==.*$", wanted, pins, flags=re.MULTILINE)


def _commands(
    python: str, place: Path, interpreter: str, requirements: Path, *, root: Path
) -> list[tuple[list[str], dict[str, str]]]:
    """The commands that make it, each with its environment: by uv, told pip's settings, or else by pip."""
    env = step_environment()
    uv = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    settings = pip_settings(sys.executable, cwd=str(root), env=env) if uv else None
    told = None if settings is None else for_uv(settings, env)
    if uv and told is not None and not told.unknown:
        env |= told.variables
        install = [uv, "pip", "install", "--quiet", "--python", interpreter, *told.arguments]
        return [
            ([uv, "venv", "--quiet", "--clear", "--python", python, str(place)], env),
            ([*install, "-r", str(requirements)], env),
        ]
    return [
        ([python, "-m", "venv", "--clear", str(place)], env),
        ([interpreter, "-m", "pip", "install", "--quiet", "-r", str(requirements)], env),
    ]


def _do(command: list[str], env: dict[str, str], run: Run) -> None:
    try:
        done = run(command, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=_MAKE_LIMIT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotMadeError(f"{Path(command[0]).name}: {error}") from None
    if done.returncode:
        lines = [line.strip() for line in f"{done.stdout}\n{done.stderr}".splitlines() if line.strip()]
        raise NotMadeError(f"{Path(command[0]).name} {command[1]}: {lines[-1] if lines else 'it failed'}")


def _answers(path: str, run: Run) -> bool:
    try:
        return (
            run([path, "-c", ""], capture_output=True, stdin=subprocess.DEVNULL, timeout=_ASK_LIMIT_S).returncode == 0
        )
    except (OSError, subprocess.TimeoutExpired):
        return False


def _told(interpreter: str, run: Run, *, is_this: bool = False) -> Environment:
    try:
        done = run([interpreter, "-c", _TELL], capture_output=True, text=True, timeout=_ASK_LIMIT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotMadeError(str(error)) from None
    words = done.stdout.split()
    if done.returncode or len(words) != 2:
        last = (done.stderr.strip().splitlines() or ["it says nothing"])[-1]
        raise NotMadeError(f"torch is not there: {last}")
    return Environment(interpreter, *words, is_this=is_this)
