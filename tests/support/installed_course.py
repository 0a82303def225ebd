"""The course as pip installs it from a wheel: in an environment of its own, beside no clone.

torch and the other packages come from the environment of the tests. No network is needed.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from functools import cache
from pathlib import Path

from small_projects import ROOT
from waiting import crowd

__all__ = ["LIMIT_S", "Installed", "install", "made", "tracked", "why_not"]

LIMIT_S = 600
_BUILD = "from setuptools import build_meta; import sys; print(getattr(build_meta, sys.argv[1])(sys.argv[2]))"


def why_not() -> str:
    """Why no wheel can be built and installed here; empty where it can."""
    for name in ("setuptools", "ensurepip"):
        if importlib.util.find_spec(name) is None:
            return f"this Python has no {name}, by which a wheel is built or installed"
    return "" if tracked() else "this is no checkout of git, which says what belongs to the course"


@cache
def tracked() -> list[str]:
    """The files that belong to the course, by their names below the clone."""
    command = ["git", "ls-files", "-z", "-c", "-o", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return []
    names = filter(None, listed.stdout.decode().split("\0"))
    return sorted(name for name in names if (ROOT / name).is_file())


def copy_of_the_clone(folder: Path) -> Path:
    """A copy to build in: setuptools leaves a folder behind."""
    for name in tracked():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    return folder


def made(what: str, source: Path, out: Path) -> Path:
    """What setuptools makes of ``source``: "build_wheel" or "build_sdist"."""
    out.mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-c", _BUILD, what, str(out)],
        cwd=source,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return out / done.stdout.splitlines()[-1]


class Installed:
    """An environment with the wheel in it, an empty folder to work in, and a home."""

    def __init__(self, folder: Path) -> None:
        self.venv, self.home, self.empty = folder / "venv", folder / "home", folder / "empty"
        for place in (self.home, self.empty):
            place.mkdir()

    @property
    def bin(self) -> Path:
        return self.venv / ("Scripts" if os.name == "nt" else "bin")

    @property
    def lessons(self) -> Path:
        """Where ``course lab`` puts the lessons of who names no folder."""
        return self.home / "one-model-many-gpus"

    @property
    def packages(self) -> Path:
        (found,) = (self.venv / "lib").glob("python*/site-packages")
        return found

    @property
    def env(self) -> dict[str, str]:
        left_out = ("PYTHON", "COURSE_", "JUPYTER", "PYTEST", "VIRTUAL_ENV", "XDG_")
        env = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
        path = f"{self.bin}{os.pathsep}{env['PATH']}"
        return env | {"HOME": str(self.home), "PATH": path, "COURSE_SEATS": "off", "OMP_NUM_THREADS": "1"}

    def run(self, *command: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment in the empty folder, or in another."""
        words = [str(self.bin / command[0]), *command[1:]]
        return subprocess.run(
            words, cwd=cwd or self.empty, env=self.env, capture_output=True, text=True, timeout=LIMIT_S * crowd()
        )

    def course(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.run("course", *words)


def install(wheel: Path, folder: Path) -> Installed:
    """An environment of its own with the wheel, by pip; all else comes from the environment of the tests."""
    here = Installed(folder)
    subprocess.run([sys.executable, "-m", "venv", here.venv], check=True, timeout=LIMIT_S)
    done = here.run("python", "-m", "pip", "install", "--no-index", "--no-deps", str(wheel))
    assert done.returncode == 0, done.stdout + done.stderr
    (here.packages / "of_the_tests.pth").write_text(sysconfig.get_path("purelib") + "\n")
    for name in ("share", "etc"):
        (here.venv / name).mkdir(exist_ok=True)
        (here.venv / name / "jupyter").symlink_to(Path(sys.prefix) / name / "jupyter")
    return here
