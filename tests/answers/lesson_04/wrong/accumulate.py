"""04.accumulate: wrong answers, by the name of the mistake that each makes."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F

from course_lib.learn.exercises.lesson_04.accumulate.mistakes import step
from course_lib.learn.exercises.lesson_04.accumulate.trial import Pieces


def flag_too_late(ddp: Any, optimizer: torch.optim.Optimizer, pieces: Pieces) -> None:
    """The clinic's code: the last piece's forward pass has run when the flag is set."""
    optimizer.zero_grad()
    ddp.require_backward_grad_sync = False
    for index, (x, y) in enumerate(pieces):
        loss = F.cross_entropy(ddp(x), y) / len(pieces)
        ddp.require_backward_grad_sync = index == len(pieces) - 1
        loss.backward()
    optimizer.step()


def no_sync_around_backward(ddp: Any, optimizer: torch.optim.Optimizer, pieces: Pieces) -> None:
    optimizer.zero_grad()
    for index, (x, y) in enumerate(pieces):
        loss = F.cross_entropy(ddp(x), y) / len(pieces)
        with ddp.no_sync() if index < len(pieces) - 1 else contextlib.nullcontext():
            loss.backward()
    optimizer.step()


def bare_model(ddp: Any, optimizer: torch.optim.Optimizer, pieces: Pieces) -> None:
    optimizer.zero_grad()
    for x, y in pieces:
        (F.cross_entropy(ddp.module(x), y) / len(pieces)).backward()
    optimizer.step()


def all_at_once(ddp: Any, optimizer: torch.optim.Optimizer, pieces: Pieces) -> None:
    x, y = (torch.cat(parts) for parts in zip(*pieces, strict=True))
    optimizer.zero_grad()
    F.cross_entropy(ddp(x), y).backward()
    optimizer.step()


def all_forwards_first(ddp: Any, optimizer: torch.optim.Optimizer, pieces: Pieces) -> None:
    optimizer.zero_grad()
    losses = []
    for index, (x, y) in enumerate(pieces):
        with ddp.no_sync() if index < len(pieces) - 1 else contextlib.nullcontext():
            losses.append(F.cross_entropy(ddp(x), y))
    torch.stack(losses).mean().backward()
    optimizer.step()


def last_by_identity(ddp: Any, optimizer: torch.optim.Optimizer, pieces: Pieces) -> None:
    optimizer.zero_grad()
    for piece in pieces:
        x, y = piece
        with contextlib.nullcontext() if piece is pieces[-1] else ddp.no_sync():
            (F.cross_entropy(ddp(x), y) / len(pieces)).backward()
    optimizer.step()


def averages_the_loss_too(ddp: Any, optimizer: torch.optim.Optimizer, pieces: Pieces) -> None:
    step()(ddp, optimizer, pieces)
    dist.all_reduce(torch.zeros(()))


def only_with_others(ddp: Any, optimizer: torch.optim.Optimizer, pieces: Pieces) -> None:
    if dist.get_world_size() == 1:
        raise ValueError("this answer is for several ranks")
    step()(ddp, optimizer, pieces)


EXERCISE = "04.accumulate"
EXAMPLES: dict[str, Any] = {
    "never-averaged": step(syncs=lambda index, count: False),
    "calls-the-bare-model": bare_model,
    "flag-too-late": flag_too_late,
    "steps-inside": step(steps_inside=True),
    "all-at-once": all_at_once,
    "keeps-every-graph": all_forwards_first,
    "forward-again": step(times=2),
    "leaves-the-flag-down": step(syncs=lambda index, count: index == count - 1, restores=False),
    "averages-every-piece": no_sync_around_backward,
    "last-by-identity": last_by_identity,
    "calls-besides": averages_the_loss_too,
    "not-alone": only_with_others,
    "sum-of-means": step(divide=False),
}
