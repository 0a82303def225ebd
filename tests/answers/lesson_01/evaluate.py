"""01.evaluate: the mean loss over all examples, with nothing kept."""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F
from answer_table import Row


@torch.no_grad()
def one_by_one(model, batches):
    model.eval()
    total, count = 0.0, 0
    for x, y in batches:
        total += F.cross_entropy(model(x), y, reduction="sum").item()
        count += len(y)
    return total / count


def with_a_copy(model, batches):
    return one_by_one(copy.deepcopy(model), batches)


@torch.no_grad()
def in_training_mode(model, batches):
    total, count = 0.0, 0
    for x, y in batches:
        total += F.cross_entropy(model(x), y, reduction="sum").item()
        count += len(y)
    return total / count


def keeps_the_batches(model, batches, seen=[]):  # noqa: B006
    seen.extend(x for x, _ in batches)
    return one_by_one(model, batches)


ROWS = [
    Row(answer=one_by_one, verdict="passed", why="the definition"),
    Row(
        answer=with_a_copy,
        verdict="not yet",
        words=("the model that was handed over never ran",),
        why="a copy doubles the model's memory, and it did run: the message must not deny that",
    ),
    Row(
        answer=in_training_mode,
        verdict="not yet",
        words=("BatchNorm normalises by the batch that it is given",),
        unsaid=("the batch before it",),
        why="the mode was left as training has it",
    ),
    Row(
        answer=keeps_the_batches,
        verdict="not yet",
        words=("still holds a tensor that it was given",),
        why="the examples of all evaluations stay in memory",
    ),
]
