"""The list of tests of which some cases wait names tests that there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from breadth import KEPT

TESTS = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("file", KEPT)
def test_what_waits_is_there(file):
    (path,) = TESTS.rglob(file)
    functions = set(re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE))
    assert set(KEPT[file]) <= functions
