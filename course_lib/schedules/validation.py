"""What is wrong with a schedule, in sentences that name the rank, the action and the reason.

The questions go from plain to subtle: does every cell name something that exists; is nothing there twice; is
everything there, and does each rank keep its own order; do ranks wait for each other in a ring; do messages meet in
the order in which they are sent. Each is asked only where those before found nothing. Fast enough to run as one types.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby

from course_lib.base.checked import checked
from course_lib.base.checks import at_least
from course_lib.schedules.action import KINDS, Action, Overlap, actions_in
from course_lib.schedules.dependencies import Result, result_of
from course_lib.schedules.in_flight import in_flight_counts
from course_lib.schedules.table import Schedule

__all__ = ["Problem", "check", "validate"]


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong: ``text`` says it; the rest says where, for marking it in a table."""

    reason: str  # unknown, misplaced, doubled, missing, order, deadlock, pairing or memory
    rank: int
    action: Action
    column: int | None  # of the cell; None for what is not in the table
    text: str

    def __str__(self) -> str:
        return self.text


@checked
def validate(
    schedule: Schedule, *, max_in_flight: int | Sequence[int] | None = None, forward_only: bool = False
) -> tuple[Problem, ...]:
    """All problems of a schedule that can be told apart, the plainest first; none when it can run.

    ``max_in_flight`` is the most micro-batches that a rank may have in flight (each counts once a stage), one number
    for all ranks or one for each. With ``forward_only`` a complete schedule consists of forwards alone.
    """
    limits = _limits(max_in_flight, schedule.num_ranks)
    found = [*_unknown(schedule, forward_only)] or [*_doubled(schedule)]
    if found:
        return tuple(found)
    found = [*_missing(schedule, forward_only), *_order(schedule)] or [*_deadlock(schedule)]
    return (*(found or _pairing(schedule)), *_memory(schedule, limits))


@checked
def check(
    schedule: Schedule, *, max_in_flight: int | Sequence[int] | None = None, forward_only: bool = False
) -> Schedule:
    """The schedule itself when it can run; else ``ValueError`` with its first problem and how many there are."""
    problems = validate(schedule, max_in_flight=max_in_flight, forward_only=forward_only)
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise ValueError(f"The schedule {schedule.name!r} cannot run: {problems[0]}{more}.")
    return schedule


def _unknown(schedule: Schedule, forward_only: bool) -> Iterator[Problem]:
    """Cells that name a letter, a stage or a micro-batch that is not there, a stage of another rank, or two actions
    that do not overlap."""
    num_stages, m = schedule.num_stages, schedule.num_micro_batches
    for rank, column, action in schedule.cells:
        kind, stage, micro_batch = action
        where = f"rank {rank}, cell {column + 1}: {action}"
        reason, text = "unknown", None
        if kind not in KINDS:
            text = f"{where} has the letter {kind!r}; actions are {', '.join(KINDS)}"
        elif forward_only and kind != "F":
            text = f"{where} is a backward, but this schedule has forwards only"
        elif not 0 <= stage < num_stages:
            text = f"{where} is on stage {stage}; stages are 0 to {num_stages - 1}"
        elif not 0 <= micro_batch < m:
            text = f"{where} is for micro-batch {micro_batch}; micro-batches are 0 to {m - 1}"
        elif schedule.rank_of_stage[stage] != rank:
            reason = "misplaced"
            text = f"{where} is on stage {stage}, which rank {schedule.rank_of_stage[stage]} holds"
        cell = schedule.actions[rank][column]
        if not text and isinstance(cell, Overlap) and (cell.forward.kind, cell.backward.kind) != ("F", "B"):
            text = f"rank {rank}, cell {column + 1}: in {cell} no forward and whole backward overlap; write F&B"
        if text:
            yield Problem(reason, rank, action, column, text)


