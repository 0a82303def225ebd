"""What part g of lesson 05 tells after a run of a weight that was emptied and filled."""

from __future__ import annotations

import pytest
from told_runs import ToldRuns

from course_lib.learn.exercises.lesson_05.predictions.refill import REFILL

ASKED = {asked.name: asked for asked in REFILL}


class TestToldRuns(ToldRuns):
    asked, far, guesses = ASKED, [], ()
    runs = (
        ("05.refill", ("refused",), "it refuses with an error", None),
        ("05.refill", ("right",), "it gives the right gradients", None),
        ("05.refill", ("wrong",), "it gives wrong gradients", None),
    )


@pytest.mark.parametrize("came", ["right", "wrong"])
def test_a_run_that_was_not_refused_is_not_told_as_one(came):
    told = ASKED["05.refill"].tell(came)
    assert "refuses" not in told.because
