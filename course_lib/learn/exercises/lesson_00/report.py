"""Exercise 00.report: a collective that not every rank calls."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from course_lib.learn.exercise import Case, Exercise, Mistake
from course_lib.learn.judge import by_ranks

__all__ = ["REPORT"]


def _loss(rank: int) -> torch.Tensor:
    return torch.tensor(rank + 0.5)


def _report(rank: int, world_size: int) -> str | None:
    mean = sum(float(_loss(r)) for r in range(world_size)) / world_size
    return f"mean loss {mean:.2f}" if rank == 0 else None


def _only_rank_0_calls(me: Any, loss: torch.Tensor) -> str | None:
    if me.rank == 0:
        dist.all_reduce(loss)
        return f"mean loss {loss / me.world_size:.2f}"
    return None


def _forgets_to_divide(me: Any, loss: torch.Tensor) -> str | None:
    dist.all_reduce(loss)
    return f"mean loss {loss:.2f}" if me.rank == 0 else None


def _everybody_reports(me: Any, loss: torch.Tensor) -> str:
    dist.all_reduce(loss)
    return f"mean loss {loss / me.world_size:.2f}"


REPORT = Exercise(
    name="00.report",
    title="Mend the report",
    judge=by_ranks(
        (4,), [Case("one loss a rank", lambda rank, world_size: (_loss(rank),), _report)], changes=True
    ),
    mistakes=(
        Mistake(
            "not-everybody-calls",
            "It still hangs: some rank never calls the collective. A collective is a meeting, and no `if me.rank` may "
            "stand around it. Let every rank call it, and keep the `if` for the report.",
            _only_rank_0_calls,
            lambda evidence: evidence.error is not None and evidence.error.kind == "RankTimeout",
        ),
        Mistake(
            "forgets-to-divide",
            "Rank 0 reports the sum of the losses. An all-reduce adds; divide by `me.world_size` for the mean.",
            _forgets_to_divide,
        ),
        Mistake(
            "own-loss",
            "It no longer hangs, because nobody meets any more: rank 0 reports its own loss. Keep the all-reduce, and "
            "have every rank call it.",
            lambda me, loss: f"mean loss {loss:.2f}" if me.rank == 0 else None,
        ),
        Mistake(
            "everybody-reports",
            "The mean is right, but every rank reports it. Only rank 0 is to return the text; the others return None.",
            _everybody_reports,
        ),
    ),
    hints=(
        "Read the table of the hang again: who waits, and who never came?",
        "The `if me.rank == 0` does two jobs: it decides who computes and who reports. Only the second is right.",
        "Call `dist.all_reduce(loss)` before the `if`; inside it, only build and return the text.",
    ),
    passed="Every rank meets, one rank reports.",
)
