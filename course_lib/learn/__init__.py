"""What a learner meets: predictions, bets on claims, checks with named mistakes, hints, quizzes and the map of what is
done.
"""

from __future__ import annotations

from course_lib.learn.asking import ask, reveal
from course_lib.learn.betting import bet
from course_lib.learn.checking import check
from course_lib.learn.hints import hint, solution
from course_lib.learn.predict import Predict
from course_lib.learn.progress_map import progress
from course_lib.learn.quizzes import quiz
from course_lib.learn.scoreboard import scoreboard
from course_lib.learn.settling import settle

__all__ = [
    "Predict",
    "ask",
    "bet",
    "check",
    "hint",
    "progress",
    "quiz",
    "reveal",
    "scoreboard",
    "settle",
    "solution",
]


def _prepare_notebook() -> None:
    """In a lesson's first cell: the pictures that its page cannot find. It never fails the import that led here."""
    import contextlib
    import sys

    if "IPython" in sys.modules:
        from course_lib.learn import pictures_here

        with contextlib.suppress(Exception):
            pictures_here.show_what_is_not_beside()


_prepare_notebook()
