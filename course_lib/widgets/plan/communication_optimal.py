"""On how few GPUs a job fits: asked of the leanest layout of each cut, by memory alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache

from course_lib.plan import Layout
from course_lib.plan.search.constraints import divisions
from course_lib.widgets.plan.choice import GPUS, OWN, OwnCut, PlanChoice

__all__ = ["fewer_that_hold", "fits", "more_that_hold"]


@lru_cache(maxsize=256)
def fits(choice: PlanChoice, recompute: str) -> bool:
    """Whether some layout with this recomputation runs.

    The leanest of a cut shares weights out wherever there is somebody to share with, and takes one sequence at a time.
    """
    return bool(choice.ask(_lean(choice, recompute)).options)


def fewer_that_hold(choice: PlanChoice, recompute: str) -> int | None:
    """The fewest GPUs of whole machines, fewer than chosen, on which the job fits; None where there are none."""
    machine = choice.cluster.domain_size
    return _first(choice, range(machine, choice.gpus, machine), recompute)


def more_that_hold(choice: PlanChoice) -> int | None:
    """The fewest GPUs on which the job fits with all recomputation, of twice, four times as many and so on.

    None where no number that can be chosen is enough.
    """
    sizes = [choice.gpus << power for power in range(1, GPUS[1].bit_length())]
    return _first(choice, (gpus for gpus in sizes if gpus <= GPUS[1]), "full")


def _first(choice: PlanChoice, sizes: Iterable[int], recompute: str) -> int | None:
    for gpus in sizes:
        try:
            other = replace(choice, gpus=gpus)
        except ValueError:  # no whole machines
            continue
        if fits(other, recompute):
            return gpus
    return None


def _lean(choice: PlanChoice, recompute: str) -> Iterable[Layout]:
    gpus, model = choice.gpus, choice.job.model
    most = OWN[1]
    for tp, pp, cp, dp in divisions(
        gpus, most_tp=min(most, model.heads), most_pp=min(most, model.layers), most_cp=most
    ):
        if choice.batch % dp == 0 and choice.seq % (2 * cp) == 0:  # else illegal
            sharding = 3 if dp * cp > 1 else 0
            yield OwnCut(tp, cp, pp, 1, 1, sharding, recompute).layout(gpus)
