"""The judge of lesson 08: a trial on each rank, and what its report says of what is ready-made or no tensor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from course_lib.learn.catalogue.exercise import AnswerOutcome, Case, Evidence, Raised
from course_lib.learn.exercises.lesson_08.step import GOES_BACK, NOT_A_TENSOR
from course_lib.learn.exercises.lesson_08.tries import (
    ALIVE,
    BACKWARD,
    CALLED,
    FORWARD,
    HANDED,
    HANDED_IN,
    LEFT,
    NOTHING,
    SENT_BACK,
    UNWAITED,
    WIDE,
)
from course_lib.learn.judging.compare import close_to
from course_lib.learn.judging.judge import RankJudge

__all__ = ["CLOSE", "READY_MADE", "WORLD_SIZES", "by_steps"]

WORLD_SIZES = (2, 3, 4, 5)

# PyTorch's own split layers are a plan over distributed tensors. Ranks look for these calls themselves: to know the
# names, the notebook would have to import distributed tensors, which takes seconds and is done on the ranks already.
READY_MADE = (
    "torch.distributed.tensor.DTensor.from_local",
    "torch.distributed.tensor.distribute_tensor",
    "torch.distributed.tensor.parallel.parallelize_module",
)

CLOSE = close_to(1e-9, 1e-12)


def by_steps(
    cases: Sequence[Case],
    trial: Callable[..., Any],
    *,
    check: Callable[[Any], None] = lambda answer: None,
    words: Mapping[str, str] | None = None,
    timeout_s: float = 6.0,
) -> _StepJudge:
    """Judge an answer by what ``trial(answer, me, *args)`` reports on 2, 3, 4 and 5 ranks.

    ``check(answer)`` may raise ``NotAnAnswer`` before anything is tried. ``words``: how a difference is said under
    names of a report that no other exercise has; the value follows them.
    """
    compare = partial(_compare, words={**_IN_WORDS, **(words or {})})
    return _StepJudge(WORLD_SIZES, tuple(cases), compare, timeout_s, trial, changes=True, check=check)


@dataclass(frozen=True)
class _StepJudge(RankJudge):
    check: Callable[[Any], None] = lambda answer: None

    def __call__(self, answer: Any, forbidden: tuple[str, ...] = ()) -> Evidence:
        self.check(answer)
        evidence = super().__call__(answer, forbidden)
        called = {name for outcome in evidence.outcomes for name in _called(outcome)}
        outcomes = tuple(
            replace(one, got=_without_names(one.got), error=_of_the_answer(one.error)) for one in evidence.outcomes
        )
        return replace(evidence, outcomes=outcomes, called=tuple(sorted({*evidence.called, *called})))


def _of_the_answer(error: Raised | None) -> Raised | None:
    """An error without the line at which this check goes back: it says nothing about the answer."""
    return replace(error, line=None, source="") if error is not None and error.source == GOES_BACK else error


def _called(outcome: AnswerOutcome) -> tuple[str, ...]:
    return outcome.got.get(CALLED, ()) if isinstance(outcome.got, dict) else ()


def _without_names(got: Any) -> Any:
    return {name: one for name, one in got.items() if name != CALLED} if isinstance(got, dict) else got


def _compare(expected: Any, got: Any, *, words: Mapping[str, str]) -> str:
    """The first difference between two reports, said of the answer and not of the report."""
    got = _without_names(got)
    first = next(iter(got.values()), "") if isinstance(got, dict) else ""
    if isinstance(first, str) and first.startswith(NOT_A_TENSOR):
        came = first.removeprefix(NOT_A_TENSOR)
        if came == "None":
            return "nothing came back (`None`); a function gives its result with `return`"
        return f"a tensor is expected, and what came is {came}"
    found = CLOSE(expected, got)
    for name, said in words.items():
        if found.startswith(f"under '{name}'"):
            return said + str(got[name])
    for name, way in ((FORWARD, "forward"), (BACKWARD, "back")):
        if found.startswith(f"under '{name}'"):
            return _of_calls(way, expected[name], got[name])
    return found


def _of_calls(way: str, needed: str, made: str) -> str:
    """What was called where the numbers are right, which are looked at before."""
    enough = "nothing need be sent there" if needed == NOTHING else f"one {needed} is enough"
    is_like_one = made.startswith("all_reduce") and "," not in made  # it may be made of others: see ``tries``
    calls = f"sent what one {made} sends" if is_like_one and needed == NOTHING else f"called {made}"
    return f"the numbers are right, but going {way} this rank {calls}; {enough}"


_IN_WORDS = {
    UNWAITED: "the numbers are right, and this rank ",
    HANDED: "the numbers are right, and your code did not leave all as it was: ",
    LEFT: "the numbers are right, and your code did not leave the rank as it was: ",
    HANDED_IN: "the loss and its gradient are right, but for them this rank handed to collectives ",
    SENT_BACK: "the loss and its gradient are right, and going back this rank sent ",
    WIDE: "the numbers are right, and this rank keeps ",
    ALIVE: "the numbers are right, but something holds on to tensors of every step that is over. The number of these "
    "tensors, for each step: ",
}
