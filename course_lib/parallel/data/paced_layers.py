"""A model whose arithmetic is a wait (emulated compute): real parameters, gradients and messages, layers of any length.

Two cores cannot show how four devices overlap computing and communicating. Here a layer *waits* for as long as its
computing would take (``pace``), forward and backward, so several ranks "compute" at once on any machine, while their
gradients are made by autograd and travel for real.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from course_lib.base.checks import at_least
from course_lib.cluster.base.rank import Rank
from course_lib.cluster.links.emulated_compute import pace
from course_lib.cluster.links.links import Links
from course_lib.layouts.link import Link
from course_lib.parallel.data.distributed_data_parallel import DistributedDataParallel

if TYPE_CHECKING:
    from course_lib.cluster.api.cluster import Cluster

__all__ = ["PacedLayers", "paced_step_s"]


class PacedLayers(nn.Module):
    """``num_layers`` layers of ``layer_bytes`` of float32 weights; forward and backward take the times given, in all.

    x: (any shape) -> the same shape. Each layer adds the mean of its weights, so every weight has a gradient.
    """

    def __init__(self, me: Rank, *, num_layers: int, layer_bytes: int, forward_s: float, backward_s: float) -> None:
        super().__init__()
        at_least(1, num_layers=num_layers, numbers_in_a_layer=layer_bytes // 4)
        self.me, self.forward_s, self.backward_s = me, forward_s / num_layers, backward_s / num_layers
        weights = [torch.zeros(layer_bytes // 4, device=me.device) for _ in range(num_layers)]
        self.layers = nn.ParameterList(weights)

    def forward(self, x: Tensor) -> Tensor:
        for weight in self.layers:
            pace(self.me, self.forward_s)
            x = _AddMean.apply(x, weight, self.me, self.backward_s)
        return x


class _AddMean(torch.autograd.Function):
    """x + mean(weight), with a backward pass that takes its time before the gradients are there."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, me: Rank, backward_s: float) -> Tensor:
        ctx.me, ctx.backward_s, ctx.num_weights = me, backward_s, weight.numel()
        return x + weight.mean()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None]:
        (gradient,) = gradients
        pace(ctx.me, ctx.backward_s)
        return gradient, (gradient.sum() / ctx.num_weights).expand(ctx.num_weights), None, None


def paced_step_s(
    cluster: Cluster,
    *,
    bucket_size_bytes: int,
    link: Link,
    num_layers: int = 16,
    layer_bytes: int = 64 * 1024,
    forward_s: float = 0.020,
    backward_s: float = 0.040,
    overlap: bool = True,
    num_steps: int = 3,
    wrap: Callable[..., Any] | None = None,
) -> float:
    """Seconds of a step of our DistributedDataParallel on this link: the slowest rank's, the median of the steps.

    ``wrap(module, me, bucket_bytes)`` makes another one in its place, to be called as the module is; or a pair of what
    is called so, and of what is called after each backward. ``overlap`` is for ours alone.
    """
    layers = {
        "num_layers": num_layers,
        "layer_bytes": layer_bytes,
        "forward_s": forward_s,
        "backward_s": backward_s,
    }
    with cluster.shaped(links=Links(link)):
        run = cluster.call(_steps, (bucket_size_bytes, layers, overlap, num_steps, wrap), show=False)
    return median(max(times) for times in zip(*run, strict=True))


def _steps(
    me: Rank,
    bucket_size_bytes: int,
    layers: dict[str, Any],
    overlap: bool,
    num_steps: int,
    wrap: Callable[..., Any] | None,
) -> list[float]:
    sizes: dict[str, Any] = {
        "bucket_size_bytes": bucket_size_bytes,
        "first_bucket_size_bytes": bucket_size_bytes,
    }
    paced = PacedLayers(me, **layers)
    if wrap is None:
        made: Any = DistributedDataParallel(me, paced, overlap=overlap, **sizes)
    else:
        made = wrap(paced, me, bucket_size_bytes)
    model, after_backward = made if isinstance(made, tuple) else (made, None)
    times = []
    for _ in range(num_steps):
        dist.barrier()
        began_s = time.perf_counter()
        model(torch.zeros(1, device=me.device)).sum().backward()
        if after_backward is not None:
            after_backward()
        times.append(time.perf_counter() - began_s)
    return times
