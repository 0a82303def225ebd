"""What part d of lesson 07 tells after a run of two messages that are received in another order."""

from __future__ import annotations

import pytest
from told_runs import ToldRuns

from course_lib.learn.exercises.lesson_07.predictions.arrival import ARRIVAL

ASKED = {asked.name: asked for asked in ARRIVAL}


class TestToldRuns(ToldRuns):
    asked, far, guesses = ASKED, [], ()
    runs = (
        ("07.arrival", ([-1.0, -1.0, -1.0],), "the gradient", None),
        ("07.arrival", ([1.0, 1.0, 1.0],), "the activations", None),
    )


@pytest.mark.parametrize(("came", "says"), [([-1.0], "order in which they were sent"), ([1.0], "Do not rely on it")])
def test_what_is_told_is_of_what_came(came, says):
    assert says in ASKED["07.arrival"].tell(came).because
