"""Numbers keep three digits, and none after the point where there are three before it."""

from __future__ import annotations

import pytest

from course_lib.plan.inputs.numbers import three_digits


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0.1234, "0.123"), (0.5, "0.500"), (2.2, "2.20"), (79.0, "79.0"), (99.94, "99.9"), (99.96, "100"),
        (4020.4, "4,020"), (1234567.0, "1,234,567"),
    ],
)  # fmt: skip
def test_three_digits(value: float, said: str) -> None:
    assert three_digits(value) == said
