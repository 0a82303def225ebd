"""07.loss: what one micro-batch adds to the mean loss of its batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from course_lib.learn.catalogue.exercise import Case, Evidence, Exercise, Mistake
from course_lib.learn.exercises.lesson_07.loss.trial import LARGE, Batch, LossSeen, right_loss, try_loss
from course_lib.learn.judging.compare import close_to
from course_lib.learn.judging.judge import by_cases

__all__ = ["LOSS"]

_BATCHES = {
    "16 samples in one piece": Batch((16,), 5),
    "16 samples in 4 pieces": Batch((4,) * 4, 5),
    "10 in 4, 4 and 2": Batch((4, 4, 2), 3),
    "6 in 3, 2 and 1, all forwards first": Batch((3, 2, 1), 7, backwards_last=True),
    "12 in 5, 5 and 2, of many classes": Batch((5, 5, 2), 41),
    "7 in 4 and 3, with outputs of a thousand": Batch((4, 3), 4, scale=LARGE),
}
_close = close_to(1e-9, 1e-12)


def _compare(right: Any, got: Any) -> str:
    """What came is told as it is where backward cannot begin there; then the values; then what was changed."""
    if not isinstance(right, LossSeen) or not isinstance(got, LossSeen):
        return _close(right, got)
    if got.problem or right.problem:
        return "" if got.problem == right.problem else got.problem or "a tensor came"
    if found := _close(right.loss, got.loss):
        return f"the sum of the contributions: {found}"
    if not got.has_graph:
        return "" if not right.has_graph else "the sum is right, and backward cannot begin there: it has no graph"
    if got.notes != right.notes:
        return next(iter(got.notes), "nothing was changed")
    found = _close(right.gradient, got.gradient)
    return f"the gradient of the output: {found}" if found else ""


# -- usual wrong answers ----------------------------------------------------------------------------------------


def _mean(output: Tensor, target: Tensor, num_samples: int) -> Tensor:
    return F.cross_entropy(output, target)


def _sum(output: Tensor, target: Tensor, num_samples: int) -> Tensor:
    return F.cross_entropy(output, target, reduction="sum")


def _twice(output: Tensor, target: Tensor, num_samples: int) -> Tensor:
    return F.cross_entropy(output, target) / num_samples


def _mean_of_means(output: Tensor, target: Tensor, num_samples: int) -> Tensor:
    return F.cross_entropy(output, target) / max(1, num_samples // len(output))


def _upside_down(output: Tensor, target: Tensor, num_samples: int) -> Tensor:
    return F.cross_entropy(output, target) * (num_samples / len(target))


def _everywhere(check: Callable[[LossSeen], bool]) -> Callable[[Evidence], bool]:
    return lambda evidence: all(isinstance(o.got, LossSeen) and check(o.got) for o in evidence.outcomes)


def _right_but_detached(evidence: Evidence) -> bool:
    """The values are right in every case, and none of them has a graph."""
    return all(
        isinstance(o.got, LossSeen) and not o.got.problem and not o.got.has_graph for o in evidence.outcomes
    ) and not any(_close(o.expected.loss, o.got.loss) for o in evidence.outcomes)


def _wrong_where_large(evidence: Evidence) -> bool:
    """Right but where the outputs are large, and no number there."""
    return all(isinstance(o.got, LossSeen) and not o.got.is_finite for o in evidence.wrong) and all(
        o.right for o in evidence.outcomes if "thousand" not in o.case
    )


LOSS = Exercise(
    name="07.loss",
    title="A micro-batch's part of the loss",
    judge=by_cases(
        [Case(label, (batch,), right_loss) for label, batch in _BATCHES.items()],
        call=try_loss,
        compare=_compare,
    ),
    mistakes=(
        Mistake(
            "mean-of-each",
            "Each micro-batch contributes its own mean, and the sum is as many times too large as there are pieces. "
            "With one piece it is right, which is why nobody noticed.",
            _mean,
        ),
        Mistake(
            "sum-of-each",
            "The sum over samples, and never a division: the loss grows with the batch. Divide by the samples of the "
            "whole batch.",
            _sum,
        ),
        Mistake(
            "averaged-twice",
            "Averaged twice: `cross_entropy` gives the mean over the micro-batch already, and you divide by the batch "
            "on top. Either the sum and one division, or the mean by its share of the samples.",
            _twice,
        ),
        Mistake(
            "mean-of-means",
            "Right where all pieces are of one size. The smaller last one then weighs as much, in all, as the others: "
            "a mean of means. Let every *sample* weigh the same.",
            _mean_of_means,
        ),
        Mistake(
            "upside-down",
            "The share is upside down: you multiply by batch / micro-batch. The smaller a piece is, the less it "
            "contributes.",
            _upside_down,
        ),
        Mistake(
            "a-number-each",
            'A loss for each sample came back (`reduction="none"`). Backward begins at one number: add them up.',
            recognise=_everywhere(lambda seen: seen.one_each),
        ),
        Mistake(
            "no-tensor",
            "A plain number has no past: backward cannot begin there. Leave `.item()` to whoever prints.",
            recognise=_everywhere(lambda seen: seen.is_number),
        ),
        Mistake(
            "detached",
            "The value is right and has no graph: nothing will learn from it. Compute it from `output` itself, without "
            "`detach`.",
            recognise=_right_but_detached,
        ),
        Mistake(
            "overflows",
            "Right for outputs of everyday size. Where they are about a thousand, inf or nan comes back. An `exp` "
            "on the way is too large for a number, or so small that it is 0. A function such as `log_softmax` keeps "
            "clear of both.",
            recognise=_wrong_where_large,
        ),
    ),
    hints=(
        "Every sample of the batch weighs the same, whichever piece it is in. What does one sample contribute to a "
        "mean over `num_samples`?",
        "`cross_entropy` has a parameter `reduction`. After the sum over the piece one division is left.",
        'torch.nn.functional.cross_entropy(output, target, reduction="sum") / num_samples',
    ),
    passed="The contributions add up to the mean over the batch, in value and in gradient, also when the last piece is "
    "smaller.",
)
