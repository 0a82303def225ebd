"""Installs the packages: by uv, in seconds, and by pip where uv cannot be had or cannot do it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from course_lib.environment.failures import StepFailed
from course_lib.environment.settings import ForUv, for_uv, pip_settings
from course_lib.environment.step import Steps, say, step_environment

__all__ = ["install"]

_UV = "uv>=0.5"  # where none is on the PATH
_ELSEWHERE = {"UV_PYTHON", "UV_SYSTEM_PYTHON", "UV_TARGET", "UV_PREFIX"}  # they point at another environment
_PROBE_LIMIT_S = 20
_PACKAGES = "Installing the packages"
_COURSE = "Installing the course"


def install(python: str, root: str, steps: Steps) -> None:
    """Put requirements.txt and the project itself into the environment of `python`.

    Raises StepFailed with the true reason when neither uv nor pip could.
    """
    env = step_environment()
    settings = pip_settings(python, cwd=root, env=env)
    told = None if settings is None else for_uv(settings, env)
    if told is None:
        say("pip cannot tell its settings, so pip does the work; that takes minutes.")
    elif told.unknown:
        say(f"uv cannot be told pip's setting {', '.join(told.unknown)}, so pip does the work: minutes.")
    else:
        uv = _on_path(env) or _beside(python) or _fetched(python, steps)
        if uv is not None and _by_uv(uv, told, python, root, steps):
            return
    _by_pip(python, root, steps)


def _by_uv(uv: str, told: ForUv, python: str, root: str, steps: Steps) -> bool:
    """Whether uv has done it. Raises where pip would fare no better: a full disk, a release for other Pythons."""
    env = {name: value for name, value in step_environment().items() if name not in _ELSEWHERE} | told.variables
    command = [uv, "pip", "install", "--python", python, *told.arguments]
    try:
        steps.run([*command, "-r", "requirements.txt"], _PACKAGES, env=env)
        steps.run([*command, *_editable(root)], _COURSE, env=env)
    except StepFailed as error:
        if error.is_final:
            raise
        say(f"{error}\nThat was uv; once more with pip, which takes minutes.")
        return False
    return True


def _by_pip(python: str, root: str, steps: Steps) -> None:
    # What Python needs of compiled files, the last step of the set-up makes; pip would make them all.
    command = [python, "-m", "pip", "install", "--no-compile"]
    steps.run([*command, "-r", "requirements.txt"], f"{_PACKAGES} with pip")
    steps.run([*command, *_editable(root)], f"{_COURSE} with pip")


def _editable(root: str) -> list[str]:
    # setuptools has come with the packages, so building the project itself fetches nothing.
    return ["--no-deps", "--no-build-isolation", "-e", root]


# --- Where uv is ----------------------------------------------------------------------------------


def _on_path(env: dict[str, str]) -> str | None:
    path = shutil.which("uv", path=env.get("PATH"))
    return path if path is not None and _answers(path) else None


def _beside(python: str) -> str | None:
    path = str(Path(python).with_name("uv.exe" if os.name == "nt" else "uv"))
    return path if _answers(path) else None


def _fetched(python: str, steps: Steps) -> str | None:
    """uv, put into the new environment by pip; None where that cannot be done."""
    # Few tries: pip, which would go on without it, makes its own.
    command = [python, "-m", "pip", "install", "--retries", "1", "--timeout", "15", _UV]
    try:
        steps.run(command, "Fetching uv, which installs in seconds")
    except StepFailed as error:
        say(f"uv cannot be had here: {error.reason.rstrip('.')}. Going on with pip, which takes minutes.")
        return None
    return _beside(python)


def _answers(path: str) -> bool:
    """Whether this is uv, and works: a version manager leaves shims with nothing behind them."""
    try:
        done = subprocess.run(
            [path, "--version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=_PROBE_LIMIT_S
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0 and done.stdout.startswith(b"uv ")
