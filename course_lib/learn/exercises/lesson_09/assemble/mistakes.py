"""09.assemble: how usual wrong answers are told, by where they fail and by the losses that they give."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import isclose

from course_lib.cluster.failures.rank_stands import WAITS, RankStands
from course_lib.learn.catalogue.exercise import AnswerOutcome, Evidence
from course_lib.learn.exercises.lesson_09.assemble.cases import LAYOUTS, AssembleLayout, losses, own_loss
from course_lib.learn.exercises.lesson_09.assemble.reports import A_NUMBER, AssembleReport
from course_lib.learn.judging.report import Recogniser, differing, only_in, only_wrong, reports

__all__ = [
    "averages_again",
    "calls_with_a_loss_alone",
    "deals_by_rank",
    "fails_in",
    "first_is",
    "gives_its_own",
    "gives_none",
    "has_few_digits",
    "has_nothing_before_the_last",
    "keeps_more_along",
    "only_in_another_order",
    "shards_nothing",
    "slices_or_stages_differ",
    "stages_disagree",
    "stages_uneven",
    "times",
]

_, _TWO_STAGES, _, *_OTHER_ORDERS = list(LAYOUTS)[:5]


@dataclass(frozen=True)
class _Try:
    """One rank on one mesh: what came of it, beside what is right."""

    layout: AssembleLayout
    outcome: AnswerOutcome

    @property
    def got(self) -> AssembleReport:
        return self.outcome.got

    @property
    def place(self) -> int:
        """Of its share of the batch."""
        return self.layout.mesh.coordinates(self.outcome.rank)["dp_shard"]

    @property
    def ratio(self) -> float:
        """Its first loss over the right one."""
        return float(self.got.first / self.outcome.expected.first)

    @property
    def differing(self) -> set[str]:
        """The facts that are not as expected."""
        return differing(self.outcome)


def _tries(evidence: Evidence) -> Iterator[_Try]:
    """Those that came to an end with numbers."""
    for outcome, got in reports(evidence, AssembleReport):
        if got.gave == A_NUMBER and outcome.kind in LAYOUTS:
            yield _Try(LAYOUTS[outcome.kind], outcome)


def _wrong(evidence: Evidence) -> list[_Try]:
    return [one for one in _tries(evidence) if not one.outcome.right]


def _first_wrong(evidence: Evidence) -> list[_Try]:
    return [one for one in _tries(evidence) if "first" in one.differing]


# -- by an error --------------------------------------------------------------------------------------------------


def fails_in(words: str, *labels: str) -> Recogniser:
    """An error that says so, on one of these meshes (default: any)."""

    def check(evidence: Evidence) -> bool:
        return any(
            outcome.error is not None and words in outcome.error.message and (not labels or outcome.kind in labels)
            for outcome in evidence.outcomes
        )

    return check


def deals_by_rank(evidence: Evidence) -> bool:
    """Wrong numbers on the first mesh, and fewer rows than micro-batches on a later one."""
    return fails_in("at least one sample for each of the")(evidence) and bool(_first_wrong(evidence))


def _stands(evidence: Evidence) -> RankStands:
    """Where the ranks of the mesh with two stages stood, if that is where it ended."""
    last = evidence.outcomes[-1]
    is_there = last.error is not None and last.error is evidence.error and last.kind == _TWO_STAGES
    return evidence.stands if is_there else RankStands()


def calls_with_a_loss_alone(evidence: Evidence) -> bool:
    """Of two stages the last waits in a collective of one number, and the first for a message."""
    waits = [stand for stand in _stands(evidence).ranks if stand.state == WAITS]
    numbers = [stand for stand in waits if stand.shape == () and stand.call != "receive"]
    return bool(numbers) and len(numbers) < len(waits)


def stages_disagree(evidence: Evidence) -> bool:
    """Of two ranks of one tensor group, one waits for the other within a layer, and that one for a message."""
    stands, groups = _stands(evidence), [tuple(group) for group in LAYOUTS[_TWO_STAGES].mesh.groups("tp")]
    in_a_layer = any(stand.call == "all_reduce" and stand.members in groups for stand in stands.ranks)
    return in_a_layer and bool(stands.waiting_in("receive"))


# -- by numbers ---------------------------------------------------------------------------------------------------


def gives_none(evidence: Evidence) -> bool:
    """Some ranks return the loss, and others None."""
    return {"None", A_NUMBER} <= {got.gave for _, got in reports(evidence, AssembleReport)}


def first_is(check: Callable[[_Try], bool]) -> Recogniser:
    """Wherever the first loss is wrong, and somewhere it is, it is so."""

    def signs(evidence: Evidence) -> bool:
        wrong = _first_wrong(evidence)
        return bool(wrong) and all(map(check, wrong))

    return signs


def times(*ratios: float) -> Recogniser:
    """A first loss so many times as large."""
    return first_is(lambda one: any(isclose(one.ratio, ratio, rel_tol=1e-8) for ratio in ratios))


gives_its_own = first_is(lambda one: isclose(one.got.first, own_loss(one.layout, one.place), rel_tol=1e-8))
has_nothing_before_the_last = first_is(lambda one: one.ratio == 0)


# Right wherever axes stand in the order pp, dp_shard, tp, and wrong elsewhere.
only_in_another_order = only_in(*_OTHER_ORDERS)


def keeps_more_along(axis: str) -> Recogniser:
    """All losses are right, and too much is kept wherever this axis has several places, and nowhere else."""

    def check(evidence: Evidence) -> bool:
        tries = list(_tries(evidence))
        over = {one.layout for one in tries if "kept_numbers" in one.differing}  # on some rank, at least
        wanted = {one.layout for one in tries if one.layout.mesh.size(axis) > 1}
        return only_wrong("kept_numbers")(evidence) and over == wanted

    return check


def stages_uneven(evidence: Evidence) -> bool:
    """All losses are right, and of two stages one rank keeps too much, and another does not."""
    over = ["kept_numbers" in one.differing for one in _tries(evidence) if one.layout.mesh.size("pp") > 1]
    return keeps_more_along("pp")(evidence) and not all(over)


def slices_or_stages_differ(evidence: Evidence) -> bool:
    """``FullySharded`` says so of a shape or of a cut, and not only where axes stand in another order."""
    is_told = (
        fails_in(words)(evidence) for words in ("wrap the same model on all ranks", "hold different parts of it")
    )
    return any(is_told) and not only_in_another_order(evidence)


def has_few_digits(evidence: Evidence) -> bool:
    """All losses are right to six digits, and not to nine."""
    apart = [
        abs(have / want - 1)
        for one in _tries(evidence)
        for want, have in zip(_all_losses(one.outcome.expected), _all_losses(one.got), strict=True)
    ]
    return evidence.error is None and bool(apart) and 1e-9 < max(apart) < 1e-6


def _all_losses(report: AssembleReport) -> list[float]:
    return [report.first, *report.later]


def shards_nothing(evidence: Evidence) -> bool:
    """The first loss is right, later ones are not, and whole slices are kept."""
    tries = _wrong(evidence)
    return bool(tries) and all(
        "first" not in one.differing and {"later", "kept_numbers"} <= one.differing for one in tries
    )


def averages_again(evidence: Evidence) -> bool:
    """All goes as with gradients that are shorter by the number of shares or of copies, or longer."""
    tries = _wrong(evidence)
    return bool(tries) and all("first" not in one.differing and _has_other_gradients(one) for one in tries)


def _has_other_gradients(one: _Try) -> bool:
    return any(
        all(isclose(a, b, rel_tol=1e-8) for a, b in zip(one.got.later, losses(one.layout, factor)[1:], strict=True))
        for factor in (1 / 4, 1 / 2, 2.0, 4.0)
    )
