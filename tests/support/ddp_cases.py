"""What the tests of DDP in hard places share: a model whose forward uses what it is told to, ours beside torch's."""

from __future__ import annotations

import copy

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel as TorchDDP

from course_lib.parallel.data import DistributedDataParallel

TINY = {"bucket_size_bytes": 1, "first_bucket_size_bytes": 1}  # a bucket for each parameter


class Branches(nn.Module):
    """Layers by name, of which a forward uses those that it is told to."""

    def __init__(self, **dtypes: torch.dtype) -> None:
        super().__init__()
        for name in ("a", "b", "c"):
            self.add_module(name, nn.Linear(3, 3, bias=False, dtype=dtypes.get(name, torch.float64)))

    def forward(self, x, names):
        for name in names:
            layer = getattr(self, name)
            x = layer(x.to(layer.weight.dtype))
        return x


def wrapped_twice(me, model, **options):
    """The same model under ours and under torch's."""
    ours = DistributedDataParallel(me, model, **TINY, **options)
    unused = {"find_unused_parameters": options.get("find_unused_parameters", False)}
    return ours, TorchDDP(copy.deepcopy(model), **unused)


def gradients(module) -> list:
    return [None if p.grad is None else p.grad.tolist() for p in module.parameters()]


def x_of(me, seed: int = 0, rows: int = 2) -> torch.Tensor:
    draw = torch.Generator().manual_seed(10 * seed + me.rank)
    return torch.randn(rows, 3, dtype=torch.float64, generator=draw)


def message_of(do) -> str:
    try:
        do()
    except (ArithmeticError, RuntimeError, ValueError) as error:
        return str(error)
    return "nothing was raised"
