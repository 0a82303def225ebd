"""What part e of lesson 08 tells after a count of what a rank holds."""

from __future__ import annotations

import pytest
from told_runs import ToldRuns

from course_lib.learn.exercises.lesson_08.predictions.building import HELD

ASKED = {asked.name: asked for asked in HELD}
WHOLE, TABLE = 100_000, 20_000


class TestToldRuns(ToldRuns):
    asked, guesses = ASKED, (25, 100)
    runs = (("08.held", (40_000, WHOLE, TABLE), 40, 40), ("08.held", (41_000, WHOLE, TABLE), 41, 40))
    far = (("08.held", (80_000, WHOLE, TABLE)),)


@pytest.mark.parametrize(("table", "says"), [(20_000, "20% of this model"), (500, "0% of this model")])
def test_what_is_told_is_of_the_table(table, says):
    assert says in ASKED["08.held"].tell(40_000, WHOLE, table).because
