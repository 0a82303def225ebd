"""Trials of how ways to train on several devices are sorted: by what each rank keeps, sees and computes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.flop_counter import FlopCounterMode

from course_lib.claims.court.evidence import Evidence, Ranks, tries
from course_lib.claims.court.workloads import batch, mlp
from course_lib.cluster.base.rank import Rank
from course_lib.parallel.sharded import FullySharded
from course_lib.parallel.tensor import ColumnParallelLinear, RowParallelLinear

__all__: list[str] = []

_NUM_SAMPLES, _WIDTH = 64, 64
_WAYS = ("data parallelism", "model parallelism", "tensor parallelism", "sharded data parallelism")


@dataclass(frozen=True)
class _Signature:
    """Of a rank, between and in steps: has it all, or a part?"""

    all_weights: bool  # kept between steps
    all_samples: bool  # of the batch
    all_arithmetic: bool  # of a sample that it sees
    all_layers: bool  # keeps something of each

    def __str__(self) -> str:
        names = ("weights", "samples", "arithmetic of a sample", "layers")
        values = (self.all_weights, self.all_samples, self.all_arithmetic, self.all_layers)
        return ", ".join(f"{'all' if value else 'part of'} {name}" for name, value in zip(names, values, strict=True))


def _layers_cut(me: Rank, whole: nn.Sequential, inputs: Tensor) -> tuple[nn.Module, Tensor]:
    """This rank's layers, and what goes into them: the samples, or what the rank before has made of them."""
    if me.rank == 0:
        dist.send(whole[:2](inputs).detach(), 1)
        return whole[:2], inputs
    received = torch.empty(len(inputs), _WIDTH, dtype=inputs.dtype)
    dist.recv(received, 0)
    return whole[2:], received


def _signature(me: Rank, way: str) -> _Signature:
    """One forward pass on two ranks, and what this rank had of everything."""
    whole, (inputs, _) = mlp(width=_WIDTH), batch(_NUM_SAMPLES)
    num_weights, num_layers = sum(p.numel() for p in whole.parameters()), len(_with_weights(whole))
    whole_flops = _flops(whole, inputs) / len(inputs)
    model: nn.Module
    if way == "model parallelism":
        model, inputs = _layers_cut(me, whole, inputs)
    elif way == "tensor parallelism":
        model = nn.Sequential(ColumnParallelLinear(me, whole[0]), nn.ReLU(), RowParallelLinear(me, whole[2]))
    else:
        inputs = inputs.tensor_split(me.world_size)[me.rank]
        model = FullySharded(me, whole) if way == "sharded data parallelism" else DistributedDataParallel(whole)
    return _Signature(
        all_weights=sum(p.numel() for p in model.parameters()) == num_weights,
        all_samples=len(inputs) == _NUM_SAMPLES,
        all_arithmetic=_flops(model, inputs) / len(inputs) >= whole_flops,
        all_layers=len(_with_weights(model)) == num_layers,
    )


def _with_weights(model: nn.Module) -> list[nn.Module]:
    return [module for module in model.modules() if any(True for _ in module.parameters(recurse=False))]


def _flops(model: nn.Module, inputs: Tensor) -> float:
    with FlopCounterMode(display=False) as counter:
        model(inputs)
    return float(counter.get_total_flops())


@tries("E1")
def data_model_and_tensor_parallelism_are_the_three_main_strategies(ranks: Ranks) -> Evidence:
    """Four ways on two ranks: is each one of the three, by what a rank keeps, sees and computes?"""
    found = {way: set(ranks(2).run(_signature, way)) for way in _WAYS}
    sharded = found["sharded data parallelism"]
    is_a_fourth = all(sharded.isdisjoint(found[way]) for way in _WAYS[:3])
    return Evidence(
        "misleading" if is_a_fourth else "holds",
        {way: " | ".join(sorted(map(str, signatures))) for way, signatures in found.items()},
        because="sharded data parallelism (ZeRO, FSDP) is none of the three. It shares out samples, as data "
        "parallelism does, and weights too, and every sample passes whole layers. Sequences and experts can be shared "
        "out as well"
        if is_a_fourth
        else "each way shares out what one of the three shares out",
        turns_if="sharded data parallelism counted as data parallelism, as some authors count it",
    )
