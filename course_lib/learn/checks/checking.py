"""``check("07.split", split)``: try a learner's answer and say what was seen. It never raises."""

from __future__ import annotations

import contextlib
import inspect
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from course_lib.base.front_end import taken_down
from course_lib.forms.show import show
from course_lib.learn import exercises
from course_lib.learn.catalogue.exercise import AnswerOutcome, Evidence, Exercise, Mistake, Raised
from course_lib.learn.display.repr_cleanup import folded
from course_lib.learn.display.verdict import Verdict
from course_lib.learn.judging.compare import difference
from course_lib.learn.judging.failure import (
    NotAnAnswer,
    NotAttempted,
    describe,
    empty_methods,
    is_stub,
    says_your_turn,
)
from course_lib.learn.judging.judge import AGAIN
from course_lib.learn.records.store import record
from course_lib.learn.sandbox.forbidden_names import mentions
from course_lib.learn.sandbox.output_filter import own_warnings
from course_lib.learn.sandbox.sandbox import (
    CappedText,
    TimeIsUp,
    kept_state,
    running_on,
    threads_of_a_person,
    time_limit,
)
from course_lib.learn.sandbox.state_guard import GRADIENTS_OFF, LEFT, LEFT_BEHIND, RIGHT_BUT_OFF, put_back

__all__ = ["check", "checked", "judged"]

_RANKS = ("RankTimeout", "RankFailed")  # the message tells of ranks, not of a line
_STUB = "There is a stub left to fill{}. Write your answer in the cell, run it, then run this check again."

_GENERATOR = (
    "Your function is a generator: it has a `yield` in it, so calling it runs nothing of it. Give what it has with "
    "`return`."
)
_NONE = (
    "None was given. Give the function itself, without brackets behind it: with brackets it is called, and what it "
    "returned was given."
)
_NO_VALUE = "None was given, where a value is asked for."
_KEEPS = (
    "Each first call was right. Something is kept from one call to the next: in a default argument, in a global, or on "
    "what the function is given."
)

_LEFT = (
    "The results are right, and your code {}. Whatever runs next meets that; turn it back, also where something fails, "
    "as a `with` block does."
)

_STILL_RUNS = "The results are right, and your code is not done when it returns."


def check(name: str, answer: Any = ...) -> Verdict:
    """Try ``answer`` on the exercise of this name; show the verdict and return it. Never raises.

    ``answer`` is what the exercise asks for: a function (without calling it), a class, or a value. It meets
    copies of every input, has a time limit, and leaves random states as they were.
    """
    try:
        exercise = exercises.exercise(name)
    except Exception as error:
        verdict = Verdict(str(name), "blocked", str(error))
        show(verdict)
        return verdict
    return checked(exercise, answer)


def checked(exercise: Exercise, answer: Any) -> Verdict:
    """``check`` for who has the exercise itself: its verdict shown, recorded and returned."""
    verdict = judged(exercise, answer)
    record("check", exercise.name, status=verdict.status, mistake=verdict.mistake)
    show(verdict)
    return verdict


def judged(exercise: Exercise, answer: Any) -> Verdict:
    """The verdict on an answer, shown to nobody and recorded nowhere."""
    text, threads = CappedText(), threads_of_a_person()
    status, message = "raised", ""
    more: dict[str, Any] = {}
    try:
        with _quiet(text), kept_state():
            status, message, more = _try(exercise, answer)
    except NotAttempted as error:
        status, message = "not attempted", _STUB.format(f": {error}" if error.args else "")
    except NotAnAnswer as error:
        status, message = "not yet", str(error)
    except TimeIsUp as error:
        status, message = "too slow", _ran_on(exercise, error, answer)
    except KeyboardInterrupt:
        status, message = "blocked", "The check was interrupted. Run it again when you are ready."
    except BaseException as error:
        if says_your_turn(error):
            status, message = "not attempted", _STUB.format("")
        else:
            message = f"Your code raised {_named(describe(error, answer))}."
    if runs_on := running_on(threads):
        status, message = ("not yet", _STILL_RUNS) if status == "passed" else (status, message)
        message = f"{message} {runs_on}".lstrip()
    more |= {part: folded(more[part]) for part in ("evidence", "details") if part in more}
    return Verdict(exercise.name, status, folded(message), printed=text.text, **more)


@contextlib.contextmanager
def _quiet(text: CappedText) -> Iterator[None]:
    """Keep what the answer prints, and the warnings that its own code gives."""
    with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text), own_warnings(), taken_down():
        yield


def _try(exercise: Exercise, answer: Any) -> tuple[str, str, dict[str, Any]]:
    if is_stub(answer):
        raise NotAttempted(*filter(None, [empty_methods(answer)]))
    _need_what_is_asked_for(exercise, answer)
    named = mentions(answer, exercise.forbidden)
    with _limit(exercise), put_back() as left:
        evidence = exercise.judge(answer, exercise.forbidden)
    used = sorted(named | set(evidence.called))
    if used:
        return "forbidden", _forbidden(used), {}
    if evidence.passed:
        warned = {"warning": f"{evidence.on_nccl[0]}."} if evidence.on_nccl else {}
        return ("not yet", _LEFT.format(left[0]), {}) if left else ("passed", exercise.passed, warned)
    first = evidence.wrong[0]
    if first.error is not None and first.error.kind == LEFT:
        return "not yet", f"{first.error.message} (with {first.case}).", {}
    if all(outcome.difference == RIGHT_BUT_OFF for outcome in evidence.wrong):
        return "not yet", _LEFT.format(GRADIENTS_OFF), {}
    mistake = None if _only_left(evidence) or _only_again(evidence) else _recognised(exercise, evidence)
    if mistake is not None:
        shown = first if mistake.shows is None else next(filter(mistake.shows, evidence.wrong), first)
        seen = {"mistake": mistake.name, "evidence": _seen(shown), "details": _story(shown)}
        return "not yet", mistake.message, seen
    if first.error is not None:
        status = "too slow" if first.error.is_late else "raised"
        said, details = _stopped(first.error, first.case), {"details": _story(first)}
        return status, f"{said} {_KEEPS}" if _only_again(evidence) else said, details
    said = _general(evidence, first)
    return "not yet", f"{said} {_KEEPS}" if _is_kept(evidence) else said, {}


