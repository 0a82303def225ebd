"""The names of the capstone: each is what it says, also when every module has been imported by itself."""

from __future__ import annotations

import subprocess
import sys

import pytest

CODE = """
import importlib, pkgutil, types
import course_lib.capstone as room
for module in pkgutil.iter_modules(room.__path__):
    importlib.import_module(f"{room.__name__}.{module.name}")
assert not [name for name in room.__all__ if isinstance(getattr(room, name), types.ModuleType)]
"""


@pytest.mark.long
def test_no_name_is_shadowed_by_a_module():
    subprocess.run([sys.executable, "-c", CODE], check=True)
