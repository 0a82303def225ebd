"""What a learner meets: predictions, bets on claims, checks with named mistakes, hints, quizzes and the map of what is
done.

In the order to read:

- ``catalogue/``: What an exercise, a prediction and a quiz question are, as data
- ``display/``: How something is put before a learner: units, verdicts, a page revealed
- ``records/``: What is kept of a learner's work: answers, bets, and a summary
- ``sandbox/``: An answer runs here: watched, within a time limit, its output filtered, its state compared
- ``judging/``: How an answer is judged: values compared, arguments guarded, ranks run, failures named
- ``sick/``: Jobs that are ill, for the clinics: elastic meetings, misconfigured runs
- ``exercises/``: The exercises, predictions and quizzes of every lesson: a room ``lesson_NN`` each, with one file an
  exercise
- ``bets/``: ``bet`` and ``settle``: a stake on a claim before its trial
- ``checks/``: ``check``, ``hint``, ``solution`` and the map of progress
- ``predictions/``: ``ask`` and ``reveal``: a prediction before a run, compared with it afterwards
- ``quizzes/``: ``quiz``: questions at the end of a lesson
- ``paper/``: ``problems``: problems on paper, at real size, with numbers drawn for each learner and each try
- ``builds/``: Whole builds: one cell judged in steps, how far one is, and what it costs beside others
"""

from __future__ import annotations

from course_lib.base.lazy import loads_when_used

_HOME_OF = {
    "Predict": "predictions.predict",
    "ask": "predictions.asking",
    "bet": "bets.betting",
    "bit_flips": "sick.bit_flips",
    "cheapest_row": "exercises.lesson_11.cheapest",
    "build_progress": "builds.progress",
    "check": "checks.checking",
    "elastic": "sick.elastic",
    "hint": "checks.hints",
    "meetings": "sick.meetings",
    "own_number": "records.own_number",
    "planners_side_by_side": "builds.planners",
    "problems": "paper.problems",
    "progress": "checks.progress_map",
    "quiz": "quizzes.quizzes",
    "reveal": "predictions.asking",
    "scoreboard": "bets.scoreboard",
    "settle": "bets.settling",
    "replicas_side_by_side": "builds.replicas",
    "side_by_side": "builds.comparison",
    "sick_job": "sick.sick_job",
    "sick_runs": "sick.sick_runs",
    "solution": "checks.hints",
}

__all__ = sorted(_HOME_OF)
__getattr__, __dir__ = loads_when_used(__name__, _HOME_OF)


def _prepare_notebook() -> None:
    """In a lesson's first cell: the pictures that its page cannot find. It never fails the import that led here."""
    import contextlib
    import sys

    if "IPython" in sys.modules:
        from course_lib.learn.display import pictures_here

        with contextlib.suppress(Exception):
            pictures_here.show_what_is_not_beside()


_prepare_notebook()
