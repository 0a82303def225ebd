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
