"""What part h of lesson 05 tells after a run: formats, one scale for many weights, and errors over steps."""

from __future__ import annotations

import pytest
from told_runs import ToldRuns

from course_lib.learn.exercises.lesson_05.predictions.precision import PRECISION

ASKED = {asked.name: asked for asked in PRECISION}


class TestToldRuns(ToldRuns):
    asked, far, guesses = ASKED, (), (0.5, 1, 8, 60, 99)
    runs = (
        ("05.wire_default", ("bfloat16", [260.0, 256.0, 256.0, 260.0]), "sent and summed in bfloat16", None),
        ("05.wire_default", ("bfloat16", [259.0] * 4), "sent in bfloat16, summed in float32", None),
        ("05.wire_default", ("float32", [259.0] * 4), "sent and summed in float32", None),
        ("05.wire_pieces", (300.0, 256.0, 300.0), "the one with 300 messages", None),
        ("05.wire_pieces", (300.0, 300.0, 300.0), "both", None),
        ("05.wire_pieces", (256.0, 256.0, 300.0), "neither", None),
        ("05.wire_outlier", (76.4, 6 / 127), 76, None),
        ("05.wire_eight", ({"int8": 0.7, "float8": 2.6},), "int8, several times nearer", None),
        ("05.wire_eight", ({"int8": 2.0, "float8": 2.6},), "int8, a little nearer", None),
        ("05.wire_eight", ({"int8": 2.0, "float8": 2.0},), "both alike", None),
        ("05.wire_eight", ({"int8": 2.6, "float8": 2.0},), "float8, a little nearer", None),
        ("05.wire_eight", ({"int8": 11.0, "float8": 2.7},), "float8, several times nearer", None),
        ("05.wire_steps", (1.09, 0.348, 0.348), 1.09, None),
        ("05.wire_steps", (3.0, 0.4, 0.348), 3.0, None),
        ("05.wire_stored", (0.4255, 0.3342, 0.4079), "it hardly falls", None),
        ("05.wire_stored", (0.4255, 0.3342, 0.38), "it falls, a little slower", None),
        ("05.wire_stored", (0.4255, 0.3342, 0.3345), "it falls as before", None),
    )


@pytest.mark.parametrize(("dtype", "sums"), [("float32", [259.0] * 4), ("bfloat16", [259.0] * 4)])
def test_a_sum_that_lost_nothing_is_not_told_as_one_that_did(dtype, sums):
    told = ASKED["05.wire_default"].tell(dtype, sums)
    assert "every second whole number" not in told.because
    assert f"took {dtype}" in told.because


def test_weights_that_went_off_are_not_told_as_if_they_had_not():
    told = ASKED["05.wire_steps"].tell(3.0, 0.4, 0.348)
    assert "nothing adds up" not in told.because
