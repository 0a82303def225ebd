"""07.sync: wrong answers, by the name of the mistake that each makes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn


def _reduce_all(tensors: list[Tensor], group: Any, op: Any = dist.ReduceOp.AVG) -> None:
    for tensor in tensors:
        dist.all_reduce(tensor, op=op, group=group)


def _gradients(model: Any) -> list[Tensor]:
    return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]


def as_they_come(model: Any, group: Any, step: Callable[[], Any]) -> None:
    def average(parameter: nn.Parameter) -> None:
        assert parameter.grad is not None
        _reduce_all([parameter.grad], group)

    hooks = [parameter.register_post_accumulate_grad_hook(average) for parameter in model.parameters()]
    step()
    for hook in hooks:
        hook.remove()


def twice(model: Any, group: Any, step: Callable[[], Any]) -> None:
    as_they_come(model, group, step)
    _reduce_all(_gradients(model), group)


def too_early(model: Any, group: Any, step: Callable[[], Any]) -> None:
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    _reduce_all(_gradients(model), group)
    step()


def sums(model: Any, group: Any, step: Callable[[], Any]) -> None:
    step()
    _reduce_all(_gradients(model), group, dist.ReduceOp.SUM)


def by_all_ranks(model: Any, group: Any, step: Callable[[], Any]) -> None:
    sums(model, group, step)
    for gradient in _gradients(model):
        gradient /= dist.get_world_size()


def by_two(model: Any, group: Any, step: Callable[[], Any]) -> None:
    sums(model, group, step)
    for gradient in _gradients(model):
        gradient /= 2


def never_waits(model: Any, group: Any, step: Callable[[], Any]) -> None:
    step()
    for gradient in _gradients(model):
        dist.all_reduce(gradient, op=dist.ReduceOp.AVG, group=group, async_op=True)


def in_float64(model: Any, group: Any, step: Callable[[], Any]) -> None:
    """As many bytes as in float32, twice over."""
    step()
    for gradient in _gradients(model):
        wide = gradient.double()
        _reduce_all([wide], group)
        gradient.copy_(wide)


def by_the_library(model: Any, group: Any, step: Callable[[], Any]) -> None:
    from course_lib.parallel import pipeline

    step()
    pipeline.average_gradients(model, group)


def with_everybody(model: Any, group: Any, step: Callable[[], Any]) -> None:
    step()
    _reduce_all(_gradients(model), None)


def not_at_all(model: Any, group: Any, step: Callable[[], Any]) -> None:
    step()


def averages_weights(model: Any, group: Any, step: Callable[[], Any]) -> None:
    step()
    _reduce_all([parameter.data for parameter in model.parameters()], group)


def no_step(model: Any, group: Any, step: Callable[[], Any]) -> None:
    _reduce_all(_gradients(model), group)


def several_steps(model: Any, group: Any, step: Callable[[], Any]) -> None:
    for _ in range(2):
        step()
        _reduce_all(_gradients(model), group)


EXERCISE = "07.sync"
EXAMPLES: dict[str, Any] = {
    "no-step": no_step,
    "several-steps": several_steps,
    "nobody-waited": never_waits,
    "for-each-micro-batch": as_they_come,
    "both": twice,
    "in-longer-numbers": in_float64,
    "too-early": too_early,
    "sums": sums,
    "divided-by-all-ranks": by_all_ranks,
    "divided-by-a-number": by_two,
    "with-everybody": with_everybody,
    "something-else": averages_weights,
    "not-at-all": not_at_all,
}


FORBIDDEN = by_the_library