def _doubled(schedule: Schedule) -> Iterator[Problem]:
    """Actions that stand in the table twice, and backwards that are run whole and in halves as well."""
    column_of: dict[Action, int] = {}
    for rank, column, action in schedule.cells:
        if action in column_of:
            cells = f"cells {column_of[action] + 1} and {column + 1}"
            text = f"{_who(schedule, action)} runs {action.short} twice ({cells})"
            yield Problem("doubled", rank, action, column, text)
        column_of[action] = column
    for rank, column, action in schedule.cells:
        if action.kind in ("I", "W") and action._replace(kind="B") in column_of:
            text = (
                f"{_who(schedule, action)} runs B{action.micro_batch} and {action.short} as well: a backward runs "
                "whole (B) or in its two halves (I and W)"
            )
            yield Problem("doubled", rank, action, column, text)


def _missing(schedule: Schedule, forward_only: bool) -> Iterator[Problem]:
    """What no cell runs, a problem for each stage and letter."""
    there = {action for _, _, action in schedule.cells}
    for stage in range(schedule.num_stages):
        absent: dict[str, list[int]] = {}
        for i in range(schedule.num_micro_batches):
            for kind in _absent(there, stage, i, forward_only):
                absent.setdefault(kind, []).append(i)
        for kind, numbers in absent.items():
            action = Action(kind, stage, numbers[0])
            others = f" (nor {len(numbers) - 1} more of its {kind}'s)" if len(numbers) > 1 else ""
            text = f"{_who(schedule, action)} never runs {action.short}{others}"
            if kind == "W":
                text += f", though it runs I{numbers[0]}: its weights lack a part of their gradient"
            if kind == "I":
                text += f", which its W{numbers[0]} needs"
            yield Problem("missing", schedule.rank_of_stage[stage], action, None, text)


def _absent(there: set[Action], stage: int, i: int, forward_only: bool) -> Iterator[str]:
    """The letters that a micro-batch lacks on a stage."""
    if ("F", stage, i) not in there:
        yield "F"
    if ("B", stage, i) in there:
        return
    has_i, has_w = ("I", stage, i) in there, ("W", stage, i) in there
    if has_i != has_w:
        yield "W" if has_i else "I"
    elif not has_i and not forward_only:
        yield "B"


def _order(schedule: Schedule) -> Iterator[Problem]:
    """Actions before something that they need and that their own rank runs later."""
    rank_of = schedule.rank_of_stage
    there = {result_of(action) for _, _, action in schedule.cells}
    done: set[Result] = set()
    for _, cell in groupby(_cells_with_needs(schedule), key=lambda found: found[0][:2]):
        made = []  # by the one action of the cell, or by both
        for (rank, column, action), results in cell:
            made.append(result_of(action))
            for result in results:
                if result not in done and rank_of[result[1]] == rank and result in there:
                    needed = _short(schedule, result)
                    text = f"{_who(schedule, action)} runs {action.short} {'beside' if result in made else 'before'} "
                    own = result[1] == action.stage
                    text += f"its {needed}" if own else f"{needed} of stage {result[1]}, which it needs"
                    yield Problem("order", rank, action, column, text)
                    break
        done.update(made)


def _deadlock(schedule: Schedule) -> Iterator[Problem]:
    """The first deadlock: a ring of ranks that wait for each other for ever."""
    stuck = schedule.dependencies.stuck
    if not stuck:
        return
    ring, rank = list[int](), min(stuck)
    while rank not in ring:  # everything is there and in order, so each rank waits for one that waits too
        ring.append(rank)
        rank = schedule.rank_of_stage[stuck[rank][1][1]]
    ring = ring[ring.index(rank) :]
    ring = ring[ring.index(min(ring)) :] + ring[: ring.index(min(ring))]
    waits = []
    for rank in ring:
        action, lacks = stuck[rank]
        needed = f"{_short(schedule, lacks)} of {_stage(schedule, lacks[1])}"
        cell = schedule.actions[rank][_column(schedule, rank, action)]
        at = f"{cell}" if isinstance(cell, Overlap) else action.short
        waits.append(f"{_who(schedule, action)} waits at {at} for {needed}")
    first = stuck[ring[0]][0]
    column = _column(schedule, ring[0], first)
    text = f"a deadlock, in which a ring of ranks waits for ever: {', '.join(waits)}"
    yield Problem("deadlock", ring[0], first, column, text)


