"""Usual wrong gates along positions, each by name and with a sentence."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from course_lib.learn.catalogue.exercise import Evidence, Mistake
from course_lib.learn.exercises.lesson_08.along.cases import BOTH, ENTER, LEAVE
from course_lib.learn.exercises.lesson_08.along.wrong_answers import (
    along,
    features_shared_out,
    joined,
    joined_by_features,
    lost,
    mean_shared_out,
    not_waited_for,
    own_among_zeros,
    own_rows,
    same,
    shared_out,
)
from course_lib.learn.exercises.lesson_08.gates.cases import KEPT_BACK
from course_lib.learn.exercises.lesson_08.gates.mistakes import (
    FLAG_NOT_KEPT,
    ONE_GRADIENT_SHORT,
    raised_about_gradients,
    raised_about_the_flag,
)
from course_lib.learn.exercises.lesson_08.tries import BACKWARD, FORWARD, gradient_of
from course_lib.learn.exercises.lesson_08.usual import differs_in, no_way_back, not_waited

__all__ = ["MISTAKES"]


def _gradient_of_another_shape(evidence: Evidence) -> bool:
    """At a gate by itself."""
    return _is_of_another_shape(evidence) and not evidence.wrong[-1].case.startswith(BOTH)


def _only_with_two_gates(evidence: Evidence) -> bool:
    """Each gate by itself is right, and of two in a row one gives back another shape."""
    return _is_of_another_shape(evidence) and all(outcome.case.startswith(BOTH) for outcome in evidence.wrong)


def _is_of_another_shape(evidence: Evidence) -> bool:
    return evidence.error is not None and "invalid gradient" in evidence.error.message


def _all_reduces(*places: tuple[str, str]) -> Callable[[Evidence], bool]:
    """All numbers are right, and of the gates by themselves these all-reduce, at least one of them, and no others.

    A place is a kind of case and a way, FORWARD or BACKWARD.
    """

    def recognise(evidence: Evidence) -> bool:
        if not all(differs_in(outcome, FORWARD, BACKWARD) for outcome in evidence.wrong):
            return False
        seen = {
            (kind, way)
            for outcome in evidence.wrong
            for kind, way in itertools.product((ENTER, LEAVE), (FORWARD, BACKWARD))
            if outcome.case.startswith(kind) and "all_reduce" in outcome.got[way]
        }
        return bool(seen) and seen <= set(places)

    return recognise


MISTAKES = (
    not_waited(along(enter=(not_waited_for, shared_out))),
    Mistake(
        "own-part-back",
        "Forward is right. Backward at the entrance you keep this rank's positions of *this rank's* gradient. But "
        "every rank used all positions, each for features of its own: their gradients are summands. Add them up, and "
        "keep your positions of the sum.",
        along(enter=(joined, own_rows)),
    ),
    Mistake(
        "zeros-for-the-others",
        "Forward is right. Backward at the exit you know the gradient of your own positions and take that of the "
        "others to be zero. Your summand went into *their* positions too: gather their gradients.",
        along(leave=(shared_out, own_among_zeros)),
    ),
    Mistake(
        "cut-and-not-summed",
        "At the exit each rank has a summand of every position, and yours keeps its own positions of its own summand. "
        "The summands have to be added up over ranks.",
        along(leave=(own_rows, joined)),
    ),
    Mistake(
        "gates-swapped",
        "At the entrance a rank has some of the positions and needs all. At the exit it has a summand of all, and "
        "keeps the sum for some. You have the two gates the other way round.",
        along(enter=(shared_out, joined), leave=(joined, shared_out)),
    ),
    Mistake(
        "backward-as-forward",
        "A gradient has the shape of the tensor that it belongs to, and here another shape came. Where `forward` "
        "makes a tensor longer, `backward` makes its gradient shorter. So where `forward` gathers, `backward` shares "
        "out, and the other way round.",
        recognise=_gradient_of_another_shape,
    ),
    Mistake(
        "nothing-gathered",
        "At the entrance the rank's own positions went on alone. Inside the region every rank works on *all* "
        "positions, with features of its own: gather them.",
        along(enter=(same, same)),
    ),
    Mistake(
        "joined-by-features",
        "The ranks' parts were put side by side. They are *positions*, rows of (P, D): each rank's rows follow those "
        "of the rank before, along dim 0.",
        along(enter=(joined_by_features, features_shared_out)),
    ),
    Mistake(
        "mean-not-sum",
        "At the exit you take the mean. What the ranks have are summands of one product: add them up, and do not "
        "divide.",
        along(leave=(mean_shared_out, joined)),
    ),
    Mistake(
        "mean-going-back",
        "Forward is right. Backward at the entrance you divide by the number of ranks; the gradients there are "
        "summands of one gradient.",
        along(enter=(joined, mean_shared_out)),
    ),
    Mistake(
        "all-reduce-and-a-cut",
        "The numbers are right. But you had everything added up on all ranks and kept a part. That sends twice the "
        "bytes of a reduce-scatter, and the whole sum is in memory for a moment. Each rank needs the sum for its own "
        "positions alone.",
        recognise=_all_reduces((ENTER, BACKWARD), (LEAVE, FORWARD)),
    ),
    Mistake(
        "gathers-by-all-reduce",
        "The numbers are right. But where every rank needs the parts of all, you all-reduce, which sends twice the "
        "bytes. The parts stand side by side, and there is nothing to add up. An all-gather brings each part to all "
        "ranks.",
        recognise=_all_reduces((ENTER, FORWARD), (LEAVE, BACKWARD)),
    ),
    Mistake(
        "overwrites-the-gradient",
        "The numbers are right, and the gradient that came to `backward` has been overwritten. Autograd may still need "
        "that tensor for another path, such as that of a residual: work on a copy of it.",
        recognise=lambda evidence: all(differs_in(outcome, KEPT_BACK) for outcome in evidence.wrong),
    ),
    Mistake(
        "flag-beside-ctx",
        "Each gate is right by itself. With two gates in a row, one gives back a gradient of another shape. Usually "
        "the `backward` of one gate then works as that of the other. Keep in `ctx` which gate it is: each use has a "
        "`ctx` of its own. A variable outside, or of the class, holds what was written there last.",
        recognise=_only_with_two_gates,
    ),
    Mistake("flag-not-kept", FLAG_NOT_KEPT, recognise=raised_about_the_flag),
    Mistake("one-gradient-short", ONE_GRADIENT_SHORT, recognise=raised_about_gradients),
    no_way_back(along(enter=(joined, lost), leave=(shared_out, lost)), "output", gradient_of("x")),
)
