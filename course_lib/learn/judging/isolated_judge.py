"""A judge that lets an answer run in a process of its own, so that nothing it does can cost the notebook.

In the notebook's process a limit ends a loop of Python, and no more: a thread runs on, an operation of C cannot be cut
short, and ``os._exit`` takes the kernel with it. So the answer travels, as a function travels to ranks, to one warm
rank that this notebook keeps for checks. What never ends there is ended with its process, and the verdict tells what
was seen. An answer that cannot travel is tried here, as :func:`~course_lib.learn.judging.judge.by_cases` does.
"""

from __future__ import annotations

import linecache
import os
import re
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from course_lib.learn.catalogue.exercise import AnswerOutcome, Case, Evidence, Raised
from course_lib.learn.judging.compare import Compare, difference
from course_lib.learn.judging.failure import NotAnAnswer, NotAttempted
from course_lib.learn.judging.judge import by_cases
from course_lib.learn.sandbox.output_filter import own_lines, own_warnings
from course_lib.learn.sandbox.sandbox import running_on, threads_of_a_person
from course_lib.learn.sandbox.state_guard import right_but

if TYPE_CHECKING:
    from course_lib.cluster.api.cluster import Cluster
    from course_lib.cluster.failures.errors import RankError
    from course_lib.cluster.failures.run import Run

__all__ = ["CasesApart", "by_cases_apart"]

_LIMIT_S = 20.0  # of all cases together
_LEFT_THREAD = "a thread that your code started still runs; it was ended with its process"

_cluster: Cluster | None = None
_making = threading.Lock()


def by_cases_apart(
    cases: Sequence[Case],
    *,
    call: Callable[..., Any] | None = None,
    compare: Compare = difference,
    changes: bool = False,
    limit_s: float = _LIMIT_S,
) -> CasesApart:
    """``by_cases`` for answers that start threads, may loop for ever or may end their process.

    What ``call`` returns travels back, so it should be plain data. ``limit_s`` bounds all cases together, in seconds
    in which the machine let the answer run.
    """
    one_by_one = {"call": call, "compare": compare, "changes": changes}
    return CasesApart(tuple(cases), one_by_one, limit_s)


@dataclass(frozen=True)
class CasesApart:
    """The judge that :func:`by_cases_apart` gives; it has a time limit of its own."""

    cases: tuple[Case, ...]
    options: Mapping[str, Any]  # of ``by_cases``
    limit_s: float
    has_own_limit: bool = True

    def __call__(self, answer: Any, forbidden: tuple[str, ...] = ()) -> Evidence:
        """All cases in one call; where it does not come back, a file tells which of them was running."""
        from course_lib.cluster.failures.errors import RankError
        from course_lib.cluster.process.serialization import NotSendable

        cluster = _warm_cluster()
        if cluster is None:
            return self._here(answer, forbidden)
        with tempfile.NamedTemporaryFile(prefix="check-") as begun:
            work = (self.cases, self.options, answer, forbidden, begun.name)
            try:
                run = cluster.call(_on_the_rank, work, timeout_s=self.limit_s, show=False)
            except NotSendable:
                return self._here(answer, forbidden)
            except RankError as error:
                case = self.cases[max(0, os.path.getsize(begun.name) - 1)]
                return self._after(error, case, answer, forbidden)
        _pass_on_text(run)
        outcomes, called = run[0]
        outcomes = _with_left([_with_source(outcome) for outcome in outcomes], run.leaks)
        return Evidence(tuple(outcomes), answer=answer, called=called)

    def _here(self, answer: Any, forbidden: tuple[str, ...]) -> Evidence:
        return by_cases(self.cases, **self.options)(answer, forbidden)

    def _after(self, error: RankError, case: Case, answer: Any, forbidden: tuple[str, ...]) -> Evidence:
        """What is to be said of a call that did not come back from ``case``."""
        from course_lib.cluster.failures.errors import RankTimeout

        failure = error.failure
        if failure is not None and failure.kind == "unsendable":  # it ended well there, and so it may run here
            return self._here(answer, forbidden)
        _pass_on_text(error.run)
        if failure is not None and isinstance(failure.exception, NotAttempted | NotAnAnswer):
            raise failure.exception from None
        is_late = isinstance(error, RankTimeout) or failure is None
        raised = _never_ended(error, self.limit_s) if is_late else _ended(failure)
        return Evidence((AnswerOutcome(case.label, None, error=raised),), answer=answer)


