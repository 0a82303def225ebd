"""What ranks tell of their failure, for the learner of an exercise: whose it was, where, and none of our own lines."""

from __future__ import annotations

import linecache
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from course_lib.base.stub_words import has_words_of_a_stub
from course_lib.learn.catalogue.exercise import Raised
from course_lib.learn.judging.failure import (
    NotAttempted,
    is_of_us,
    is_wrong_call,
    shortened,
)
from course_lib.learn.sandbox.call_watcher import is_of_judges
from course_lib.learn.sandbox.state_guard import GRADIENTS_OFF, LEFT

if TYPE_CHECKING:
    from course_lib.cluster.base.failure import Failure, Frame
    from course_lib.cluster.failures.errors import RankError
    from course_lib.cluster.failures.rank_status import RankStatus

__all__ = ["of_ranks"]

_RESULT = re.compile(r"the result of rank (\d+)\[0\](?:\.value)?")  # a judge's own names stand behind the number


def of_ranks(error: RankError, world_size: int, limit_s: float, answer: Any) -> Raised:
    """The failure of a call on ``world_size`` ranks, in which ``answer`` was tried for at most ``limit_s`` seconds.

    When every rank raised the same at the same line, which one came first is chance, and nobody is named. Lines of
    the judges are left out, but where ``answer`` is an example of ours, which stands for a learner's. Raises
    ``NotAttempted`` for the error of a stub.
    """
    from course_lib.cluster.failures.stands_of_ranks import stands_of

    with_ours = is_of_us(answer)
    failures = {rank: _failure(failure, with_ours) for rank, failure in error.failures.items()}
    statuses = {rank: _status(status, with_ours) for rank, status in error.statuses.items()}
    first = None if error.failure is None else failures[error.failure.rank]
    return replace(
        _told(error, first, failures, statuses, world_size, limit_s), stands=stands_of(statuses, failures, first)
    )


def _told(
    error: RankError,
    first: Failure | None,
    failures: dict[int, Failure],
    statuses: dict[int, RankStatus],
    world_size: int,
    limit_s: float,
) -> Raised:
    if first is None:
        return _never_ended(error, statuses, world_size, limit_s)
    story = _story(first, {**statuses, **failures}, world_size)
    if first.kind != "raised":
        head, _, rest = _RESULT.sub(r"what your function returned on rank \1", story).partition("\n")
        return Raised(type(error).__name__, head[:1].upper() + head[1:], story=rest.strip("\n"))
    is_stubs = first.type_name == "NotImplementedError" and has_words_of_a_stub(first.message)
    if is_stubs and _is_raised_at(first.where):
        raise NotAttempted from None
    return _raised(first, failures, world_size, story)


def _raised(first: Failure, failures: Mapping[int, Failure], world_size: int, story: str) -> Raised:
    from course_lib.base.text import rank_list

    where, kind = first.where, first.type_name
    same = [rank for rank, one in failures.items() if _what(one) == _what(first)]
    on_all = len(same) == world_size
    whose = "on every rank" if on_all else rank_list(same)
    line, source = None, ""
    if where is not None and _is_the_answers(where, kind, first.message):
        line, source = where.line_number, _source(where)
    if line is None and GRADIENTS_OFF in getattr(first.exception, "__notes__", ()):
        return Raised(LEFT, f"Your code {GRADIENTS_OFF}, and what came after it needs them ({whose})")
    message = f"{shortened(' '.join(first.message.split()))} ({whose})".lstrip()
    return Raised(kind, message, line, source, "" if on_all else story)


def _what(failure: Failure) -> tuple[Any, ...]:
    """What tells two failures apart: kind and line, and the words where there is no line. Words may name the rank."""
    where = failure.where
    return failure.type_name, where, failure.message if where is None else ""


def _is_the_answers(where: Frame, kind: str, message: str) -> bool:
    """Whether a line is the learner's: else it is a library's, or a judge's that could not call the answer."""
    from course_lib.cluster.base.failure import is_user_code

    return is_user_code(where.filename) and not is_wrong_call(kind, message, where.filename)


def _is_raised_at(where: Frame | None) -> bool:
    """Whether a person's line raises, as a stub's does; PyTorch has the same error for what a device lacks."""
    source = "" if where is None else _source(where)
    return where is not None and (not source or "raise " in source)


def _story(first: Failure, others: dict[int, Failure | RankStatus], world_size: int) -> str:
    from course_lib.cluster.failures.report import failed_story

    return failed_story(first, {rank: o for rank, o in others.items() if rank != first.rank}, world_size)


def _never_ended(error: RankError, statuses: Mapping[int, RankStatus], world_size: int, limit_s: float) -> Raised:
    """Of ranks that could not end, or that did not end in time: who, and where they stood."""
    from course_lib.cluster.failures.report import stuck_story

    head, _, story = stuck_story(statuses, world_size, timeout_s=None).partition("\n")
    story = story.strip("\n")
    if error.is_deadlock:
        return Raised(type(error).__name__, head, story=story)
    running = [one for one in statuses.values() if one.state in ("running", "silent") and not one.is_blocked]
    late = running or [one for one in statuses.values() if one.state not in ("returned", "absent")]
    return Raised(
        type(error).__name__,
        _were_late(late, world_size, "ran on" if running else "waited", limit_s, error),
        story=story,
        is_late=True,
        advice="Does a loop never end?" if running else "",
    )


def _were_late(late: list[RankStatus], world_size: int, did: str, limit_s: float, error: RankError) -> str:
    """Rank 1 of 2 ran on for 10 seconds and was stopped, at line 8 (`while True:`)"""
    from course_lib.base.text import rank_list

    who = rank_list([one.rank for one in late]).capitalize()
    uncounted = error.uncounted.in_words() if error.uncounted is not None else ""
    clock = f" ({uncounted})" if uncounted else ""
    was = "was" if len(late) == 1 else "were"
    places = dict.fromkeys(_at(one.where) for one in late if one.where is not None)
    at = f", at {' and '.join(places)}" if places else ""
    return f"{who} of {world_size} {did} for {limit_s:g} seconds{clock} and {was} stopped{at}"


def _at(where: Frame) -> str:
    source = _source(where)
    return f"line {where.line_number}" + (f" (`{source}`)" if source else "")


def _source(where: Frame) -> str:
    return (where.line or linecache.getline(where.filename, where.line_number)).strip()[:120]


def _failure(failure: Failure, with_ours: bool) -> Failure:
    if with_ours:
        return failure
    chain = tuple(
        replace(cause, frames=tuple(frame for frame in cause.frames if not is_of_judges(frame.filename)))
        for cause in failure.chain
    )
    return replace(failure, chain=chain)


def _status(status: RankStatus, with_ours: bool) -> RankStatus:
    """Each frame keeps its place, since the innermost one tells whether a rank waits."""
    if with_ours:
        return status
    frames = tuple(
        replace(frame, filename="<judge>") if is_of_judges(frame.filename) else frame for frame in status.frames
    )
    return replace(status, frames=frames)
