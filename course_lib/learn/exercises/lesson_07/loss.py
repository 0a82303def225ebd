"""07.loss: what one micro-batch adds to the mean loss of its batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.learn.compare import close_to, short
from course_lib.learn.exercise import Case, Evidence, Exercise, Mistake
from course_lib.learn.judge import by_cases

__all__ = ["LOSS"]

_CLASSES = 5
_LOSS, _GRADIENT = "sum of the contributions", "gradient of the output"
_CASES = (
    ("16 samples in one piece", (16,)),
    ("16 samples in 4 pieces", (4,) * 4),
    ("10 in 4, 4 and 2", (4, 4, 2)),
)
Answer = Callable[[Tensor, Tensor, int], Any]


def _outputs(sizes: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    made = torch.Generator().manual_seed(sum(sizes))
    output = torch.randn(sum(sizes), _CLASSES, generator=made, dtype=torch.float64)
    return output.requires_grad_(), torch.arange(sum(sizes)) % _CLASSES


def _right(*sizes: int) -> dict[str, Any]:
    """By PyTorch, over the whole batch."""
    output, target = _outputs(sizes)
    loss = F.cross_entropy(output, target)
    loss.backward()
    return {_LOSS: loss.item(), _GRADIENT: output.grad}


def _call(answer: Answer, *sizes: int) -> Any:
    """Each piece by itself, as on the last stage of a pipeline: its contribution, then a backward from there."""
    output, target = _outputs(sizes)
    total = 0.0
    for piece, right in zip(output.split(sizes), target.split(sizes), strict=True):
        made = answer(piece, right, sum(sizes))
        if made is ...:
            return ...
        if not isinstance(made, Tensor) or made.numel() != 1:
            return f"expected a tensor with one number, got {short(made)}"
        if not made.requires_grad:
            return "expected a tensor that backward can begin at, got one without a graph"
        made.backward()
        total += made.item()
    return {_LOSS: total, _GRADIENT: output.grad}


# -- usual wrong answers ----------------------------------------------------------------------------------------


def _mean(output: Tensor, target: Tensor, num_samples: int) -> Tensor:
    return F.cross_entropy(output, target)


def _sum(output: Tensor, target: Tensor, num_samples: int) -> Tensor:
    return F.cross_entropy(output, target, reduction="sum")


def _twice(output: Tensor, target: Tensor, num_samples: int) -> Tensor:
    return F.cross_entropy(output, target) / num_samples


def _mean_of_means(output: Tensor, target: Tensor, num_samples: int) -> Tensor:
    return F.cross_entropy(output, target) / max(1, num_samples // len(output))


def _each_sample(output: Tensor, target: Tensor, num_samples: int) -> Tensor:
    return F.cross_entropy(output, target, reduction="none") / num_samples


def _number(output: Tensor, target: Tensor, num_samples: int) -> float:
    return F.cross_entropy(output, target, reduction="sum").item() / num_samples


def _detached(output: Tensor, target: Tensor, num_samples: int) -> Tensor:
    return F.cross_entropy(output.detach(), target, reduction="sum") / num_samples


def _upside_down(output: Tensor, target: Tensor, num_samples: int) -> Tensor:
    return F.cross_entropy(output, target) * (num_samples / len(target))


def _compare(expected: Any, got: Any) -> str:
    """What came is told as it is where it is no tensor with one number; else the first difference."""
    return got if isinstance(got, str) and got != expected else close_to(1e-9, 1e-12)(expected, got)


def _text(words: str) -> Callable[[Evidence], bool]:
    return lambda evidence: all(isinstance(o.got, str) and words in o.got for o in evidence.outcomes)


def _number_came(evidence: Evidence) -> bool:
    texts = [outcome.got for outcome in evidence.outcomes]
    return all(
        isinstance(text, str) and "with one number, got" in text and not text.endswith("got None")
        for text in texts
    ) and not any("got tensor" in text for text in texts)


LOSS = Exercise(
    name="07.loss",
    title="A micro-batch's part of the loss",
    judge=by_cases([Case(label, sizes, _right) for label, sizes in _CASES], call=_call, compare=_compare),
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
            "The share stands on its head: you multiply by batch / micro-batch. A piece is the smaller, the less it "
            "contributes.",
            _upside_down,
        ),
        Mistake(
            "a-number-each",
            'A loss for each sample came back (`reduction="none"`). Backward begins at one number: add them up.',
            _each_sample,
            _text("with one number, got tensor"),
        ),
        Mistake(
            "no-tensor",
            "A plain number has no past: backward cannot begin there. Leave `.item()` to whoever prints.",
            _number,
            _number_came,
        ),
        Mistake(
            "detached",
            "The value is right and has no graph: nothing will learn from it. Compute it from `output` itself, without "
            "`detach`.",
            _detached,
            _text("without a graph"),
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
