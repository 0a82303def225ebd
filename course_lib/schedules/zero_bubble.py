"""Zero bubble schedules by hand: the backward is cut in two, and the half that nobody waits for fills the gaps.

I (gradients of the inputs, dgrad) is all that the stage before needs; W (gradients of the weights, wgrad) can run at
any later time. Source: Qi et al., "Zero Bubble Pipeline Parallelism", arXiv 2401.10241, section 2: ZB-H1 keeps to the
memory of 1F1B, ZB-H2 takes twice as much and leaves no gap. The authors' B is the I of this course. ZB-V, which places
stages in a V, has a file of its own.
"""

from __future__ import annotations

from course_lib.base.checked import checked
from course_lib.schedules.action import Action
from course_lib.schedules.table import Schedule, check_counts, placement

__all__ = ["zero_bubble_h1", "zero_bubble_h2"]


@checked
def zero_bubble_h1(num_ranks: int, num_micro_batches: int) -> Schedule:
    """1F1B with each backward cut in I and W; stage s keeps its W's back by s micro-batches.

    The first ranks have their gaps at the start, the last ones at the end: there the W's that were kept back fill
    them. Every rank has at most ``num_ranks`` micro-batches in flight, as the first has under 1F1B.
    """
    return _by_hand("ZB-H1", num_ranks, num_micro_batches, a_hop=1)


@checked
def zero_bubble_h2(num_ranks: int, num_micro_batches: int) -> Schedule:
    """As ZB-H1, with twice the forwards before the first backward, and twice the W's kept back: no gap is left.

    From the last stage to stage s and back are 2 hops for each stage between, and stage s fills them all with
    forwards. Ranks end as far apart as they begin, so an optimizer that steps at once on each rank never waits. The
    price: at most ``2 num_ranks - 1`` micro-batches in flight on every rank. Where a W is shorter than F and I,
    (num_ranks - 1) (F + I - 2 W) of waiting remain. It needs ``2 num_ranks - 1`` micro-batches; with fewer it runs,
    and may wait longer than ZB-H1.
    """
    return _by_hand("ZB-H2", num_ranks, num_micro_batches, a_hop=2)


def _by_hand(name: str, num_ranks: int, num_micro_batches: int, *, a_hop: int) -> Schedule:
    """``a_hop`` forwards to begin with for each stage behind, ``a_hop`` W's kept back for each stage before."""
    check_counts(num_ranks, num_micro_batches)
    m = num_micro_batches
    rows = []
    for stage in range(num_ranks):
        num_warm_up = min(a_hop * (num_ranks - 1 - stage), m)
        num_kept_back = min(a_hop * stage, m)
        row = [Action("F", stage, i) for i in range(num_warm_up)]
        for i in range(m):
            if num_warm_up + i < m:
                row.append(Action("F", stage, num_warm_up + i))
            row.append(Action("I", stage, i))
            if i >= num_kept_back:
                row.append(Action("W", stage, i - num_kept_back))
        row += [Action("W", stage, i) for i in range(m - num_kept_back, m)]
        rows.append(tuple(row))
    return Schedule(name, m, placement(num_ranks), tuple(rows))
