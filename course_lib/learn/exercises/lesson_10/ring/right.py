"""10.ring: what is expected on each rank, as a report of the step's kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from course_lib.learn.exercises.lesson_10.call_reports import Outputs
from course_lib.learn.exercises.lesson_10.ring.cases import (
    HIDDEN,
    ROUNDS,
    SITUATIONS,
    RingSituation,
    oracle,
    own_part,
)
from course_lib.learn.exercises.lesson_10.ring.reports import RingValuesReport
from course_lib.learn.judging.report import NOT_DEMANDED, NOTHING

__all__ = ["COSTS", "block_bytes", "due_in_flight", "held_bytes", "right", "visible_pairs"]

COSTS = (
    *("work", "work_back", "others", "sent", "sent_back", "messages"),
    *("largest", "blocks", "blocks_back", "held", "left", "idle", "idle_back"),
)
_WORK_SLACK = 1.4  # beside the products that are needed: those for sums and scales
_SMALL_BYTES = 256


def right(label: str, report: type[RingValuesReport]) -> Callable[[int, int], RingValuesReport]:
    """``expected(rank, world_size)`` of a case."""
    return lambda rank, world_size: report.of(_facts(label, rank, world_size))


def _facts(label: str, rank: int, world_size: int) -> dict[str, Any]:
    one = SITUATIONS[label]
    members = one.members(world_size)
    facts: dict[str, Any] = dict.fromkeys(("outputs", "gradients", *COSTS), NOT_DEMANDED)
    if rank not in members:
        return facts
    count, place = len(members), members.index(rank)
    outputs, gradients = Outputs(), Outputs()
    for turn in range(ROUNDS - 1):
        for number in range(one.num_objects):
            run, own = oracle(label, count, number, turn), one.positions(count, number)[place]
            outputs.append(own_part(run.out, own).to(one.dtype))
            gradients.append({name: own_part(x, own).to(one.dtype) for name, x in run.gradients.items()})
    outputs.within = gradients.within = one.within
    facts |= {"outputs": outputs, "gradients": gradients}
    return facts | (_costs(label, one, place, count) if one.is_counted else {})


def block_bytes(one: RingSituation) -> int:
    """Of keys and values of one rank."""
    return 2 * one.batch * one.heads[1] * one.tokens * one.head_dim * one.dtype.itemsize


def held_bytes(one: RingSituation) -> int:
    """What may stay from forward to backward: the output, copies of what was given, and a few numbers a query."""
    query_bytes = one.batch * one.heads[0] * one.tokens * one.head_dim * one.dtype.itemsize
    return 3 * query_bytes + block_bytes(one) + _SMALL_BYTES


def _costs(label: str, one: RingSituation, place: int, count: int) -> dict[str, Any]:
    queries = one.heads[0]
    block, back, hops = block_bytes(one), bool(one.needs), count - 1
    products = one.batch * queries * one.head_dim * visible_pairs(one, place, count)
    tile = one.batch * queries * one.tokens**2
    costs = {
        "work": int(_WORK_SLACK * 2 * products),
        "work_back": int(_WORK_SLACK * 5 * products) * back,
        "others": NOTHING,
        "sent": hops * block,
        "sent_back": 2 * hops * block * back,
        "messages": 2 * hops + 4 * hops * back,
        "largest": max(tile, block // one.dtype.itemsize, one.batch * queries * one.tokens * one.head_dim),
        "blocks": 2 * block,
        "blocks_back": 4 * block,
        "held": held_bytes(one) if back else NOT_DEMANDED,
        "left": NOTHING,
    }
    if label in HIDDEN:
        costs |= {"idle": NOTHING, "idle_back": NOTHING}
    return costs


def visible_pairs(one: RingSituation, place: int, count: int) -> int:
    """Pairs of a query here and a key anywhere, where their stretches see each other."""
    stretches = [_stretches(own) for own in one.positions(count)]
    return sum(
        len(mine) * len(theirs)
        for mine in stretches[place]
        for others in stretches
        for theirs in others
        if not one.is_causal or theirs.start <= mine.start
    )


def _stretches(own: list[int]) -> list[range]:
    found: list[range] = []
    for position in own:
        if found and position == found[-1].stop:
            found[-1] = range(found[-1].start, position + 1)
        else:
            found.append(range(position, position + 1))
    return found


def due_in_flight(step: int, count: int, *, is_backward: bool) -> int:
    """How many blocks are to arrive while that of ``step`` is computed: the next one, and in backward a sum as well."""
    return (step < count - 1) + (is_backward and step >= 2)