def _pairing(schedule: Schedule) -> Iterator[Problem]:
    """Messages that their receiver uses in another order than they are sent.

    They carry no number: from one rank to another the n-th activations sent are the n-th received, and so with
    gradients.
    """
    rank_of = schedule.rank_of_stage
    sent_at = {result_of(action): column for _, column, action in schedule.cells}
    latest: dict[tuple[int, int, str], Result] = {}  # by sender, receiver and letter
    for (rank, column, action), results in _cells_with_needs(schedule):
        for result in results:
            if rank_of[result[1]] == rank:
                continue
            link = (rank_of[result[1]], rank, result[0])
            before = latest.get(link, result)
            if sent_at[result] < sent_at[before]:
                what = "activations" if result[0] == "F" else "gradients"
                early, late = (f"{_short(schedule, r)} of stage {r[1]}" for r in (before, result))
                text = (
                    f"rank {rank} uses the {what} of {early} and later those of {late}, but rank {link[0]} sends them "
                    f"in the other order. A rank receives {what} in the order of sending, so these messages cannot be "
                    "paired"
                )
                yield Problem("pairing", rank, action, column, text)
            latest[link] = result


def _cells_with_needs(schedule: Schedule) -> Iterator[tuple[tuple[int, int, Action], tuple[Result, ...]]]:
    """Each cell, rank by rank, with the results that its action needs."""
    return zip(schedule.cells, chain.from_iterable(schedule.dependencies.needs), strict=True)


def _memory(schedule: Schedule, limits: Sequence[int]) -> Iterator[Problem]:
    """For each rank the first forward with which it has more micro-batches in flight than it may."""
    if not limits:
        return
    for rank, (limit, counts) in enumerate(zip(limits, in_flight_counts(schedule), strict=True)):
        for action, count in zip(schedule.rows[rank], counts, strict=False):  # forwards alone keep nothing
            if count > limit:
                text = (
                    f"{_who(schedule, action)} runs {action.short} with {count} micro-batches in flight on its rank, "
                    f"and the limit is {limit}: a backward must come before it"
                )
                yield Problem("memory", rank, action, _column(schedule, rank, action), text)
                break


def _limits(max_in_flight: int | Sequence[int] | None, num_ranks: int) -> Sequence[int]:
    if max_in_flight is None:
        return ()
    limits = [max_in_flight] * num_ranks if isinstance(max_in_flight, int) else list(max_in_flight)
    if len(limits) != num_ranks:
        raise ValueError(
            f"max_in_flight has {len(limits)} limits for {num_ranks} ranks; give one for each, or a number."
        )
    for limit in limits:
        at_least(1, max_in_flight=limit)
    return limits


def _column(schedule: Schedule, rank: int, action: Action) -> int:
    return next(column for column, cell in enumerate(schedule.actions[rank]) if cell and action in actions_in(cell))


def _who(schedule: Schedule, action: Action) -> str:
    return _stage(schedule, action.stage)


def _stage(schedule: Schedule, stage: int) -> str:
    return f"stage {stage} (rank {schedule.rank_of_stage[stage]})"


def _short(schedule: Schedule, result: Result) -> str:
    """The action that makes a result, without its stage: a gradient comes from B or from I."""
    kind, stage, micro_batch = result
    halves = kind == "B" and Action("I", stage, micro_batch) in schedule.rows[schedule.rank_of_stage[stage]]
    return f"{'I' if halves else kind}{micro_batch}"
