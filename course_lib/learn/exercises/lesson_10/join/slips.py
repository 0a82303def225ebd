"""The mistakes of 10.join that no single number shows: results that are kept, dtype, layout, gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, equal

from course_lib.learn.catalogue.exercise import Evidence, Mistake
from course_lib.learn.exercises.lesson_10.join.forms import SeenInstead
from course_lib.learn.exercises.lesson_10.join.labels import OtherForm

__all__ = ["KEPT", "MISTAKES"]


def _first_in(label: str, words: str = "") -> Callable[[Evidence], bool]:
    """The first thing that is wrong is this case, and these words tell of it."""

    def recognise(evidence: Evidence) -> bool:
        first = evidence.wrong[0]
        return first.case == label and words in (str(first.error) if first.error else first.difference)

    return recognise


def _is_written_over(evidence: Evidence) -> bool:
    first = evidence.wrong[0]
    return first.case == OtherForm.THIRD and isinstance(first.got, SeenInstead)


def _has_other_gradients(evidence: Evidence) -> bool:
    first = evidence.wrong[0]
    return first.case == OtherForm.GRADIENTS and first.error is None


def _gives_an_earlier_result(evidence: Evidence) -> bool:
    """Some wrong pair is, number by number, one that an earlier call gave."""
    pairs = [one for one in evidence.outcomes if _is_full_pair(one.got)]
    return any(
        not one.right and all(map(equal, one.got, before.got))
        for place, one in enumerate(pairs)
        for before in pairs[:place]
    )


def _is_full_pair(got: Any) -> bool:
    return (
        isinstance(got, tuple | list)
        and len(got) == 2
        and all(isinstance(one, Tensor) and bool(one.numel() and one.isfinite().all()) for one in got)
    )


KEPT = Mistake(
    "gives-an-earlier-result",
    "Your function gave, number by number, what it gave in an earlier call with other numbers. Something is kept from "
    "one call to the next, in a list, a dictionary or a default argument: compute it anew in each call.",
    recognise=_gives_an_earlier_result,
)
MISTAKES = (
    Mistake(
        "gives-another-dtype",
        "Your join is right for float64. For inputs in float32 it gave another dtype. A join has to keep that of its "
        "inputs, or the next one, and all that comes after it, computes in the other one.",
        recognise=_first_in(OtherForm.FLOAT32, "expected the type"),
    ),
    Mistake(
        "takes-rows-for-granted",
        "Your join is right until outputs lie in memory query by query, as after attention that moved its heads by "
        "`transpose`. `view` cannot make another shape of such a tensor. `unsqueeze` and `reshape` can.",
        recognise=_first_in(OtherForm.BY_QUERY, "view size is not compatible"),
    ),
    Mistake(
        "leaves-the-graph",
        "The numbers are right, but a loss of them gives the two sides no gradient, or a wrong one. What you compute "
        "leaves autograd's graph somewhere, as by `detach()`, `.data`, `.item()` or `torch.no_grad()`.",
        recognise=_has_other_gradients,
    ),
    Mistake(
        "one-buffer",
        "The second call changed what the first one had given, as happens where both results lie in one tensor. A "
        "caller that joins a third side may still need the first two: give a new tensor in each call.",
        recognise=_is_written_over,
    ),
)
