"""08.split: how usual wrong answers are told by what they leave behind."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from course_lib.learn.catalogue.exercise import AnswerOutcome, Evidence
from course_lib.learn.exercises.lesson_08.split.cases import SITUATIONS, dim_of, loss_with_more_bias, oracle, part_of
from course_lib.learn.exercises.lesson_08.split.reports import SplitMessagesReport, SplitValuesReport
from course_lib.learn.judging.report import Recogniser, both, differing, reports

__all__ = [
    "begins_whole",
    "biases_added_n_times",
    "bytes_are_more",
    "close",
    "enters_more_often",
    "loss_times",
    "only_positions",
    "right_once",
    "some_partial",
    "some_times_too_large",
    "too_wide",
    "values_wrong_in",
    "wrong_first",
    "wrong_only_in",
]


_VALUES = {"losses", "gradients", "later_losses"}


def wrong_first(*names: str) -> Recogniser:
    """Whether no error came, and wherever something is wrong one of these facts is."""

    def recognise(evidence: Evidence) -> bool:
        found = [differing(one) for one in evidence.wrong]
        return evidence.error is None and any(found) and all(one & {*names} for one in found if one)

    return recognise


def wrong_only_in(*kinds: str) -> Recogniser:
    """Whether something is wrong, in cases whose names begin so and in no other; it may be an error."""
    return lambda evidence: bool(evidence.wrong) and all(one.kind.startswith(kinds) for one in evidence.wrong)


def values_wrong_in(*kinds: str) -> Recogniser:
    """Whether losses or gradients are wrong in a case whose name begins so."""
    return lambda evidence: any(one.kind.startswith(kinds) and differing(one) & _VALUES for one in evidence.wrong)


def _seen(evidence: Evidence) -> Iterator[tuple[AnswerOutcome, SplitValuesReport]]:
    """Each report of steps on one model whose loss or gradients are wrong."""
    for one, got in reports(evidence, SplitValuesReport):
        is_plain = SITUATIONS[one.kind].num_models == 1 and not SITUATIONS[one.kind].looks_at
        if is_plain and isinstance(got.losses, list) and differing(one) & _VALUES:
            yield one, got


def _loss_is_right(one: AnswerOutcome, got: SplitValuesReport) -> bool:
    due, came = oracle(one.kind).losses[0], got.losses[0]
    return isinstance(came, float) and abs(came - due) <= 1e-9 * abs(due)


def _whole_gradients(one: AnswerOutcome, got: SplitValuesReport) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Of the first step: a name, what one process has of this rank's part, and what came."""
    ranks = SITUATIONS[one.kind].members(one.rank, one.num_ranks)
    for name, whole in oracle(one.kind).gradients[0].items():
        came = got.gradients[0].get(name)
        if isinstance(came, Tensor):
            own = whole if came.shape == whole.shape else part_of(name, whole, ranks.index(one.rank), len(ranks))
            if own.shape == came.shape:
                yield name, own, came


def _near(a: Tensor, b: Tensor) -> bool:
    return torch.allclose(a, b, rtol=1e-6, atol=1e-10 + 1e-8 * float(b.abs().max()))


def some_partial(evidence: Evidence) -> bool:
    """Whether the first loss is right, and of something that all hold the ranks' gradients add up to the whole."""
    found: dict[tuple[str, int], list[SplitValuesReport]] = defaultdict(list)
    for one, got in _seen(evidence):
        if not _loss_is_right(one, got):
            return False
        found[one.kind, one.num_ranks].append(got)
    for (kind, num_ranks), got_of_all in found.items():
        if len(got_of_all) != num_ranks:
            continue
        for name, whole in oracle(kind).gradients[0].items():
            if dim_of(name) is None:
                came = [got.gradients[0].get(name) for got in got_of_all]
                are_whole = all(isinstance(one, Tensor) and one.shape == whole.shape for one in came)
                if are_whole and _near(sum(came), whole) and not _near(came[0], whole):  # type: ignore[arg-type]
                    return evidence.error is None
    return False


def some_times_too_large(evidence: Evidence) -> bool:
    """Whether the first loss is right, and some gradient is as many times too large as there are ranks."""
    found = [
        _loss_is_right(one, got)
        and any(
            _near(came, one.num_ranks * due) and float(due.abs().max()) > 1e-6
            for _, due, came in _whole_gradients(one, got)
        )
        for one, got in _seen(evidence)
    ]
    return evidence.error is None and bool(found) and all(found)


def _is_times(number: int, due: Tensor, came: Tensor) -> bool:
    return float(due.abs().max()) > 1e-6 and _near(came, number * due)


