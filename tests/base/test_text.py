"""Texts that several rooms make alike."""

from __future__ import annotations

import pytest

from course_lib.base.text import first_line


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("one\ntwo"), "one"),
        (ValueError("\n  one"), "one"),
        (ValueError(), "ValueError"),
        (RuntimeError("\n"), "RuntimeError"),
    ],
)
def test_an_error_that_says_nothing_is_named_by_its_kind(error: Exception, line: str):
    assert first_line(error) == line
