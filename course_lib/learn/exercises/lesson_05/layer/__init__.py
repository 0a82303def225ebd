"""05.layer: the clinic's layer, mended. Autograd keeps the whole weight, unless somebody fetches it again.

It is tried as the layer of 05.unit is, which is another way to the same end.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from course_lib.cluster.base.rank import Rank
from course_lib.learn.catalogue.exercise import Case, Evidence, Exercise, Mistake
from course_lib.learn.exercises.lesson_05.unit import signs
from course_lib.learn.exercises.lesson_05.unit.cases import AFTER, BETWEEN, CAME, KINDS, right
from course_lib.learn.exercises.lesson_05.unit.trial import trial
from course_lib.learn.exercises.lesson_08.judging import by_steps
from course_lib.learn.exercises.lesson_08.tries import BACKWARD
from course_lib.learn.exercises.lesson_08.usual import differs_in

__all__ = ["LAYER"]


def _trial(answer: Any, me: Rank, kind: str) -> dict[str, Any]:
    return trial(SimpleNamespace(apply=answer), me, kind)


_JUDGE = by_steps(
    [Case(kind, (kind,), right(kind)) for kind in KINDS],
    _trial,
    words={
        BETWEEN: "the numbers are right, and when forward is over, ",
        AFTER: "the numbers are right, and when backward is over, ",
        CAME: "the numbers are right, and the gradient that came to backward was ",
    },
)


# -- usual wrong answers ----------------------------------------------------------------------------------------


def _fetched_once(evidence: Evidence) -> bool:
    """Right numbers, and no rows came to any rank in a backward that needs them."""
    return evidence.error is None and all(
        differs_in(one, BACKWARD) and "all_gather" not in one.got[BACKWARD] and "all_reduce" not in one.got[BACKWARD]
        for one in evidence.wrong
    )


LAYER = Exercise(
    name="05.layer",
    title="A layer that lets go of its weight",
    judge=replace(_JUDGE, world_sizes=(2, 3)),
    mistakes=(
        Mistake(
            "as-it-was",
            "Every number is right, and when forward is over, about as many bytes as a whole weight has are still "
            "there beside the output. No more has gone than in the colleague's layer. A product keeps its two inputs "
            "for backward, and what is handed to a tool that computes again is kept as well.",
            recognise=signs.first_in(BETWEEN),
        ),
        Mistake(
            "own-rows-alone",
            "Your output has as many columns as this rank has rows. y has one for each row of the whole weight, and "
            "the other rows are on the other ranks.",
            recognise=signs.of_the_rows_alone,
        ),
        Mistake(
            "own-rows-repeated",
            "Your output has the right shape, and all of its parts are the same: the columns of one rank's rows, n "
            "times over. Such a layer holds little, and computes something else. Each column belongs to a row of the "
            "whole weight.",
            recognise=signs.one_part_in_all_places,
        ),
        Mistake(
            "no-gradient-for-the-rows",
            "The output is right, nothing is kept, and no gradient came for `shard`: these weights never learn. After "
            "a `.detach()`, `.data` or `torch.no_grad()` in the way nothing goes back.",
            recognise=signs.never_came,
        ),
        Mistake(
            "fetched-once",
            "The numbers are right, and going back no rows were fetched, though the gradient of x takes the whole "
            "weight. So it is still on this rank, where the ledger does not see it: in an array or in a file. That "
            "is memory too.",
            recognise=_fetched_once,
        ),
        Mistake(
            "sum-not-mean",
            "The rows have the sum of all ranks' gradients. The colleague's layer gives their mean, and only the "
            "memory was to change.",
            recognise=signs.rows_gradient_is(lambda right, of_all, rank: right * len(of_all)),
        ),
    ),
    hints=(
        "Who keeps the whole weight after forward, and what for? What would have to happen before it is needed again, "
        "if nobody kept it?",
        "Lesson 01 wrapped a part of a model so that only its *inputs* were kept, and everything up to the output "
        "was computed again. Here the inputs are x and shard. On which side of the gather does the wrapped part "
        "begin?",
        "`from torch.utils.checkpoint import checkpoint`, and then `checkpoint(colleagues_layer, x, shard, "
        "use_reentrant=False)`.",
    ),
    forbidden=(
        "course_lib.parallel.tensor.autograd_collectives.all_gather_reduce_scatter",
        "course_lib.parallel.sharded.fully_sharded.FullySharded",
    ),
    passed="Outputs and gradients are those of one device on 2 and 3 ranks, and between forward and backward no "
    "tensor keeps the whole weight.",
)
