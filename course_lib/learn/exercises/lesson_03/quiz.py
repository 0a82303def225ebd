"""The quiz of lesson 03; right answers come from the library's own scatter, gather and wrapper."""

from __future__ import annotations

from fractions import Fraction

import torch
from torch import nn

from course_lib.learn.questions import Question
from course_lib.parallel.data import CopyCounter, DataParallel, scatter

__all__ = ["QUIZ"]

_FOUR = ["cpu"] * 4


def _rows(batch_size: int) -> tuple[int, ...]:
    return tuple(len(part) for part in scatter(torch.zeros(batch_size), _FOUR))


def _weights_copied() -> float:
    """How many times the model's weights, or gradients of their size, are copied in a step of four replicas."""
    model = nn.Linear(100, 100, bias=False)
    with CopyCounter() as copied:
        output = DataParallel(model, _FOUR)(torch.zeros(4, 100))
        output.sum().backward()
    batch = 3 / 4 * (2 * output.nbytes + 4 * 100 * 4)
    return (copied.size_bytes - batch) / model.weight.nbytes


def _true_mean() -> Fraction:
    """The batch's mean loss, where 10 rows gave the replicas' means 1, 1, 1 and 5."""
    rows = _rows(10)
    return Fraction(sum(mean * n for mean, n in zip((1, 1, 1, 5), rows, strict=True)), sum(rows))


def _running_mean() -> float:
    """BatchNorm over four parts whose means are 2, 4, 6 and 8, keeping the last mean alone (momentum 1)."""
    norm = nn.BatchNorm1d(1, momentum=1.0)
    DataParallel(norm, _FOUR)(torch.tensor([[1.0], [3], [3], [5], [5], [7], [7], [9]]))
    return norm.running_mean.item() if norm.running_mean is not None else 0.0


QUIZ = (
    Question(
        name="rows",
        text="nn.DataParallel on four GPUs, and a loader with batch_size=256. How many rows does each GPU compute?",
        choices=(64, 256, 1024),
        answer=lambda: _rows(256)[0],
        misconceptions={
            256: "That is DistributedDataParallel, where every process has a loader of its own.",
            1024: "Nobody makes rows; the batch of the loader is cut.",
        },
        because="One process, one loader, one batch; it is cut in four.",
    ),
    Question(
        name="ragged",
        text="Nine rows for four devices. Who gets how many?",
        choices=((3, 2, 2, 2), (3, 3, 3), (2, 2, 2, 3), (9,)),
        answer=lambda: _rows(9),
        show=lambda rows: " + ".join(map(str, rows)),
        misconceptions={
            (
                3,
                2,
                2,
                2,
            ): "As even as can be is another rule (`tensor_split`). `chunk` rounds the part up, and deals out.",
            (2, 2, 2, 3): "The last part is the one that is short, never longer.",
            (9,): "A batch of nine is cut, as any other.",
        },
        because="Parts of 9 / 4, rounded up, until nothing is left. The fourth device has no work.",
    ),
    Question(
        name="copied",
        text="A model of 100 MB on four devices. How many MB of weights and gradients are copied in one training step?",
        choices=(100, 300, 400, 600),
        answer=lambda: round(100 * _weights_copied()),
        misconceptions={
            100: "The weights go to three other devices, and gradients come back.",
            300: "That is the way out. The gradients come back from three devices.",
            400: "Replica 0 sits with the original: three copies. And gradients come back.",
        },
        because="Three times weights forward, three times gradients backward; at every step.",
    ),
    Question(
        name="statistics",
        text="BatchNorm with momentum 1, and a batch whose four parts have the means 2, 4, 6 and 8. What does the "
        "model remember as its running mean?",
        choices=(2, 5, 8),
        answer=lambda: round(_running_mean()),
        misconceptions={
            5: "That would be the mean of the whole batch, and no replica ever sees that.",
            8: "The last replica writes into a copy, which is thrown away.",
        },
        because="Only replica 0 writes into the module's own buffers.",
    ),
    Question(
        name="mean",
        text="Each replica returns the mean loss of its rows. Ten rows on four devices gave 1, 1, 1 and 5. What is the "
        "mean loss of the batch?",
        choices=(Fraction(2), Fraction(7, 5), Fraction(8)),
        answer=_true_mean,
        show=lambda mean: f"{float(mean):g}",
        misconceptions={
            Fraction(2): "The mean of the four: the last replica had one row, and the others three each.",
            Fraction(8): "That is the sum of the four.",
        },
        because="3 + 3 + 3 rows with a loss of 1, and a single one with 5: 14 / 10.",
    ),
)
