"""Stand-ins for packages that a bare machine lacks: as much of each as the lessons need to run as scripts.

Each lies in a folder of its own, and only the folders of packages that are missing are put on the path, so a stand-in
never hides the real thing. The path travels by PYTHONPATH to every process below: ranks, pytest, a lesson.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

__all__ = ["COURSE_PACKAGES", "STAND_INS", "folders", "missing"]

# What the course asks for, by the name under which it is imported; the rest is for its development.
COURSE_PACKAGES = {
    "torch": "torch",
    "numpy": "numpy",
    "matplotlib": "matplotlib",
    "pytest": "pytest",
    "cloudpickle": "cloudpickle",
    "psutil": "psutil",
    "scikit-learn": "sklearn",
    "nvidia-ml-py": "pynvml",
    "jupyterlab": "jupyterlab",
    "ipywidgets": "ipywidgets",
    "nbval": "nbval",
    "pytest-xdist": "xdist",
    "jupytext": "jupytext",
    "tqdm": "tqdm",
    "platformdirs": "platformdirs",
}
STAND_INS = ("ipywidgets", "jupytext", "tqdm")
_COMES_WITH = {"traitlets": "ipywidgets"}  # and may be there without it


def missing() -> tuple[str, ...]:
    """The packages of the course that this Python does not have; a stand-in on the path is not the package."""
    return tuple(name for name, module in COURSE_PACKAGES.items() if not _is_here(module))


def folders(names: tuple[str, ...]) -> list[str]:
    """The folders to put on the path for the packages that are missing."""
    here = Path(__file__).resolve().parent
    wanted = [name for name in STAND_INS if name in names]
    wanted += [name for name, other in _COMES_WITH.items() if other in names and not _is_here(name)]
    return [str(here / name) for name in wanted]


def _is_here(module: str) -> bool:
    try:
        found = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return False
    return found is not None and str(Path(__file__).resolve().parent) not in str(found.origin)
