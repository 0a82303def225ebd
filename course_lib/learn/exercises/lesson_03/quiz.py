"""The quiz of lesson 03; right answers come from the library's own scatter, gather and wrapper."""

from __future__ import annotations

from fractions import Fraction

import torch
from torch import nn
from torch.utils.data import DataLoader

from course_lib.learn.catalogue.quiz_spec import Question
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


def _two_threads_at_best(python_ms: int, operators_ms: int) -> int:
    """Two threads, each its Python first and then its operators; one at a time runs Python."""
    done_ms = lock_is_free_ms = 0
    for _ in range(2):
        lock_is_free_ms += python_ms
        done_ms = max(done_ms, lock_is_free_ms + operators_ms)
    return done_ms


QUIZ = (
    Question(
        name="steps",
        text="An epoch has 1,024 examples, the loader says batch_size=32, and nn.DataParallel uses four GPUs. How many "
        "steps does the optimizer take in an epoch?",
        choices=(8, 32, 128),
        answer=lambda: len(DataLoader(range(1024), batch_size=32)),  # type: ignore[arg-type]
        misconceptions={
            8: "Then a step would use 128 rows. There is one loader, and what it hands out is cut in four.",
            128: "Then a step would use 8 rows. Each device computes 8, and all four of them make one step.",
        },
        because="As many as on one GPU: a batch of the loader is a step, however many devices share it.",
    ),
    Question(
        name="ragged",
        text="Nine rows are cut for four devices. How many rows does each part have?",
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
            300: "That counts what goes out. The gradients come back from three devices.",
            400: "Replica 0 sits with the original: three copies. And gradients come back.",
        },
        because="The weights are copied three times forward, and the gradients three times backward, at every step.",
    ),
    Question(
        name="lock",
        text="A forward pass takes 6 ms of Python and 4 ms in operators that let go of the lock. Two threads share the "
        "batch: each spends 6 ms in Python again, and then 2 ms in operators. When are both done, at the earliest?",
        choices=(5, 8, 10, 14),
        answer=lambda: _two_threads_at_best(python_ms=6, operators_ms=2),
        misconceptions={
            5: "Half of the rows are half of the operators' work. But the Python is as long as for a whole batch.",
            8: "That is one thread alone. While one runs Python, the other cannot.",
            10: "One thread alone takes so long on all rows. Add up what the lock lets only one thread do at a time.",
        },
        because="The Python of both threads takes twice 6 ms, one after the other. Then come the last 2 ms in "
        "operators.",
        show=lambda time: f"{time} ms",
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
