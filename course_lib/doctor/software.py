"""Is the software there: system, Python, PyTorch, packages, the files of the course."""

from __future__ import annotations

import importlib.metadata
import platform
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from course_lib.base.paths import PACKAGE, is_installed
from course_lib.devices import Machine
from course_lib.doctor.finding import Finding
from course_lib.lessons.info import source_files

__all__ = [
    "check_course_files",
    "check_packages",
    "check_python",
    "check_system",
    "check_torch",
    "check_whole",
]

_WANTED = {
    "jupyterlab": (4, 2),
    "ipywidgets": (8, 1),
    "matplotlib": (3, 8),
    "nbval": (0, 11),
    "pytest": (8, 0),
    "cloudpickle": (3, 0),
    "scikit-learn": (1, 4),
    "jupytext": (1, 16),
    "psutil": (5, 9),
    "nvidia-ml-py": (12, 535),
}


def check_system(system: str = sys.platform) -> Finding:
    """Linux or macOS: ranks start from a fork server, which Windows does not have."""
    if system == "win32":
        advice = "Run the course inside WSL 2 (wsl --install), where it is Linux."
        return Finding("system", "blocked", "Windows has no fork server to start ranks from", advice)
    return Finding("system", "ok", f"{platform.system()} {platform.machine()}")


def check_python(version: tuple[int, ...] = sys.version_info[:3]) -> Finding:
    """Python 3.11 or newer."""
    text = ".".join(str(part) for part in version)
    if version < (3, 11):
        return Finding("Python", "blocked", text, "The course needs Python 3.11 or newer: start ./course with one.")
    return Finding("Python", "ok", text)


def check_torch(here: Machine) -> Finding:
    """PyTorch 2.11 or newer, for NVIDIA GPUs or for the CPU."""
    if here.torch_version is None:
        return Finding("PyTorch", "blocked", "not installed", "Install it: run ./course, or pip install torch.")
    detail = f"{here.torch_version}, for " + (f"CUDA {here.torch_cuda}" if here.torch_cuda else "the CPU")
    if _numbers(here.torch_version) < (2, 11):
        return Finding("PyTorch", "blocked", detail, "The course needs PyTorch 2.11 or newer.")
    if "rocm" in here.torch_version:
        return Finding("PyTorch", "warning", here.torch_version, "AMD GPUs are not covered: ranks use the CPU here.")
    return Finding("PyTorch", "ok", detail)


def check_packages(version_of: Callable[[str], str] = importlib.metadata.version) -> list[Finding]:
    """The packages of the course: JupyterLab and ipywidgets by name, the others in one line."""
    findings, others_missing, others_old = [], [], []
    for package, wanted in _WANTED.items():
        at_least = ".".join(str(part) for part in wanted)
        remedy = f"{sys.executable} -m pip install '{package}>={at_least}'"
        named = package in ("jupyterlab", "ipywidgets")
        try:
            found = version_of(package)
        except importlib.metadata.PackageNotFoundError:
            if named:
                findings.append(Finding(package, "blocked", "not installed", remedy))
            else:
                others_missing.append(f"{package}>={at_least}")
            continue
        is_old = _numbers(found) < wanted
        if named:
            findings.append(Finding(package, "warning" if is_old else "ok", found, remedy if is_old else ""))
        elif is_old:
            others_old.append(f"{package}>={at_least}")
    wanting = [*others_missing, *others_old]
    if not wanting:
        return [*findings, Finding("packages", "ok", f"the other {len(_WANTED) - 2} are there")]
    install = " ".join(f"'{requirement}'" for requirement in wanting)
    return [
        *findings,
        Finding(
            "packages",
            "blocked" if others_missing else "warning",
            f"missing or too old: {', '.join(wanting)}",
            f"{sys.executable} -m pip install {install}",
        ),
    ]


def check_whole(
    distributions: Iterable[str] = (*_WANTED, "torch", "numpy", "scipy", "platformdirs"),
) -> Finding:
    """Every file that the packages were installed with is still there."""
    lacking = {}
    for name in distributions:
        try:
            files = importlib.metadata.distribution(name).files or ()
            gone = [file for file in files if file.suffix == ".py" and not Path(str(file.locate())).exists()]
        except (importlib.metadata.PackageNotFoundError, OSError, ValueError):
            continue  # not there at all: `check_packages` says so
        if gone:
            lacking[name] = gone
    if not lacking:
        return Finding("package files", "ok", "all of them are there")
    told = "; ".join(f"{name} lacks {len(gone)}, such as {gone[0]}" for name, gone in lacking.items())
    advice = f"Delete {sys.prefix}, and ./course makes it again. Or install these again."
    if is_installed():
        advice = f"{sys.executable} -m pip install --force-reinstall --no-deps {' '.join(lacking)}"
    return Finding("package files", "blocked", told, advice)


def check_course_files(root: Path) -> Finding:
    """Every lesson's source has its notebook and its solution."""
    sources = [file.stem for file in source_files(root)]
    if not sources:
        advice = "Start from a clone of the course: git clone it, then ./course lab in its folder."
        return Finding("course files", "blocked", f"no lessons under {root / 'notebooks'}", advice)
    wanted = [f"{kind}{name}.ipynb" for name in sources for kind in ("", "solutions/")]
    missing = [name for name in wanted if not (root / "notebooks" / name).is_file()]
    if missing:
        return Finding("course files", "blocked", f"missing: notebooks/{', '.join(missing)}", _again(root))
    return Finding("course files", "ok", f"{len(sources)} lessons, each with its solution")


def _again(root: Path) -> str:
    """How to have a lesson's notebooks that are missing."""
    if is_installed(root):
        return f"Install the package again: {sys.executable} -m pip install --force-reinstall --no-deps {PACKAGE}"
    return "./course build"


def _numbers(version: str) -> tuple[int, ...]:
    """The leading numbers of a version: "2.13.0+cpu" becomes (2, 13, 0)."""
    found = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(part) for part in found.group().split(".")) if found else ()
