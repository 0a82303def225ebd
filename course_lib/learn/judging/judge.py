"""Judges: they try an answer in several cases and write down what came, as :class:`Evidence`.

``by_cases`` calls the answer in this process, ``by_ranks`` on real ranks, ``by_value`` looks at a value. Each
case gets inputs of its own, so that an answer which changes them spoils nothing; that it changed them is a difference,
unless the judge was made with ``changes=True``. ``by_trial`` lets a *trial* use the answer on each rank: it may build a
model, let the answer at it, and report values and cost under names to be read. After each case on ranks, what the
answer has begun and not waited for, and what it has left behind, is a difference as well. Where all is right, the
answer is called twice in one process, which shows what it keeps from one call to the next.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from course_lib.learn.catalogue.exercise import AnswerOutcome, Case, Evidence, Judge, Raised
from course_lib.learn.judging.call_io import in_words, need_callable, remembered, settled
from course_lib.learn.judging.compare import Compare, close_to, difference
from course_lib.learn.judging.failure import NotAnAnswer, NotAttempted, describe, says_your_turn
from course_lib.learn.judging.kept_references import Traces
from course_lib.learn.judging.mutation_guard import Kept
from course_lib.learn.judging.rank_failure_messages import of_ranks
from course_lib.learn.judging.rank_runner import Looks, SeenOnRank, left_behind, on_rank
from course_lib.learn.sandbox.call_watcher import watch
from course_lib.learn.sandbox.output_filter import text_of_ranks
from course_lib.learn.sandbox.sandbox import TimeIsUp
from course_lib.learn.sandbox.state_guard import (
    GRADIENTS_OFF,
    LEFT,
    RIGHT_BUT_OFF,
    gradients_left_off,
)

__all__ = ["AGAIN", "RankJudge", "by_cases", "by_ranks", "by_trial", "by_value"]

_CLOSE = close_to(1e-9, 1e-12)
AGAIN = "a second call in the same process, "  # how the case of one is called
_ENOUGH = 2  # world sizes to see what is wrong; one alone may hide of which kind it is


def by_value(expected: Any, *, label: str = "your answer", compare: Compare = difference) -> Judge:
    """Judge a value: a number, a text, a list, a dictionary. ``expected`` is the value or a function that
    computes it.
    """

    def judge(answer: Any, forbidden: tuple[str, ...] = ()) -> Evidence:
        right = expected() if callable(expected) else expected
        if callable(answer):
            raise NotAnAnswer(f"Give a value here, as {type(right).__name__}, not a function.")
        got = settled(copy.deepcopy(answer))
        return Evidence((AnswerOutcome(label, right, got, difference=compare(right, got)),), answer=answer)

    return judge


def by_cases(
    cases: Sequence[Case],
    *,
    call: Callable[..., Any] | None = None,
    compare: Compare = difference,
    changes: bool = False,
) -> Judge:
    """Judge a function by what it returns in each case.

    ``call(answer, *args)`` says how the answer is used where that is not ``answer(*args)``: it may build a
    model, run the answer on it and return what is to be compared; it then looks itself (``Kept``) at what the answer
    has changed. Elsewhere the arguments must be as they were, unless ``changes`` says that the answer may change them.
    """
    kept = tuple(cases)

    def judge(answer: Any, forbidden: tuple[str, ...] = ()) -> Evidence:
        need_callable(answer)
        called: set[str] = set()
        use = call or partial(_plainly, changes)
        outcomes = tuple(_try(case, answer, use, compare, forbidden, called) for case in kept)
        return Evidence(outcomes, answer=answer, called=tuple(sorted(called)))

    vars(judge)["compare"] = compare  # by which two wrong answers are held to be alike
    return judge


@dataclass(frozen=True)
class _Noted:
    """What an answer gave, and the first thing that is wrong about how it did so."""

    got: Any
    note: str


def _plainly(changes: bool, answer: Callable[..., Any], *args: Any) -> Any:
    kept, traces = Kept() if changes else remembered(answer, args), Traces(args)
    got = settled(answer(*args))
    return _Noted(got, in_words(kept.changes()) or traces.left(got))


def _try(
    case: Case,
    answer: Any,
    call: Callable[..., Any],
    compare: Compare,
    forbidden: tuple[str, ...],
    called: set[str],
) -> AnswerOutcome:
    args = case.args() if callable(case.args) else copy.deepcopy(case.args)
    sealed = _sealed(case.expected(*copy.deepcopy(args)) if callable(case.expected) else case.expected)
    try:
        with gradients_left_off() as left, watch(forbidden) as seen:
            got = settled(call(answer, *args))
    except TimeIsUp as error:
        error.case = case.label
        raise
    except (Exception, SystemExit) as error:
        if says_your_turn(error):
            raise NotAttempted from None
        told = describe(error, answer)
        if told.line is None and GRADIENTS_OFF in getattr(error, "__notes__", ()):
            told = Raised(LEFT, f"Your code {GRADIENTS_OFF}, and what came after it needs them")
        return AnswerOutcome(case.label, sealed(), error=told)
    finally:
        called.update(seen)
    note = RIGHT_BUT_OFF if left else ""
    if isinstance(got, _Noted):
        got, note = got.got, got.note or note
    if got is ...:
        raise NotAttempted
    right = sealed()
    return AnswerOutcome(case.label, right, got, difference=compare(right, got) or note)


def _sealed(right: Any) -> Callable[[], Any]:
    """What is right, while an answer runs: not for who looks through the variables of the frames above it."""
    return lambda: right


def by_ranks(
    world_sizes: Sequence[int],
    cases: Sequence[Case],
    *,
    compare: Compare = difference,
    timeout_s: float = 10.0,
    changes: bool = False,
) -> RankJudge:
    """Judge a function ``answer(me, *args)`` by what it returns on every rank, on each of these world sizes.

    ``args`` and ``expected`` of a case may be functions of ``(rank, world_size)``. ``timeout_s`` bounds each
    case. ``changes``: the answer may change its arguments.
    """
    return RankJudge(tuple(world_sizes), tuple(cases), compare, timeout_s, changes=changes)


def by_trial(
    world_sizes: Sequence[int],
    cases: Sequence[Case],
    trial: Callable[..., Any],
    *,
    compare: Compare = _CLOSE,
    timeout_s: float = 8.0,
    makes_groups: bool = False,
) -> RankJudge:
    """Judge a function by what ``trial(answer, me, *args)`` reports on every rank.

    ``makes_groups``: the trial makes process groups, and looks itself whether the answer leaves some.
    """
    return RankJudge(
        tuple(world_sizes),
        tuple(cases),
        compare,
        timeout_s,
        trial,
        changes=True,
        makes_groups=makes_groups,
    )


@dataclass(frozen=True)
class RankJudge:
    """The judge that :func:`by_ranks` gives; ``call(answer, me, *args)`` uses the answer where it is not None."""

    world_sizes: tuple[int, ...]
    cases: tuple[Case, ...]
    compare: Compare = difference
    timeout_s: float = 10.0
    call: Callable[..., Any] | None = None
    changes: bool = False  # the answer may change its arguments
    calls_again: bool = True  # after all else was right
    makes_groups: bool = False  # ``call`` makes process groups itself, and leaves them

    def __call__(self, answer: Any, forbidden: tuple[str, ...] = ()) -> Evidence:
        need_callable(answer)
        called: set[str] = set()
        breaches: dict[str, str] = {}  # of NCCL's rules: the first of each
        outcomes: list[AnswerOutcome] = []
        enough = self.world_sizes[:_ENOUGH]
        for world_size, case in itertools.product(self.world_sizes, self.cases):
            if case is self.cases[0] and world_size not in enough and not all(one.right for one in outcomes):
                break  # the other world sizes are there for what is right on these
            new, left = self._try(answer, world_size, case, forbidden, called, breaches)
            outcomes += new
            if left or new[-1].error is not None:
                break  # what failed once, or left ranks that had to be replaced, does so again, and each takes its time
        if self.calls_again and outcomes and all(one.right for one in outcomes):
            outcomes += self.again(answer, forbidden)
        return Evidence(tuple(outcomes), answer, tuple(sorted(called)), on_nccl=tuple(breaches.values()))

    def again(self, answer: Any, forbidden: tuple[str, ...] = ()) -> list[AnswerOutcome]:
        """The outcome of the last case, for an answer that was called with the first one just before.

        Each case travels to the ranks with an answer of its own, so what one keeps in a default argument or a global is
        met here alone.
        """
        first, last = self.cases[0], self.cases[-1]
        again = f"{AGAIN}now with {last.label}" + (f" and before with {first.label}" if first is not last else "")
        case = replace(last, label=again)
        found, _ = self._try(answer, self.world_sizes[0], case, forbidden, set(), {}, first)
        return [replace(one, kind=last.label) for one in found]

    def _try(
        self,
        answer: Any,
        world_size: int,
        case: Case,
        forbidden: tuple[str, ...],
        called: set[str],
        breaches: dict[str, str],
        first: Case | None = None,
    ) -> tuple[list[AnswerOutcome], str]:
        """The outcome of each rank, and what the answer has left behind. ``first``: called with this before."""
        from course_lib.cluster.api.shared import shared_cluster
        from course_lib.cluster.failures.errors import RankError
        from course_lib.meter import nccl_breaches

        ranks, kind = range(world_size), case.label
        args = _args_of(case, world_size)
        before = None if first is None else _args_of(first, world_size)
        limit_s = self.timeout_s * (1 if first is None else 2)
        function = answer if self.call is None else partial(self.call, answer)
        looks = Looks(self.changes, self.call is None, self.makes_groups)
        try:
            run = shared_cluster(world_size).call(
                on_rank,
                (function, args, before, forbidden, looks),
                timeout_s=limit_s,
                show=False,
            )
        except RankError as error:
            print(text_of_ranks(error.run.text) if error.run else "", end="")
            raised = of_ranks(error, world_size, limit_s, answer)
            ranks_in_words = f"{world_size} rank{'s' * (world_size > 1)}"
            label = f"{case.label} on {ranks_in_words}"
            return [AnswerOutcome(label, None, error=raised, kind=kind, num_ranks=world_size)], ""
        if first is None:  # else a person has read it before
            print(text_of_ranks(run.text), end="")
        outcomes = []
        left = left_behind(run.leaks)
        for breach in nccl_breaches([call for seen in run for call in seen.calls]):
            breaches.setdefault(breach.rule, str(breach))
        for rank, seen in zip(ranks, run, strict=True):
            called.update(seen.forbidden)
            right = case.expected(rank, world_size) if callable(case.expected) else case.expected
            label = f"{case.label}, rank {rank} of {world_size}"
            found = _with_note(self.compare(right, seen.value), seen) or left
            outcomes.append(
                AnswerOutcome(label, right, seen.value, None, found, kind, rank, world_size, bool(seen.unwaited))
            )
        return outcomes, left


def _with_note(found: str, seen: SeenOnRank) -> str:
    """What differs, and what was begun and never waited for, which is where it may come from."""
    is_new = seen.unwaited and seen.unwaited not in found  # a trial may have looked itself
    return f"{found}; and {seen.note}" if found and is_new else found or seen.note


def _args_of(case: Case, world_size: int) -> list[tuple[Any, ...]]:
    """What each rank is given."""
    ranks = range(world_size)
    return [case.args(rank, world_size) if callable(case.args) else case.args for rank in ranks]
