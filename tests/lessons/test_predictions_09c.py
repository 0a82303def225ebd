"""What part c of lesson 09 tells after a run: as it was, and frank where the model does not meet it."""

from __future__ import annotations

from told_runs import ToldRuns, usual_runs

from course_lib.learn import reveal
from course_lib.learn.exercises.lesson_09.predictions.norm import NORM

ASKED = {asked.name: asked for asked in NORM}
WENT_ON = [4.3, 4.1, 4.11]
CLOSE = [4.3 + 1e-15, 4.1, 4.11]
STATELESS = [4.3, 4.32, 4.10]

RUNS = [  # name, what ran, what is measured, what the model says
    ("09.short", (), "the sum holds some squares several times", None),
    ("09.hidden", (2.2304, 2.1864, 0.441), "too large by less than a tenth", None),
    ("09.hidden", (2.1864, 2.1864, 0.0), "right", None),
    ("09.hidden", (3.154, 2.1864, 2.2), "too large by a tenth or more", None),
    ("09.hidden", (1.0, 2.1864, 0.441), "too small", None),
    ("09.ends", (2.39, 2.11), "too large", None),
    ("09.ends", (2.11, 2.11), "right", None),
    ("09.ends", (2.0, 2.11), "too small", None),
    ("09.folder", (322, 100), 3.22, 3),
    ("09.resumed", (WENT_ON, [CLOSE, WENT_ON, CLOSE, STATELESS]), "nobody's", None),
    (
        "09.resumed",
        (WENT_ON, [CLOSE, WENT_ON, [5.5] * 3, STATELESS]),
        "those of all jobs on another mesh",
        None,
    ),
    (
        "09.resumed",
        (WENT_ON, [CLOSE, CLOSE, CLOSE, [5.5] * 3]),
        "that of the job without optimizer states",
        None,
    ),
    ("09.skipped", (48, 6, 8, 2, 4), 48, 48),
    ("09.skipped", (72, 3, 8, 1, 4), 72, 72),
]
USUAL = usual_runs(RUNS)
FAR = [("09.folder", (700, 100)), ("09.skipped", (0, 6, 8, 2, 4))]


class TestToldRuns(ToldRuns):
    asked, runs, far = ASKED, RUNS, FAR
    one_sided = ("09.hidden", "09.ends", "09.resumed")


def test_a_usual_folder_is_not_called_apart():
    assert not reveal("09.folder", 322, 100).is_apart


def test_numbers_in_an_explanation_are_those_of_the_run():
    because = ASKED["09.hidden"].tell(2.2304, 2.1864, 0.441).because
    assert because.startswith("The team's norm differs from the model's by 2.0 %.")
    assert "by the norms of one device, 2.0 % are" in because
    assert "is 113 % of" in ASKED["09.ends"].tell(2.3879, 2.1052).because
    assert "by up to 0.22 here" in ASKED["09.resumed"].tell(*USUAL["09.resumed"].given).because
