"""A Python as it may lie on a machine with GPUs and no network: of the course's packages it has a few alone."""

from __future__ import annotations

import importlib.metadata
import os
import re
import site
import venv
from pathlib import Path

from packaging.requirements import Requirement

ALLOWED = (
    "torch",
    "numpy",
    "matplotlib",
    "pytest",
    "cloudpickle",
    "psutil",
    "scikit-learn",
    "nvidia-ml-py",
)


def make_plain_python(folder: Path) -> Path:
    """An environment in ``folder`` with the allowed packages and what they need, as links; its interpreter."""
    venv.create(folder, symlinks=True, with_pip=False)
    place = next((folder / "lib").glob("python*")) / "site-packages"
    for name in sorted(_with_needs(ALLOWED)):
        for file in importlib.metadata.files(name) or ():
            top = file.parts[0]
            source, target = Path(site.getsitepackages()[0]) / top, place / top
            if top not in ("..", "__pycache__") and source.exists() and not target.exists():
                os.symlink(source, target)
    return folder / "bin" / "python"


def _with_needs(names: tuple[str, ...]) -> set[str]:
    found: set[str] = set()
    ahead = list(names)
    while ahead:
        name = re.sub(r"[-_.]+", "-", ahead.pop()).lower()
        if name in found:
            continue
        try:
            needs = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue  # for another system
        found.add(name)
        wanted = [Requirement(text) for text in needs]
        ahead += [one.name for one in wanted if one.marker is None or one.marker.evaluate({"extra": ""})]
    return found
