"""Bytes and seconds in words, and the names that course_lib.meter offers."""

from __future__ import annotations

import pytest

import course_lib.meter as meter
from course_lib.meter import bytes_text, time_text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (1024**2 - 1, "1 MiB"),
        (123456789, "118 MiB"),
        (80 * 1024**3, "80 GiB"),
        (1024**6 * 3, "3072 PiB"),
        (-2048, "-2 KiB"),
    ],
)
def test_bytes(size: int, text: str) -> None:
    assert bytes_text(size) == text


@pytest.mark.parametrize(
    ("time_s", "text"),
    [
        (0, "0 ns"),
        (3e-8, "30 ns"),
        (1.5e-6, "1.5 us"),
        (0.0021, "2.1 ms"),
        (0.99996, "1 s"),
        (12.345, "12.3 s"),
        (300, "300 s"),
    ],
)
def test_times(time_s: float, text: str) -> None:
    assert time_text(time_s) == text


def test_every_name_that_meter_offers_is_there() -> None:
    for name in meter.__all__:
        assert getattr(meter, name) is not None
    with pytest.raises(AttributeError, match="it offers"):
        _ = meter.nothing