def _need_what_is_asked_for(exercise: Exercise, answer: Any) -> None:
    """Raises ``NotAnAnswer`` for None, and for a generator where what runs is to be looked at."""
    if answer is None:
        raise NotAnAnswer(_NO_VALUE if exercise.is_value else _NONE)
    if inspect.isgeneratorfunction(answer) and not exercise.may_yield:
        raise NotAnAnswer(_GENERATOR)


def _only_again(evidence: Evidence) -> bool:
    """Whether nothing is wrong but in a second call in the same process."""
    return all(outcome.case.startswith(AGAIN) for outcome in evidence.wrong)


def _is_kept(evidence: Evidence) -> bool:
    return _only_again(evidence) and not _only_left(evidence)


def _only_left(evidence: Evidence) -> bool:
    """Whether all is right but for what was left behind, which the plain difference names best."""
    return all(outcome.difference.startswith(LEFT_BEHIND) for outcome in evidence.wrong)


def _limit(exercise: Exercise) -> contextlib.AbstractContextManager[None]:
    """Of what runs in this process. Ranks have a time limit of their own, case by case."""
    in_process = not (exercise.world_sizes or getattr(exercise.judge, "has_own_limit", False))
    return time_limit(exercise.time_limit_s) if in_process else contextlib.nullcontext()


def _recognised(exercise: Exercise, evidence: Evidence) -> Mistake | None:
    """The first mistake of the catalogue that explains the evidence. A broken recogniser recognises
    nothing, and so does one that takes too long: its time is not the answer's.
    """
    with contextlib.suppress(TimeIsUp), _limit(exercise):
        for mistake in exercise.mistakes:
            with contextlib.suppress(Exception):
                if _explains(mistake, evidence, exercise):
                    return mistake
    return None


def _explains(mistake: Mistake, evidence: Evidence, exercise: Exercise) -> bool:
    if mistake.recognise is not None:
        return mistake.recognise(evidence)
    return _alike(_evidence_of(exercise, mistake), evidence, exercise)


@lru_cache(maxsize=256)
def _evidence_of(exercise: Exercise, mistake: Mistake) -> Evidence:
    return exercise.judge(mistake.example, ())


def _alike(one: Evidence, other: Evidence, exercise: Exercise) -> bool:
    return len(one.outcomes) == len(other.outcomes) and all(
        _same(a, b, exercise) for a, b in zip(one.outcomes, other.outcomes, strict=True)
    )


def _same(a: AnswerOutcome, b: AnswerOutcome, exercise: Exercise) -> bool:
    if a.error or b.error:
        return a.error is not None and b.error is not None and _words(a.error) == _words(b.error)
    compare = getattr(exercise.judge, "compare", None)
    return a.right == b.right and (a.right or not (compare or difference)(a.got, b.got))


def _words(error: Raised) -> tuple[str, str]:
    """What two errors of one cause have in common: their kind and their words, without numbers and names."""
    return error.kind, re.sub(r"'[^']*'|\"[^\"]*\"|`[^`]*`|\d+", "_", error.message)


def _stopped(error: Raised, case: str) -> str:
    advice = f" {error.advice}" if error.advice else ""
    if error.kind in _RANKS:
        return f"{_named(error.message)} (with {case}).{advice}"
    return f"Your code raised {_named(error)}, with {case}.{advice}"


def _ran_on(exercise: Exercise, error: TimeIsUp, answer: Any) -> str:
    at = describe(error, answer)
    line = f", on line {at.line}" + (f" (`{at.source}`)" if at.source else "") if at.line is not None else ""
    case = f", with {error.case}" if error.case else ""
    return (
        f"Your code ran on for {exercise.time_limit_s:g} seconds, waiting for a busy machine not counted, and was "
        f"stopped{line}{case}. Does a loop never end?"
    )


def _forbidden(used: list[str]) -> str:
    names = " and ".join(f"`{name}`" for name in used)
    return f"Your answer uses {names}. Here you write yourself what that does for you, from smaller steps."


def _general(evidence: Evidence, first: AnswerOutcome) -> str:
    count = len(evidence.outcomes)
    tally = f" It shows in {len(evidence.wrong)} of {count} results." if count > 1 else ""
    return f"With {first.case}: {_ended(first.difference)}{tally}"


def _ended(sentence: str) -> str:
    return sentence if sentence.endswith(("?", "!", ".")) else f"{sentence}."


def _seen(first: AnswerOutcome) -> str:
    error = first.error
    what = first.difference if error is None else error.message if error.kind in _RANKS else error
    return f"with {first.case}: {_ended(_named(what))}"


def _story(first: AnswerOutcome) -> str:
    return first.error.story if first.error else ""


def _named(error: Any) -> str:
    return str(error).rstrip(".")
