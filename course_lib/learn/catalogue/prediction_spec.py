"""A question that a lesson asks before a run, and what is told after it. Both live beside the lesson's exercises.

The learner's page holds one short line each, ``ask("07.four")`` and ``reveal("07.four", run)``: no model, no
explanation, no misreading is on it. They stand in ``course_lib/learn/exercises/lesson_07/predictions/__init__.py``::

    def _four(run: ScheduleTrace) -> Told:
        return Told(
            measured=round(100 * run.idle_share),
            model=100 * 3 / 7,
            misreadings={25: "That is the share in which ONE device works in a staircase."},
            because="Rank 3 waits for three forwards before its first one, and for three backwards after its last.",
        )

    PREDICTIONS = (
        Asked(name="07.four", question="4 stages, 4 micro-batches: how much is idle?", unit="%", high=100, tell=_four),
    )
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Asked", "Explanation"]


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """What a reveal shows: what the run gave, what the cost model says, and why.

    ``label`` says what stands in the place of a measurement where nothing was measured, such as "computed".
    ``misreadings`` maps a wrong answer, or a function ``(predicted) -> bool``, to the sentence that names what such an
    answer mixes up. ``apart`` is said where run and model disagree: what may be behind it here, and how to find out.
    """

    measured: Any
    because: str
    model: Any = None
    label: str = "measured"
    misreadings: Mapping[Any, str] = field(default_factory=dict)
    apart: str = ""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A prediction of a lesson: what is asked, and ``tell``, a function of what the lesson's cells have run.

    ``choices`` makes it a choice, ``order`` a list to be put in order; otherwise it asks for a number between ``low``
    and ``high``.
    """

    name: str
    question: str
    tell: Callable[..., Explanation]
    unit: str = ""
    choices: Sequence[str] | None = None
    order: Sequence[str] | None = None
    low: float = 0.0
    high: float = 1e15
