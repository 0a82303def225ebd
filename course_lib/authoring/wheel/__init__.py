"""What a wheel holds besides the library: ``files.py`` says which files, ``build_py.py`` has setuptools take them."""

from __future__ import annotations

from course_lib.authoring.wheel.files import files_of

__all__ = ["files_of"]
