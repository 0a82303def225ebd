"""05.zero: the parameters on which a sharded optimizer is tried, their gradients, and what one process makes of them.

AdamW divides by the size of its gradients, so that a factor on them hardly shows but where they are as small as its
``eps``: these gradients have sizes from 1 to 1e-9. SGD with momentum shows a factor everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.cost.data_parallel.sharded import shared_numel

__all__ = [
    "ADAMW",
    "SGD",
    "SITUATIONS",
    "SMALLER_LR",
    "STEPS",
    "Steps",
    "ZeroSituation",
    "gradients",
    "mean",
    "one_process",
]

STEPS = 4
SMALLER_LR = 0.01
ADAMW: dict[str, Any] = {"lr": 0.05, "betas": (0.8, 0.95), "weight_decay": 0.1}
SGD: dict[str, Any] = {"lr": 0.05, "momentum": 0.9}
_DIVIDES = ((120, 20), (60,), (60, 3))  # 2640 numbers
_UNEVEN = ((101, 21), (101,), (9,), (3, 5, 2), (1,), (1,))  # 2263 numbers
Steps = list[list[Tensor]]  # by step, the tensors of all parameters


@dataclass(frozen=True)
class ZeroSituation:
    """Parameters of these shapes, and what is done with them."""

    shapes: tuple[tuple[int, ...], ...] = _UNEVEN
    optimizer_class: type[torch.optim.Optimizer] = torch.optim.AdamW
    defaults: Mapping[str, Any] = field(default_factory=lambda: ADAMW)
    dtypes: tuple[torch.dtype, ...] = (torch.float64,)  # of the parameters in turn
    frozen: tuple[int, ...] = ()
    transposed: bool = False  # matrices are views that are not contiguous
    unused_on_odd_ranks: tuple[int, ...] = ()
    rates: tuple[float, ...] = ()  # set before each step by ``param_groups``
    is_weighed: bool = False  # memory and bytes are looked at
    is_counted: bool = False  # bytes and calls alone
    num_models: int = 1

    @property
    def num_all(self) -> int:
        """P: how many numbers learn."""
        return sum(torch.Size(shape).numel() for at, shape in enumerate(self.shapes) if at not in self.frozen)

    def num_own(self, world_size: int) -> int:
        """K: how many a rank may keep as its part; whoever cuts each tensor by rows pads more than all at once."""
        return shared_numel(self.shapes, world_size)

    def sent_bytes(self, world_size: int) -> int:
        """What a rank sends in a step at most, each dtype's part padded."""
        return sum(
            2 * (world_size - 1) * dtype.itemsize * shared_numel(self.shapes[at :: len(self.dtypes)], world_size)
            for at, dtype in enumerate(self.dtypes)
        )

    def parameters(self, device: Any = "cpu", model: int = 0) -> list[nn.Parameter]:
        """Of all ranks alike, before the first step."""
        draw = torch.Generator().manual_seed(5 + model)
        return [self._parameter(at, draw, device) for at in range(len(self.shapes))]

    def _parameter(self, at: int, draw: torch.Generator, device: Any) -> nn.Parameter:
        numbers = torch.randn(self.shapes[at], generator=draw, dtype=torch.float64).to(device, self.dtype(at))
        if self.transposed and numbers.dim() == 2:
            numbers = numbers.t().contiguous().t()
        return nn.Parameter(numbers, requires_grad=at not in self.frozen)

    def dtype(self, at: int) -> torch.dtype:
        return self.dtypes[at % len(self.dtypes)]


SITUATIONS = {
    "AdamW": ZeroSituation(_DIVIDES, is_weighed=True),
    "AdamW, sizes that do not divide": ZeroSituation(is_weighed=True),
    "SGD with momentum": ZeroSituation(optimizer_class=torch.optim.SGD, defaults=SGD),
    "a model of one number": ZeroSituation(((1,),)),
    "frozen parameters": ZeroSituation(frozen=(0, 3)),
    "a parameter that odd ranks do not use": ZeroSituation(unused_on_odd_ranks=(1, 3)),
    "two dtypes": ZeroSituation(dtypes=(torch.float32, torch.float64), is_counted=True),
    "weights that are not contiguous": ZeroSituation(transposed=True),
    "a learning rate that changes": ZeroSituation(rates=(0.05, 0.05, SMALLER_LR, SMALLER_LR)),
    "two dtypes, and a learning rate that changes": ZeroSituation(
        dtypes=(torch.float32, torch.float64), rates=(0.05, 0.05, SMALLER_LR, SMALLER_LR)
    ),
    "two models at the same time": ZeroSituation(num_models=2),
}


@lru_cache(maxsize=512)
def _gradient(label: str, rank: int, step: int, at: int, model: int) -> Tensor:
    situation = SITUATIONS[label]
    shape = torch.Size(situation.shapes[at])
    if rank % 2 and at in situation.unused_on_odd_ranks:
        return torch.zeros(shape, dtype=torch.float64)
    draw = torch.Generator().manual_seed(10_000 + 1000 * model + 100 * rank + 10 * step + at)
    size = 10.0 ** -(torch.arange(shape.numel(), dtype=torch.float64) % 10)
    return (size * torch.randn(shape.numel(), generator=draw, dtype=torch.float64)).view(shape)


def gradients(label: str, rank: int, step: int, model: int = 0) -> list[Tensor]:
    """What this rank's backward gives; another on each rank and in each step. Float64."""
    return [_gradient(label, rank, step, at, model) for at in range(len(SITUATIONS[label].shapes))]


def mean(label: str, world_size: int, step: int, model: int = 0) -> list[Tensor]:
    """The gradients of the whole batch."""
    each = [gradients(label, rank, step, model) for rank in range(world_size)]
    return [torch.stack(of_ranks).mean(dim=0) for of_ranks in zip(*each, strict=True)]


def one_process(
    label: str,
    gradient_of: Callable[[int, int], list[Tensor]],
    *,
    make: Callable[[list[nn.Parameter]], torch.optim.Optimizer] | None = None,
    afresh: bool = False,
    piles_up: bool = False,
) -> Steps:
    """The weights after each step of one process, all models in a row; ``gradient_of(step, model)``.

    ``make``: another optimizer; ``afresh``: a new one for each step; ``piles_up``: gradients are never set back.
    """
    situation, seen = SITUATIONS[label], [[] for _ in range(STEPS)]
    make = make or (lambda learning: situation.optimizer_class(learning, **situation.defaults))  # type: ignore[call-arg]
    for model in range(situation.num_models):
        parameters = situation.parameters(model=model)
        learning = [parameter for parameter in parameters if parameter.requires_grad]
        optimizer = make(learning)
        for step in range(STEPS):
            optimizer = make(learning) if afresh else optimizer
            for group in optimizer.param_groups:
                group["lr"] = situation.rates[step] if situation.rates else group["lr"]
            for parameter, gradient in zip(parameters, gradient_of(step, model), strict=True):
                if parameter.requires_grad:
                    old = parameter.grad if piles_up and parameter.grad is not None else 0
                    parameter.grad = gradient.to(parameter.dtype) + old
            optimizer.step()
            seen[step] += [parameter.detach().clone() for parameter in parameters]
    return seen
