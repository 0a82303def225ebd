"""How a wheel is built: as setuptools does, and the course's files beside the library.

setuptools takes ``BuildPy`` by pyproject.toml, and runs this file by its path, in an environment that cannot import the
course. An editable installation copies nothing, since it reads the clone itself.
"""

from __future__ import annotations

import runpy
import shutil
from pathlib import Path

from setuptools.command.build_py import build_py

__all__ = ["BuildPy"]

_ROOT = Path(__file__).resolve().parents[3]
_FILES_OF = runpy.run_path(str(Path(__file__).with_name("files.py")))["files_of"]  # by its path, as this file is run
_PLACE = "course_lib/_course"  # `paths.INSTALLED`; what that needs cannot be imported here


class BuildPy(build_py):  # type: ignore[misc]
    """Builds the library as setuptools does, and lays the course's files into it."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        place = Path(self.build_lib, _PLACE)
        shutil.rmtree(place, ignore_errors=True)  # an earlier build's, which may hold what has gone
        for name in _FILES_OF(_ROOT):
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(_ROOT / name, place / name)
