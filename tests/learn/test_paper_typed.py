"""Numbers with units as people type them: what is taken, what is told."""

from __future__ import annotations

import math

import pytest

from course_lib.learn.paper.typed import said, scale_of, typed

TAKEN = [
    ("16 GB", "GB", 16),
    ("16GB", "GB", 16),
    ("16", "GB", 16),
    ("16 gb", "GB", 16),
    ("15 GiB", "GB", 15 * 2**30 / 1e9),
    ("16 gigabytes", "GB", 16),
    ("16 000 MB", "GB", 16),
    ("16,1 GB", "GB", 16.1),
    ("1,600", "GB", 1600),
    ("128 Gbit", "GB", 16),
    ("128 gigabits", "GB", 16),
    ("400 Gbit/s", "GB/s", 50),
    ("0.35 s", "ms", 350),
    ("0.35 sec", "ms", 350),
    ("350 μs", "ms", 0.35),
    ("2 hours", "min", 120),
    ("3 days", "h", 72),
    ("40 %", "%", 40),
    ("40 per cent", "%", 40),
    ("1.2e3 tokens/s", "tokens/s", 1200),
    ("1200 token/s", "tokens/s", 1200),
    ("2 tokens/ms", "tokens/s", 2000),
    ("128 GPUs", "GPUs", 128),
    ("1 GPU", "GPUs", 1),
    ("3 k", "steps", 3000),
    ("2.5 x 10^3", "steps", 2500),
    ("2.5×10^3 ms", "s", 2.5),
    ("5 PFLOPs", "FLOP", 5e15),
    ("5 TFLOP/s", "GFLOP/s", 5000),
    ("~12 ms", "ms", 12),
    ("3x", "times", 3),
    ("-4 ms", "ms", -4),
    ("$1.26", "dollars", 1.26),
    ("12 GPU hours", "GPU-hours", 12),
]


@pytest.mark.parametrize(("text", "unit", "value"), TAKEN)
def test_a_number_is_taken_in_the_unit_that_is_asked_for(text, unit, value):
    assert typed(text, unit) == pytest.approx(value, rel=1e-12)


TOLD = [
    ("", "GB", "no number.*12 GB"),
    ("much", "GB", "'much' is no number"),
    ("12 ms", "GB", "asked for in GB, and 'ms'"),
    ("12 GB/s", "GB", "'GB/s' does not measure the same"),
    ("12 s", "tokens", "asked for in tokens"),
    ("12 GiBs/s", "GB", "does not measure the same"),
    ("1e999", "GB", "no finite number"),
    ("1 x 10^999", "GB", "no finite number"),
    ("1.2.3", "GB", "no number"),
    ("GB", "GB", "no number"),
    ("inf", "GB", "no number"),
]


@pytest.mark.parametrize(("text", "unit", "words"), TOLD)
def test_what_is_no_number_in_this_unit_is_told(text, unit, words):
    with pytest.raises(ValueError, match=words):
        typed(text, unit)


def test_a_rate_measures_what_stands_above_and_below():
    assert scale_of("GB/s") == ("bytes/s", 1e9)
    assert scale_of("tokens/day") == ("token/s", pytest.approx(1 / 86400))
    assert scale_of("GPUs") == ("GPU", 1.0)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (16.123, "GB", "16.1 GB"),
        (8.0, "GPUs", "8 GPUs"),
        (1999.4, "ms", "1,999 ms"),
        (0.01234, "s", "0.0123 s"),
        (0.0000123, "s", "1.23e-05 s"),
        (1.5e9, "tokens", "1.5e+09 tokens"),
        (100.0, "%", "100 %"),
        (0.0, "s", "0 s"),
    ],
)
def test_a_value_is_said_with_three_digits(value, unit, text):
    assert said(value, unit) == text


@pytest.mark.parametrize("unit", ["GB", "ms", "%", "GPUs", "tokens/s", "times", "TFLOP/s"])
def test_what_is_said_can_be_typed(unit):
    for value in (0.02, 1.0, 12.34, 999.6, 45678.0):
        assert math.isclose(typed(said(value, unit), unit), value, rel_tol=0.005)
