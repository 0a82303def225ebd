"""What a wheel holds besides the library: the files of a clone's top level that a learner, or a verb, reads.

setuptools takes ``BuildPy`` by pyproject.toml, in a process that has not imported the rest of the course. An editable
installation copies nothing, since it reads the clone itself. Tests, and what only a clone needs, stay out.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools.command.build_py import build_py

__all__ = ["BuildPy", "files_of"]

_ROOT = Path(__file__).resolve().parent.parent
_PLACE = "course_lib/_course"  # `paths.INSTALLED`; nothing of the course can be imported here
_PATTERNS = (
    "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", "requirements.txt", "environment.yml",
    "notebooks/[0-9][0-9]*_*.ipynb", "notebooks/glossary.md",
    "notebooks/src/[0-9][0-9]*_*.py", "notebooks/solutions/[0-9][0-9]*_*.ipynb",
    "assets/*.png", "assets/measured/*.json", "assets/published/*", "docs/**/*",
)  # fmt: skip


def files_of(root: Path) -> list[str]:
    """The names, below ``root``, of the files that a wheel takes; no hidden ones, and no lesson that somebody keeps."""
    found = {
        path.relative_to(root).as_posix()
        for pattern in _PATTERNS
        for path in root.glob(pattern)
        if path.is_file() and "(" not in path.name
    }
    return sorted(name for name in found if not any(part.startswith(".") for part in name.split("/")))


class BuildPy(build_py):  # type: ignore[misc]
    """Builds the library as setuptools does, and lays the course's files into it."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        place = Path(self.build_lib, _PLACE)
        shutil.rmtree(place, ignore_errors=True)  # an earlier build's, which may hold what has gone
        for name in files_of(_ROOT):
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(_ROOT / name, place / name)
