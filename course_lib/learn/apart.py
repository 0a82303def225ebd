"""A judge that lets an answer run in a process of its own, so that nothing it does can cost the notebook.

In the notebook's process a limit ends a loop of Python, and no more: a thread runs on, an operation of C cannot be cut
short, and ``os._exit`` takes the kernel with it. So the answer travels, as a function travels to ranks, to one warm
rank that this notebook keeps for checks. What never ends there is ended with its process, and the verdict tells what
was seen. An answer that cannot travel is tried here, as :func:`~course_lib.learn.judge.by_cases` does.
"""

from __future__ import annotations

import linecache
import re
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from course_lib.learn.compare import Compare, difference
from course_lib.learn.exercise import Case, Evidence, Outcome, Raised
from course_lib.learn.failure import NotAnAnswer, NotAttempted
from course_lib.learn.judge import by_cases

if TYPE_CHECKING:
    from course_lib.cluster import Cluster, RankError, Run

__all__ = ["CasesApart", "by_cases_apart"]

_LIMIT_S = 20.0  # of each case
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

    What ``call`` returns travels back, so it should be plain data. ``limit_s`` bounds each case, in seconds in which
    the machine let the answer run.
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
        called: set[str] = set()
        outcomes: list[Outcome] = []
        for case in self.cases:
            outcome, seen, may_go_on = self._try(case, answer, forbidden)
            outcomes.append(outcome)
            called.update(seen)
            if not may_go_on:
                break  # it would end its process again, or wait out another limit
        return Evidence(tuple(outcomes), answer=answer, called=tuple(sorted(called)))

    def _try(
        self, case: Case, answer: Any, forbidden: tuple[str, ...]
    ) -> tuple[Outcome, tuple[str, ...], bool]:
        """What came of one case, which forbidden functions were called, and whether the next may be tried."""
        from course_lib.cluster import NotSendable, RankError, RankTimeout

        cluster = _warm_cluster()
        if cluster is None:
            return self._try_here(case, answer, forbidden)
        try:
            run = cluster.call(
                _on_the_rank,
                (case, self.options, answer, forbidden),
                timeout_s=self.limit_s,
                show=False,
            )
        except NotSendable:
            return self._try_here(case, answer, forbidden)
        except RankError as error:
            _pass_on_text(error.run)
            if isinstance(error, RankTimeout):
                return Outcome(case.label, None, error=_never_ended(error, self.limit_s)), (), False
            failure = error.failure
            if failure is None or failure.kind == "unsendable":  # it ended well there, and so it may run here
                return self._try_here(case, answer, forbidden)
            if isinstance(failure.exception, NotAttempted | NotAnAnswer):
                raise failure.exception from None
            return Outcome(case.label, None, error=_ended(failure)), (), False
        _pass_on_text(run)
        outcome, seen = run[0]
        left_a_thread = any("left its thread" in line for line in run.left)
        return _with_left(_with_source(outcome), run.left, left_a_thread), seen, not left_a_thread

    def _try_here(
        self, case: Case, answer: Any, forbidden: tuple[str, ...]
    ) -> tuple[Outcome, tuple[str, ...], bool]:
        evidence = by_cases([case], **self.options)(answer, forbidden)
        return evidence.outcomes[0], evidence.called, True


def _warm_cluster() -> Cluster | None:
    """The rank for checks, made at the first call; None where none can be started, as on a rank."""
    from course_lib.cluster import Cluster, RankError
    from course_lib.cluster.rank_process import current_rank

    global _cluster
    if current_rank() is not None:
        return None
    with _making:
        if _cluster is None or _cluster.is_closed:
            made = Cluster(1, backend="gloo")
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
    me: Any, case: Case, options: Mapping[str, Any], answer: Any, forbidden: tuple[str, ...]
) -> tuple[Outcome, tuple[str, ...]]:
    """Runs on the rank: the outcome, and which forbidden functions were called."""
    evidence = by_cases([case], **options)(answer, forbidden)
    return evidence.outcomes[0], evidence.called


def _with_source(outcome: Outcome) -> Outcome:
    """The line of a cell is known to the notebook alone: with its text filled in."""
    error = outcome.error
    if error is None or error.line is None or error.source:
        return outcome
    source = linecache.getline(error.file, error.line).strip()[:120]
    return replace(outcome, error=replace(error, source=source))


def _with_left(outcome: Outcome, left: Sequence[str], left_a_thread: bool) -> Outcome:
    """An answer that leaves a thread running for ever, or a switch turned, is not right, whatever it gave."""
    if not left or outcome.error is not None:
        return outcome
    if left_a_thread:
        words = f"{outcome.difference}; and {_LEFT_THREAD}" if outcome.difference else _LEFT_THREAD
        return replace(outcome, difference=words)
    what = left[0].removeprefix("rank 0 ")
    return replace(outcome, difference=outcome.difference or f"the result is right, and your code {what}")


def _never_ended(error: RankError, limit_s: float) -> Raised:
    story = str(error)
    held_up = re.search(r" \([\d.]+ s on the clock: [^)]*\)", story.partition("\n")[0])
    stood = re.search(r"^  rank 0  .*?, at (.+)$", story, re.MULTILINE)
    clock = held_up[0].replace("ranks", "code") if held_up else ""
    at = f"; it stood at {stood[1]}" if stood else ""
    message = f"Your code had not finished after {limit_s:g} s{clock} and was ended with its process{at}"
    return Raised("RankTimeout", message, story="Does a loop never end?")


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
        sys.stdout.write("".join(run.text.values()))
