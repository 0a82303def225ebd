"""Trials of what is said about memory: what each rank keeps, and what makes it less."""

from __future__ import annotations

import time
from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from course_lib.claims.court.evidence import Evidence, Ranks, tries
from course_lib.claims.court.workloads import ROUNDING, batch, distance, distance_text, mlp, weights
from course_lib.cluster.base.rank import Rank
from course_lib.meter import MemoryLedger, bytes_text, metered
from course_lib.parallel.sharded import FullySharded

__all__: list[str] = []

_NUM_SAMPLES = 64
_STATES = ("parameter", "gradient", "optimizer state")


def _kept(me: Rank, sharded: bool) -> tuple[int, int]:
    """Bytes of the model's states between steps, and of activations after the forward pass, on this rank."""
    plain = mlp(width=64)
    model = FullySharded(me, plain) if sharded else DistributedDataParallel(plain)
    optimizer = torch.optim.AdamW(model.parameters())
    inputs, classes = (part.tensor_split(me.world_size)[me.rank] for part in batch(_NUM_SAMPLES))
    nn.functional.cross_entropy(model(inputs), classes).backward()
    optimizer.step()  # from here on there are gradients and optimizer state
    with MemoryLedger(model, optimizer, inputs=(inputs, classes), rank=me.rank) as ledger:
        before = ledger.mark("before the step")
        loss = nn.functional.cross_entropy(model(inputs), classes)
        after = ledger.mark("after forward")
        loss.backward()
    return sum(before[label] for label in _STATES), after["activation"]


@tries("D2")
def data_parallelism_pools_memory(ranks: Ranks) -> Evidence:
    """The same batch on 1, 2 and 4 ranks: what does one rank keep? And what, where states are sharded?"""
    found = {n: ranks(n).run(_kept, sharded=False)[0] for n in (1, 2, 4)}
    states = {states for states, _ in found.values()}
    facts = {
        f"{n} rank{'s' * (n > 1)}: states, activations": " ".join(map(bytes_text, kept)) for n, kept in found.items()
    }
    sharded = max(kept for kept, _ in ranks(4).run(_kept, sharded=True)) / found[1][0]
    pools = ". Sharding pools memory: there each rank keeps its part" if sharded < 0.5 else ""
    shrinks = found[4][1] < 0.5 * found[1][1]
    return Evidence(
        ("misleading" if shrinks else "false") if len(states) == 1 else "holds",
        facts
        | {
            "activations on 4 ranks, share of one's": f"{found[4][1] / found[1][1]:.2f}",
            "states on 4 ranks that shard (ZeRO-3), share": f"{sharded:.2f}",
        },
        because="every rank keeps all weights, gradients and optimizer state. Only the activations shrink, because "
        f"each rank has fewer samples{pools}",
        turns_if="states were sharded over the ranks (ZeRO-3, FSDP), as in the last row: then memory is pooled",
    )


def _train(me: Rank, sharded: bool) -> tuple[int, torch.Tensor]:
    """Bytes of parameters that stay on this rank, and all weights after three steps."""
    model = mlp(width=64)
    whole_bytes = sum(p.nbytes for p in model.parameters())
    if sharded:
        # Without a mesh, the machine's GPUs would be taken.
        mesh = init_device_mesh(me.device.type, (me.world_size,))
        for module in [layer for layer in model if any(True for _ in layer.parameters())] + [model]:
            fully_shard(module, mesh=mesh)  # one layer at a time is put together, used, and dropped
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inputs, classes = batch(_NUM_SAMPLES)
    if sharded:
        inputs, classes = (part.tensor_split(me.world_size)[me.rank] for part in (inputs, classes))
    for _ in range(3):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), classes).backward()
        optimizer.step()
    if not sharded:
        return whole_bytes, weights(model)
    shards: list[Any] = list(model.parameters())
    kept_bytes = sum(shard.to_local().nbytes for shard in shards)
    full = torch.cat([shard.full_tensor().detach().flatten() for shard in shards])
    return kept_bytes, full


