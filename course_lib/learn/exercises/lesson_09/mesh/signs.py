"""09.mesh: by what usual mistakes are known. A loss or a norm that fits a habit to nine digits is no chance."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import sqrt
from typing import Any

from torch import Tensor
from torch.optim import AdamW

from course_lib.learn.catalogue.exercise import AnswerOutcome, Evidence
from course_lib.learn.exercises.lesson_09.mesh.cases import (
    SITUATIONS,
    MeshSituation,
    dim_of,
    first_gradients,
    oracle,
)
from course_lib.learn.exercises.lesson_09.mesh.reports import MeshMessagesReport, MeshValuesReport, numbers_differ
from course_lib.learn.judging.report import Recogniser, differing, reports

__all__ = [
    "begins_elsewhere",
    "copies_are_counted",
    "copies_differ",
    "ends_are_counted",
    "factor_of_loss",
    "first_norms_are_right",
    "goes_wrong_after_the_checkpoint",
    "has_a_norm_of_its_own",
    "has_its_own_loss",
    "has_loss_at_the_end_alone",
    "is_no_pair",
    "limits_otherwise",
    "norm_after_the_clip",
    "sends_more_along",
    "steps_go_wrong",
    "trains_like",
]

Factor = Callable[[MeshSituation], float]
_SMALL = 1e-9
_FACTORS = (2, 3, 4, 8, 1 / 2, 1 / 3, 1 / 4, 1 / 8)
_LOST = ("states", "count", "weights")  # habits after a checkpoint


def _near(a: Any, b: float) -> bool:
    return isinstance(a, float) and abs(a - b) <= _SMALL * max(abs(b), _SMALL)


def _seen(evidence: Evidence) -> Iterator[tuple[AnswerOutcome, Any, MeshSituation]]:
    for one, got in reports(evidence, MeshValuesReport):
        if got.losses and isinstance(got.losses, list):
            yield one, got, SITUATIONS[one.kind]


def _with_wrong(evidence: Evidence, name: str) -> list[tuple[AnswerOutcome, Any, MeshSituation]]:
    """Those of which this fact is wrong; none where something ended with an error, or parts began wrong."""
    seen = list(_seen(evidence))
    if evidence.error is not None or any("begin" in differing(one) for one, _, _ in seen):
        return []
    return [(one, got, situation) for one, got, situation in seen if name in differing(one)]


# -- steps -------------------------------------------------------------------------------------------------------------


def trains_like(habit: str, *factors: Factor) -> Recogniser:
    """Whether wherever losses are wrong they are those of one process with this habit, times one of these factors."""

    def recognise(evidence: Evidence) -> bool:
        wrong = _with_wrong(evidence, "losses")
        if habit not in _LOST:
            wrong = [one for one in wrong if not one[2].stop]  # meshes differ before a checkpoint and after it
        found = [
            any(_losses_are(one, got, habit, factor(situation)) for factor in factors or (lambda _: 1.0,))
            for one, got, situation in wrong
        ]
        return bool(found) and all(found)

    return recognise


def _losses_are(one: AnswerOutcome, got: Any, habit: str, times: float) -> bool:
    situation = SITUATIONS[one.kind]
    if habit in _LOST and not situation.stop:
        return False
    if habit == "count" and situation.optimizer[0] is not AdamW:
        return False  # it has no count of steps
    return not numbers_differ(oracle(one.kind, habit, times).steps.losses, got.losses)


def _first_is_right(one: AnswerOutcome, got: Any) -> bool:
    return _near(got.losses[0], oracle(one.kind).steps.losses[0])


def steps_go_wrong(evidence: Evidence) -> bool:
    """Whether first losses are right, and later ones or weights are not."""
    found = [_first_is_right(one, got) for one, got, _ in _with_wrong(evidence, "losses")]
    return bool(found) and all(found)


def factor_of_loss(evidence: Evidence) -> bool:
    """Whether first losses are a whole number of times too large, or too small."""
    found = [
        any(
            _near(got.losses[0], oracle(one.kind).steps.losses[0] * by)
            for by in (2, 3, 4, 8, 1 / 2, 1 / 3, 1 / 4, 1 / 8)
        )
        for one, got, _ in _with_wrong(evidence, "losses")
    ]
    return bool(found) and all(found)


def has_its_own_loss(evidence: Evidence) -> bool:
    """Whether first losses differ between ranks of dp_shard, and their mean is right."""
    by_case: dict[str, dict[int, float]] = {}
    for one, got, situation in _with_wrong(evidence, "losses"):
        is_even = not situation.stop and situation.rows % situation.mesh(4).size("dp_shard") == 0
        if is_even and isinstance(got.losses[0], float) and one.rank is not None:
            by_case.setdefault(one.kind, {})[one.rank] = got.losses[0]
    found = [
        max(of.values()) - min(of.values()) > _SMALL and _near(sum(of.values()) / len(of), oracle(kind).steps.losses[0])
        for kind, of in by_case.items()
    ]
    return bool(found) and all(found)


def has_loss_at_the_end_alone(evidence: Evidence) -> bool:
    """Whether ranks of the last stage have the loss, and the others 0 or None."""
    wrong = _with_wrong(evidence, "losses")
    found = [
        one.rank is not None
        and situation.mesh(4).coordinates(one.rank)["pp"] + 1 < situation.mesh(4).size("pp")
        and all(loss in (0.0, "None") for loss in got.losses)
        for one, got, situation in wrong
        if not situation.stop
    ]
    return bool(found) and all(found)


def is_no_pair(evidence: Evidence) -> bool:
    """Whether ``step`` does not give a loss and a norm."""
    return any("no pair" in str(got.losses[0]) for _, got, _ in _seen(evidence))


def begins_elsewhere(evidence: Evidence) -> bool:
    """Whether some rank has other parts from the start."""
    return evidence.error is None and any("begin" in differing(one) for one, _, _ in _seen(evidence))


def copies_differ(evidence: Evidence) -> bool:
    """Whether after the last step ranks of dp_shard have different weights under one name."""
    ends: dict[tuple[str, int, int], list[dict[str, Any]]] = {}
    for one, got, situation in _with_wrong(evidence, "end"):
        if one.rank is not None:
            here = situation.mesh(4, after=True).coordinates(one.rank)
            ends.setdefault((one.kind, here["pp"], here["tp"]), []).append(got.end)
    return any(
        isinstance(first.get(name), Tensor) and isinstance(other.get(name), Tensor)
        and first[name].shape == other[name].shape and bool((first[name] - other[name]).abs().max() > _SMALL)
        for first, *others in ends.values()
        for other in others
        for name in first
    )  # fmt: skip


# -- messages ----------------------------------------------------------------------------------------------------------


def sends_more_along(axis: str) -> Recogniser:
    """Whether all else is right, and more than enough goes along this axis."""

    def recognise(evidence: Evidence) -> bool:
        found = [differing(one) for one in evidence.wrong]
        more = [
            got.sent[axis] > one.expected.sent[axis]
            for one, got in reports(evidence, MeshMessagesReport)
            if "sent" in differing(one)
        ]
        return evidence.error is None and all(one <= {"sent"} for one in found) and any(more)

    return recognise


# -- norms -------------------------------------------------------------------------------------------------------------


def _norm_is(holds: Callable[[AnswerOutcome, Any, MeshSituation], bool]) -> Recogniser:
    """Whether wherever norms are wrong this holds, and first losses are right."""

    def recognise(evidence: Evidence) -> bool:
        found = [
            _first_is_right(one, got) and holds(one, got, situation)
            for one, got, situation in _with_wrong(evidence, "norms")
        ]
        return bool(found) and all(found)

    return recognise


def _squares(label: str) -> tuple[float, float]:
    """Of the first gradient: what tp cuts, and what its ranks copy."""
    of_cut = of_copied = 0.0
    for name, gradient in first_gradients(label).items():
        square = float(gradient.square().sum())
        of_cut, of_copied = of_cut + square * (dim_of(name) is not None), of_copied + square * (dim_of(name) is None)
    return of_cut, of_copied


def _counts_copies(one: AnswerOutcome, got: Any, situation: MeshSituation) -> bool:
    of_cut, of_copied = _squares(one.kind)
    mesh = situation.mesh(one.num_ranks or 4)
    data, slices = mesh.size("dp_shard"), mesh.size("tp")
    ways = [(a, b) for a in (1, data) for b in (1, data, slices, data * slices) if (a, b) != (1, 1)]
    return any(_near(got.gave[0], sqrt(a * of_cut + b * of_copied)) for a, b in ways)


def _counts_ends(one: AnswerOutcome, got: Any, situation: MeshSituation) -> bool:
    if not situation.config.tied:
        return False
    if situation.mesh(one.num_ranks or 4).size("pp") == 1:  # before the checkpoint, both ends are in one stage
        return _near(got.gave[0], oracle(one.kind).steps.norms[0])
    tied = float(first_gradients(one.kind)["stem.tokens.weight"].square().sum())
    return _near(got.gave[0], sqrt(sum(_squares(one.kind)) + tied))


copies_are_counted = _norm_is(_counts_copies)
ends_are_counted = _norm_is(_counts_ends)
norm_after_the_clip = _norm_is(
    lambda one, got, situation: (
        situation.max_norm is not None
        and isinstance(got.gave[0], float)
        and abs(got.gave[0] - situation.max_norm) < 1e-5 * situation.max_norm
    )
)


def has_a_norm_of_its_own(evidence: Evidence) -> bool:
    """Whether the norms of the first step differ between ranks, and each is smaller than the whole."""
    norms: dict[str, list[float]] = {}
    for one, got, _ in _with_wrong(evidence, "norms"):
        if isinstance(got.gave[0], float):
            norms.setdefault(one.kind, []).append(got.gave[0] / oracle(one.kind).steps.norms[0])
    found = [max(of) < 1 and max(of) - min(of) > _SMALL for of in norms.values()]
    return bool(found) and all(found)


def first_norms_are_right(evidence: Evidence) -> bool:
    """Whether the norms of the first step are those of one process, wherever a report came."""
    found = [_near(got.gave[0], oracle(one.kind).steps.norms[0]) for one, got, _ in _seen(evidence)]
    return bool(found) and all(found)


def limits_otherwise(evidence: Evidence) -> bool:
    """Whether all without a limit is right, and with one the first loss and norm, and not what comes after."""
    wrong = _with_wrong(evidence, "end")
    found = [
        situation.max_norm is not None
        and _first_is_right(one, got)
        and _near(got.gave[0], oracle(one.kind).steps.norms[0])
        for one, got, situation in wrong
    ]
    return bool(found) and all(found) and all(SITUATIONS[one.kind].max_norm is not None for one in evidence.wrong)


# -- checkpoints -------------------------------------------------------------------------------------------------------


def goes_wrong_after_the_checkpoint(evidence: Evidence) -> bool:
    """Whether all is right up to the first step after loading, and what comes after that is not."""
    found = []
    for one, got, situation in _with_wrong(evidence, "losses"):
        due, upto = oracle(one.kind).steps.losses, situation.stop + 1
        found.append(situation.stop > 0 and not numbers_differ(due[:upto], got.losses[:upto]))
    return bool(found) and all(found)
