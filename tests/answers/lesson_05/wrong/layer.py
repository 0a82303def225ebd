"""05.layer: wrong answers, by the name of the mistake that each makes."""

from __future__ import annotations

import os
import tempfile
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from answers.lesson_05.wrong.unit import ByTheLibrary
from torch import Tensor
from torch.autograd import Function

from course_lib.learn.exercises.lesson_05.unit.wrong_answers import gathered, mean_rows, rows_of_sum, unit


class _Gather(Function):
    """The clinic's: the whole weight, and backward the mean of this rank's rows."""

    @staticmethod
    def forward(ctx: Any, shard: Tensor) -> Tensor:
        return gathered(shard)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return mean_rows(grads[0])


def _as_it_was(x: Tensor, shard: Tensor) -> Tensor:
    return F.linear(x, _Gather.apply(shard))


def _own_rows_alone(x: Tensor, shard: Tensor) -> Tensor:
    return F.linear(x, shard)


def _own_rows_repeated(x: Tensor, shard: Tensor) -> Tensor:
    return torch.cat([F.linear(x, shard)] * dist.get_world_size(), dim=1)


def _without_a_way_back(x: Tensor, shard: Tensor) -> Tensor:
    with torch.no_grad():
        whole = gathered(shard)
    return F.linear(x, whole)


class _KeptOutOfSight(Function):
    """In a file there is no tensor, and no array. But nothing is fetched again either."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, shard: Tensor) -> Tensor:
        whole = gathered(shard)
        descriptor, ctx.path = tempfile.mkstemp(suffix=".pt")
        os.close(descriptor)
        torch.save(whole, ctx.path)
        ctx.x, ctx.device = x, x.device
        return x @ whole.T

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        whole = torch.load(ctx.path, map_location=ctx.device)
        os.unlink(ctx.path)
        return grads[0] @ whole, mean_rows(grads[0].T @ ctx.x)


EXERCISE = "05.layer"
EXAMPLES: dict[str, Any] = {
    "as-it-was": _as_it_was,
    "own-rows-alone": _own_rows_alone,
    "own-rows-repeated": _own_rows_repeated,
    "no-gradient-for-the-rows": _without_a_way_back,
    "fetched-once": _KeptOutOfSight.apply,
    "sum-not-mean": unit(reduce=rows_of_sum).apply,
}


FORBIDDEN = ByTheLibrary.apply