@tries("A3")
def model_parallelism_is_necessary_when_the_model_does_not_fit(ranks: Ranks) -> Evidence:
    """Is there another way? Sharded data parallelism on four ranks, and the whole model on one."""
    sharded = list(ranks(4).run(_train, sharded=True))
    whole_bytes, whole = ranks(1).run(_train, sharded=False)[0]
    share = max(kept for kept, _ in sharded) / whole_bytes
    apart = distance(sharded[0][1], whole)
    return Evidence(
        "misleading" if share < 0.5 and apart < ROUNDING else "holds",
        {
            "share of the parameters that a rank keeps between layers": f"{share:.2f}",
            "weights after 3 steps, away from one device's": distance_text(apart),
        },
        because="sharded data parallelism (ZeRO) keeps a part of each layer on every rank, and gathers one layer at a "
        "time. Recomputation (activation checkpointing) and offload save memory too",
        turns_if="one layer, with its activations, did not fit on one device: sharding gathers whole layers",
    )


class _Tower(nn.Module):
    """A few float32 layers, so that autocast has something to lower."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(*[nn.Sequential(nn.Linear(256, 256), nn.Tanh()) for _ in range(4)])

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.layers(inputs)


def _with_precision(me: Rank, mixed: bool) -> tuple[int, int, str]:
    """Activation bytes, bytes of the weights, and the type of the weights, with autocast or without."""
    model = DistributedDataParallel(_Tower())
    inputs = torch.ones(1024, 256)
    with MemoryLedger(model, inputs=inputs) as ledger:
        with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
            loss = model(inputs).float().sum()
        after = ledger.mark("after forward")
        loss.backward()
    return after["activation"], after["parameter"], str(next(model.parameters()).dtype).removeprefix("torch.")


def _step_times_s(me: Rank, mixed: bool) -> list[float]:
    """Seconds of some steps on this rank's device, which is a GPU where there is one."""
    model, inputs, times_s = _Tower().to(me.device), torch.ones(1024, 256, device=me.device), []
    for _ in range(5):
        model.zero_grad()
        began_s = time.perf_counter()
        with torch.autocast(me.device.type, torch.bfloat16, enabled=mixed):
            loss = model(inputs).float().sum()
        loss.backward()
        loss.item()  # a GPU's work is done when its number is there
        times_s.append(time.perf_counter() - began_s)
    return times_s


@tries("C13")
def mixed_precision_saves_memory_and_time(ranks: Ranks) -> Evidence:
    """A step in float32 and with bfloat16 autocast: activations, weights, and what goes over the wire."""
    runs = {mixed: metered(ranks(2), _with_precision, mixed) for mixed in (False, True)}
    (plain, weight_bytes, _), (mixed, mixed_weight_bytes, kind) = runs[False][0], runs[True][0]
    sent = {key: run.communication.of(operation="all_reduce").sent_bytes(0) for key, run in runs.items()}
    step_s = {key: min(ranks(1).run(_step_times_s, key)[0]) for key in (False, True)}
    saves = mixed < 0.9 * plain
    keeps = mixed_weight_bytes >= weight_bytes and sent[True] == sent[False]
    return Evidence(
        ("holds with conditions" if keeps else "holds") if saves else "false",
        {
            "activations, share of float32's": f"{mixed / plain:.2f}",
            "weights are kept in": kind,
            "bytes of gradients sent, share of float32's": f"{sent[True] / sent[False]:.2f}",
        },
        timings={"a step on this machine, times float32's": f"{step_s[True] / step_s[False]:.2f}"},
        because="activations shrink. The trained weights stay in float32, and under autocast their gradients are sent "
        "in float32 too. A gain in speed needs hardware with units for the narrow type",
        turns_if="weights and gradients were kept and sent in bfloat16 too (then it holds), or activations did "
        "not shrink (then it is false)",
    )