def _warm_cluster() -> Cluster | None:
    """The rank for checks, made at the first call; None where none can be started, as on a rank."""
    from course_lib.cluster.api.cluster import Cluster
    from course_lib.cluster.failures.errors import RankError
    from course_lib.cluster.links.links import Links
    from course_lib.cluster.process.rank_process import current_rank

    global _cluster
    if current_rank() is not None:
        return None
    with _making:
        if _cluster is None or _cluster.is_closed:
            made = Cluster(1, links=Links())  # on the CPU, where answers are checked
            try:
                made.call(_nothing, show=False)
            except (RankError, OSError):  # no room for another process
                made.close()
                return None
            _cluster = made
        return _cluster


def _nothing(me: Any) -> None:
    """The first call of a rank starts it."""


def _on_the_rank(
    me: Any,
    cases: Sequence[Case],
    options: Mapping[str, Any],
    answer: Any,
    forbidden: tuple[str, ...],
    begun: str,
) -> tuple[list[AnswerOutcome], tuple[str, ...]]:
    """Runs on the rank: outcomes, to the first case that leaves a thread, and which forbidden functions were called.

    The file ``begun`` grows by a byte with each case that begins.
    """
    outcomes: list[AnswerOutcome] = []
    called: set[str] = set()
    threads = threads_of_a_person()
    with open(begun, "ab", buffering=0) as file, own_warnings():
        for case in cases:
            file.write(b".")
            evidence = by_cases([case], **options)(answer, forbidden)
            outcomes += evidence.outcomes
            called.update(evidence.called)
            if running_on(threads):
                outcomes[-1] = _with_thread(outcomes[-1])
                break
    return outcomes, tuple(sorted(called))


def _with_thread(outcome: AnswerOutcome) -> AnswerOutcome:
    """An answer that leaves a thread running for ever is not right, whatever it gave."""
    if outcome.error is not None:
        return outcome
    words = f"{outcome.difference}; and {_LEFT_THREAD}" if outcome.difference else _LEFT_THREAD
    return replace(outcome, difference=words)


def _with_source(outcome: AnswerOutcome) -> AnswerOutcome:
    """The line of a cell is known to the notebook alone: with its text filled in."""
    error = outcome.error
    if error is None or error.line is None or error.source:
        return outcome
    source = linecache.getline(error.file, error.line).strip()[:120]
    return replace(outcome, error=replace(error, source=source))


def _with_left(outcomes: list[AnswerOutcome], left: Sequence[str]) -> list[AnswerOutcome]:
    """An answer that leaves a switch turned is not right either; threads have been told."""
    lines = [line.removeprefix("rank 0 ") for line in left if "left its thread" not in line]
    if not lines or not all(outcome.right for outcome in outcomes):
        return outcomes
    return [replace(outcomes[0], difference=right_but(lines[0])), *outcomes[1:]]


def _never_ended(error: RankError, limit_s: float) -> Raised:
    story = str(error)
    uncounted = re.search(r" \([\d.]+ s on the clock: [^)]*\)", story.partition("\n")[0])
    stood = re.search(r"^  rank 0  .*?, at (.+)$", story, re.MULTILINE)
    clock = uncounted[0].replace("ranks", "code") if uncounted else ""
    at = f"; it stood at {stood[1]}" if stood else ""
    message = f"Your code had not finished after {limit_s:g} s{clock} and was ended with its process{at}"
    return Raised("RankTimeout", message, is_late=True, advice="Does a loop never end?")


def _ended(failure: Any) -> Raised:
    """Its process is gone, or it raised what no judge catches."""
    if failure.kind != "died":
        return Raised(failure.type_name, failure.message)
    code = re.search(r"exit code (\d+)", failure.message)
    if code:
        return Raised("RankFailed", f"Your code ended its process, with exit code {code[1]}")
    return Raised("RankFailed", failure.message.replace("its", "Your code's", 1))


def _pass_on_text(run: Run | None) -> None:
    if run is not None and run.text:
        sys.stdout.write(own_lines("".join(run.text.values())))
