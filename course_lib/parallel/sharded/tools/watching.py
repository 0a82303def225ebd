"""Steps of a stack of layers, in any stage of ZeRO, under the memory ledger: what each rank held, part by part.

The parts are those of ``course_lib.cost.step_moments``: before the step, each unit's forward and backward, and the
optimizer's step.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from course_lib.base.checks import at_least
from course_lib.cluster.base.rank import Rank
from course_lib.meter import MemoryLedger
from course_lib.parallel.data import DistributedDataParallel
from course_lib.parallel.sharded.fully_sharded import FullySharded
from course_lib.parallel.sharded.zero.sharded_optimizer import ShardedOptimizer

if TYPE_CHECKING:
    from course_lib.cluster.api.cluster import Cluster

__all__ = ["watched_step"]

_RELEASE_S = 0.005


def watched_step(
    cluster: Cluster,
    *,
    stage: int,
    num_layers: int,
    width: int,
    per_unit: int = 1,
    prefetch: int = 1,
    reshard_after_forward: bool = True,
    num_steps: int = 8,
    wrap: Callable[..., Any] | None = None,
) -> list[list[int]]:
    """For each rank the most bytes that it held in each part of a step; the least of ``num_steps`` steps.

    The least, because a back end's thread may hold a buffer for a moment longer than its message takes. The model:
    ``num_layers`` matrices of (width, width), ``per_unit`` of them in a unit (stage 3) or a bucket (0 to 2), trained by
    AdamW on one row of numbers. ``wrap(model, units, me, prefetch)`` shards it in stage 3 in the place of ours.
    ``RankError`` where a rank fails.
    """
    at_least(1, num_layers=num_layers, width=width, per_unit=per_unit, num_steps=num_steps)
    if stage not in range(4):
        raise ValueError(f"stage={stage} is not known: it is 0 (DDP), 1, 2 or 3.")
    if wrap is not None and not (stage == 3 and reshard_after_forward):
        raise ValueError(
            f"wrap={wrap!r} needs stage 3 with weights that are freed after forward; leave it out in stage {stage}."
        )
    settings = {
        "stage": stage,
        "sizes": [min(per_unit, num_layers - first) for first in range(0, num_layers, per_unit)],
        "width": width,
        "num_steps": num_steps,
        "sharding": {"prefetch": prefetch, "reshard_after_forward": reshard_after_forward},
        "wrap": wrap,
    }
    return list(cluster.call(_on_rank, kwargs=settings, show=False))


def _on_rank(
    me: Rank,
    *,
    stage: int,
    sizes: list[int],
    width: int,
    num_steps: int,
    sharding: dict[str, Any],
    wrap: Callable[..., Any] | None,
) -> list[int]:
    torch.manual_seed(0)
    units = [[nn.Linear(width, width, bias=False, device=me.device) for _ in range(size)] for size in sizes]
    model, watch = nn.Sequential(*(nn.Sequential(*unit) for unit in units)), _Watch()
    watch.register_hooks(model)  # before it is wrapped: its hooks come first
    run, optimizer, inner, owned = _wrapped(me, model, stage, sharding, wrap)
    x = torch.randn(1, width, device=me.device)

    def forward_and_backward() -> None:
        run(x).sum().backward()

    for _ in range(2):  # the second knows the order of units
        optimizer.zero_grad()
        forward_and_backward()
        optimizer.step()
    found = []
    for _ in range(num_steps):
        optimizer.zero_grad()
        with MemoryLedger(run, inner, inputs=x) as ledger:
            ledger.own("gradient", owned)
            found.append(watch.most_of(ledger, forward_and_backward, optimizer.step))
    return [min(sizes_bytes) for sizes_bytes in zip(*found, strict=True)]


def _wrapped(
    me: Rank, model: nn.Sequential, stage: int, sharding: dict[str, Any], wrap: Callable[..., Any] | None
) -> tuple[nn.Module, torch.optim.Optimizer, torch.optim.Optimizer, list[Tensor]]:
    """The model to call, the optimizer to step, the one that holds states, and buffers that are always there.

    AdamW is fused: it needs no memory of its own while it computes.
    """
    bucket_bytes = max(sum(parameter.nbytes for parameter in unit.parameters()) for unit in model)
    adamw = torch.optim.AdamW
    if stage in (1, 2):
        sharded = ShardedOptimizer(
            me, model.parameters(), adamw, stage=stage, bucket_size_bytes=bucket_bytes, fused=True
        )
        return model, sharded, sharded.inner, []
    run: nn.Module
    owned: list[Tensor] = []
    if wrap is not None:
        run = wrap(model, list(model), me, sharding["prefetch"])
    elif stage == 3:
        run = FullySharded(me, model, **sharding)
    else:
        ddp = DistributedDataParallel(me, model, bucket_size_bytes=bucket_bytes, first_bucket_size_bytes=bucket_bytes)
        run, owned = ddp, [bucket.flat for bucket in ddp.buckets]
    optimizer = adamw(run.parameters(), fused=True)
    return run, optimizer, optimizer, owned


class _Watch:
    """Marks in the ledger where each part of a step begins."""

    def __init__(self) -> None:
        self._ledger: MemoryLedger | None = None

    def register_hooks(self, units: nn.Sequential) -> None:
        """Hear of each unit when its forward begins, and when the gradient of its output is there."""
        for number, unit in enumerate(units):
            unit.register_forward_pre_hook(lambda *_, n=number: self._mark(f"forward of unit {n}"))
            unit.register_forward_hook(lambda _module, _inputs, output, n=number: self._await_gradient(n, output))

    def _await_gradient(self, number: int, output: Tensor) -> None:
        output.register_hook(lambda _gradient: self._mark(f"backward of unit {number}"))

    def _mark(self, name: str) -> None:
        if self._ledger is not None:
            self._ledger.mark(name)

    def most_of(
        self, ledger: MemoryLedger, forward_and_backward: Callable[[], None], step: Callable[[], Any]
    ) -> list[int]:
        """Run them: the most bytes before, in each unit's forward and backward, and in the optimizer's step."""
        self._ledger = ledger
        try:
            ledger.mark("before")
            forward_and_backward()
            time.sleep(_RELEASE_S)
            ledger.mark("optimizer")
            step()
        finally:
            self._ledger = None
        history = ledger.history()
        first_points = [index for _, index in history.marks] + [len(history.totals) - 1]
        return [max(history.totals[a : b + 1]) for a, b in pairwise(first_points)]
