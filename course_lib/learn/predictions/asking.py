"""``ask("07.four")`` and ``reveal("07.four", run)``: a lesson's questions, fetched by their name."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from course_lib.learn import exercises
from course_lib.learn.catalogue.prediction_spec import Asked, Explanation
from course_lib.learn.display.revealed import Reveal
from course_lib.learn.predictions.predict import Predict

__all__ = ["ask", "reveal"]


def ask(name: str) -> Predict:
    """The question of this name, as the last line of a cell a form to answer it; ``.commit(12)`` answers in code.

    Raises ``ValueError`` for a name that no lesson has, with the nearest one.
    """
    return _form_of(exercises.prediction(name))


def reveal(name: str, *runs: Any, beside: Mapping[str, Any] | None = None, **named_runs: Any) -> Reveal:
    """Show the answer beside what was run and what the cost model says. ``runs`` are what the cell above has made.

    ``beside`` is what ``mine.beside`` gave: where the learner's own was run too, a sentence says what it cost.

    Raises ``ValueError`` for a name that no lesson has, and where what was run is missing or is not what is told of.
    """
    asked = exercises.prediction(name)
    yours = _yours(beside) if beside is not None else ""
    told = _told(asked, runs, named_runs)
    return _form_of(asked).reveal(
        measured=told.measured,
        model=told.model,
        label=told.label,
        because=told.because,
        misreadings=told.misreadings,
        apart=told.apart,
        yours=yours,
    )


def _yours(beside: Mapping[str, Any]) -> str:
    # It takes the meter along, so only where there are runs to tell of.
    from course_lib.learn.predictions.own_cost import cost_in_words

    return cost_in_words(beside)


def _form_of(asked: Asked) -> Predict:
    return Predict(
        asked.name, asked.question, unit=asked.unit, choices=asked.choices, order=asked.order, low=asked.low,
        high=asked.high,
    )  # fmt: skip


def _told(asked: Asked, runs: tuple[Any, ...], named_runs: dict[str, Any]) -> Explanation:
    wanted = inspect.signature(asked.tell)
    try:
        wanted.bind(*runs, **named_runs)
    except TypeError:
        line = f'reveal("{asked.name}"{"".join(f", {one}" for one in wanted.parameters)})'
        given = [*map(repr, runs), *(f"{key}={value!r}" for key, value in named_runs.items())]
        raise ValueError(
            f"{asked.name} tells of what the cells above have run, so write {line}; it was given "
            f"{', '.join(text[:40] for text in given) or 'nothing'}."
        ) from None
    return asked.tell(*runs, **named_runs)
