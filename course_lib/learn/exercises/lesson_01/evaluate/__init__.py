"""01.evaluate: the clinic's case, mended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from course_lib.learn.catalogue.exercise import Case, Exercise, Mistake
from course_lib.learn.exercises.lesson_01.evaluate.trial import evaluated, try_evaluation
from course_lib.learn.exercises.lesson_01.tries import told
from course_lib.learn.judging.compare import close_to
from course_lib.learn.judging.judge import by_cases

__all__ = ["EVALUATE"]


def _evaluator(
    *,
    recorded: bool = False,
    graph: bool = False,
    mean_of_means: bool = False,
    scale: Callable[[int, int], float] = lambda size, count: size / count,
) -> Callable[[nn.Module, list], Any]:
    def evaluate(model: nn.Module, batches: list) -> Any:
        model.eval()
        total, count = torch.zeros(()), sum(len(x) for x, _ in batches)
        with torch.set_grad_enabled(recorded):
            for x, y in batches:
                share = 1 / len(batches) if mean_of_means else scale(len(x), count)
                loss = F.cross_entropy(model(x), y) * share
                total = total + (loss if graph else loss.detach())
        return total

    return evaluate


def _divides_by_batches(model: nn.Module, batches: list) -> float:
    return _evaluator(scale=lambda size, count: size / len(batches))(model, batches)


EVALUATE = Exercise(
    name="01.evaluate",
    title="An evaluation that keeps nothing",
    judge=by_cases(
        [
            Case("four batches of 4", ((4, 4, 4, 4), True), evaluated),
            Case("batches of 5, 5, 5 and 2", ((5, 5, 5, 2), True), evaluated),
            Case("one batch of 1", ((1,), True), evaluated),
            Case("batches of 3 and 8, the model in evaluation mode already", ((3, 8), False), evaluated),
            Case("batches of 6 and 2 of a model in float32", ((6, 2), True, torch.float32), evaluated),
        ],
        call=try_evaluation,
        compare=told(close_to(1e-5)),
    ),
    mistakes=(
        Mistake(
            "every-graph-kept",
            "Every batch is still kept to the end: the sum of losses holds the graph of each of them. `model.eval()` "
            "changes what dropout and BatchNorm do; it does not stop the recording.",
            _evaluator(recorded=True, graph=True),
        ),
        Mistake(
            "one-graph-kept",
            "The growth is gone, and each forward pass still keeps its activations for a backward pass that never "
            "comes: one batch's worth, for nothing. Switch the recording off for the whole loop.",
            _evaluator(recorded=True),
        ),
        Mistake(
            "mean-of-means",
            "Nothing is kept, which is the point; but the short last batch now counts as much as a full one. "
            "Weigh each "
            "batch by its examples, as before.",
            _evaluator(mean_of_means=True),
        ),
        Mistake(
            "means-over-count",
            "Nothing is kept, which is the point; but you added the means of the batches and divided by the number of "
            "examples. Each mean stands for as many examples as its batch has, and has to count as often.",
            _evaluator(scale=lambda size, count: 1 / count),
        ),
        Mistake(
            "divided-by-batches",
            "Nothing is kept, which is the point; but you weighed each batch by its examples and divided by the number "
            "of batches. Divide by the number of examples.",
            _divides_by_batches,
        ),
        Mistake(
            "sum-for-mean",
            "Nothing is kept, which is the point; but this is the sum over all examples. Divide by their number at the "
            "end.",
            _evaluator(scale=lambda size, count: size),
        ),
    ),
    hints=(
        "The ledger says *activation*: these bytes wait for a backward pass. Who asked for them to be kept?",
        "Every operation on something that requires a gradient is recorded, in evaluation too, unless you say "
        "otherwise.",
        "Put the loop inside `with torch.no_grad():`.",
    ),
    passed="The loss is the same, nothing is kept, and one batch is in memory at a time. The model is in evaluation "
    "mode, and nothing else has changed.",
)