def biases_added_n_times(evidence: Evidence) -> bool:
    """Whether the first loss is as if each rank had added the biases of row cuts."""
    found = []
    for one, got in _seen(evidence):
        many = loss_with_more_bias(one.kind, one.num_ranks)
        found.append(isinstance(got.losses[0], float) and abs(got.losses[0] - many) <= 1e-9 * abs(many))
    return evidence.error is None and bool(found) and all(found)


def loss_times(evidence: Evidence) -> bool:
    """Whether the first loss is n times too large, or too small, on n ranks."""
    found = []
    for one, got in _seen(evidence):
        due, came, n = oracle(one.kind).losses[0], got.losses[0], one.num_ranks
        found.append(isinstance(came, float) and any(abs(came - k * due) <= 1e-9 * abs(k * due) for k in (n, 1 / n)))
    return evidence.error is None and bool(found) and all(found)


def right_once(evidence: Evidence) -> bool:
    """Whether the first step is right in all, as the parts are, and the second one is not."""
    if any("begin" in differing(one) for one in evidence.wrong) or wrong_only_in(_LARGE)(evidence):
        return False
    found = [
        _loss_is_right(one, got) and all(_near(came, due) for _, due, came in _whole_gradients(one, got))
        for one, got in _seen(evidence)
    ]
    return evidence.error is None and bool(found) and all(found)


def close(*, is_narrow: bool) -> Recogniser:
    """Whether the losses are right to about five digits and no more, and narrower numbers were seen, or were not."""

    def recognise(evidence: Evidence) -> bool:
        found = []
        for one, got in _seen(evidence):
            due, came = oracle(one.kind).losses[0], got.losses[0]
            is_close = isinstance(came, float) and 1e-9 * abs(due) < abs(came - due) <= 2e-5 * abs(due)
            found.append(is_close and got.is_narrow == is_narrow)
        return evidence.error is None and bool(found) and all(found)

    return recognise


def only_positions(evidence: Evidence) -> bool:
    """Whether in the first step nothing is wrong but the gradient of the table of positions."""
    found = [
        _loss_is_right(one, got)
        and {name for name, due, came in _whole_gradients(one, got) if not _near(came, due)} == {_POSITIONS}
        for one, got in _seen(evidence)
    ]
    return evidence.error is None and bool(found) and all(found)


_POSITIONS, _LARGE = "stem.positions.weight", "logits of a thousand"


def begins_whole(evidence: Evidence) -> bool:
    """Whether a matrix of the vocabulary is whole among the parts, and those of the blocks are not."""
    found = [
        _has_whole(one, got, "tokens.weight", "w_vocab.weight")
        and not _has_whole(one, got, "w_up.weight", "w_q.weight")
        for one, got in reports(evidence, SplitValuesReport)
        if "begin" in differing(one) and isinstance(got.begin, dict) and SITUATIONS[one.kind].num_models == 1
    ]
    return evidence.error is None and bool(found) and all(found)


def _has_whole(one: AnswerOutcome, got: SplitValuesReport, *ends: str) -> bool:
    return any(
        isinstance(came := got.begin.get(name), Tensor) and came.shape == part.shape
        for name, part in oracle(one.kind).begin.items()
        if name.endswith(ends)
    )


# -- calls -------------------------------------------------------------------------------------------------------------


def _calls(holds: Callable[[Any, Any], bool], *ways: str) -> Recogniser:
    """Whether only calls are wrong, and wherever these ways are, (due, came) are so."""

    def recognise(evidence: Evidence) -> bool:
        wrong = [differing(one) for one in evidence.wrong]
        found = [
            holds(getattr(one.expected, way), getattr(got, way))
            for one, got in reports(evidence, SplitMessagesReport)
            for way in ways
            if way in differing(one)
        ]
        is_calls = evidence.error is None and all(not one & {*_VALUES, "begin"} for one in wrong)
        return is_calls and bool(found) and all(found)

    return recognise


def _many_more(due: Any, came: Any) -> bool:
    return came[0] > due[0] and came[1] > 1.2 * due[1]


def _forward_is_right(evidence: Evidence) -> bool:
    """Without positions shared out: with them an entrance sends forward as well."""
    return not any("forward" in differing(one) for one in evidence.wrong if not SITUATIONS[one.kind].sequence)


enters_more_often = both(_calls(_many_more, "backward"), _forward_is_right)
bytes_are_more = _calls(lambda due, came: came[1] > due[1], "forward", "backward")


def too_wide(evidence: Evidence) -> bool:
    """Whether all values are right, and some tensor is as large as all logits."""
    found = [differing(one) for one in evidence.wrong]
    is_right = evidence.error is None and not any(one & {*_VALUES, "begin", "kept"} for one in found)
    return is_right and any("widest" in one for one in found)
