"""Trials of what data parallelism replicates, splits, sends and keeps alike."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from course_lib.claims.court.evidence import Evidence, Ranks, tries
from course_lib.claims.court.workloads import (
    ROUNDING,
    batch,
    distance,
    distance_text,
    gradients,
    mlp,
    share_of,
    weights,
)
from course_lib.cluster.base.rank import Rank
from course_lib.meter import metered
from course_lib.meter.communication.recorder import Recorder
from course_lib.parallel.data import DataParallel
from course_lib.parallel.sharded import FullySharded, ShardedOptimizer
from course_lib.rounding import rounded

__all__: list[str] = []

_NUM_SAMPLES, _NUM_STEPS = 64, 10


def _train(me: Rank, *, with_ddp: bool, num_steps: int = _NUM_STEPS, model: nn.Module | None = None) -> torch.Tensor:
    """Train on this rank's share by DistributedSampler; returns the weights afterwards."""
    model = model or (DistributedDataParallel(mlp()) if with_ddp else mlp())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inputs, classes = batch(_NUM_SAMPLES)
    for epoch in range(num_steps):
        share = share_of(me, _NUM_SAMPLES, seed=epoch)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs[share]), classes[share]).backward()
        optimizer.step()
    return weights(model)


def _holdings(me: Rank) -> tuple[int, int, list[int]]:
    """Parameters that this rank holds under DDP, and between two steps of ZeRO-3; and the samples that it takes."""
    whole, shards = DistributedDataParallel(mlp()), FullySharded(me, mlp())
    held, kept = (sum(p.numel() for p in model.parameters()) for model in (whole, shards))
    return held, kept, share_of(me, _NUM_SAMPLES)


@tries("A1")
def data_parallelism_replicates_the_model_and_splits_the_data(ranks: Ranks) -> Evidence:
    """Four ranks of DDP and of ZeRO-3: what share of the model does each hold, and what share of the samples?"""
    whole = sum(p.numel() for p in mlp().parameters())
    held, kept, shares = zip(*ranks(4).run(_holdings), strict=True)
    samples = [sample for share in shares for sample in share]
    is_replica, is_split = set(held) == {whole}, sorted(samples) == list(range(_NUM_SAMPLES))
    always = "holds with conditions" if max(kept) < whole else "holds"
    return Evidence(
        always if is_replica and is_split else "false",
        {
            "parameters of the model": whole,
            "held by each of 4 ranks, DDP": ", ".join(map(str, held)),
            "kept by each of 4 ranks, ZeRO-3": ", ".join(map(str, kept)),
            f"samples by rank, of {_NUM_SAMPLES}": ", ".join(str(len(share)) for share in shares),
            "samples that two ranks share": len(samples) - len(set(samples)),
        },
        because="in DDP every rank has the whole model, and every sample goes to one rank. ZeRO-3 is data parallelism "
        "too, and no rank of ZeRO-3 keeps the whole model",
        turns_if="it spoke of DDP alone (then it holds), or of ZeRO-3 alone (then it is false)",
    )


def _steps_only(me: Rank, num_steps: int) -> tuple[dict[str, int], torch.Tensor]:
    """Bytes that this rank hands to each collective in steps of DDP, the wrapping left out; and its weights then."""
    model = DistributedDataParallel(mlp())
    with Recorder(me.rank) as recorder:
        after = _train(me, with_ddp=True, num_steps=num_steps, model=model)
    handed: dict[str, int] = {}
    for call in recorder.calls:
        handed[call.operation] = handed.get(call.operation, 0) + call.size_bytes
    return handed, after


def _zero_steps(me: Rank, num_steps: int) -> int:
    """Bytes of weights, of all ranks, that this rank sees gathered in steps of ZeRO-1."""
    model = mlp()
    optimizer = ShardedOptimizer(me, model.parameters(), torch.optim.SGD, lr=0.1)
    inputs, classes = (part.tensor_split(me.world_size)[me.rank] for part in batch(_NUM_SAMPLES))
    with Recorder(me.rank) as recorder:
        for _ in range(num_steps):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs), classes).backward()
            optimizer.step()
    return me.world_size * sum(call.size_bytes for call in recorder.calls if "gather" in call.operation)


@tries("A2")
def updated_weights_are_broadcast_in_each_iteration(ranks: Ranks) -> Evidence:
    """Ten steps of DDP, and ten of ZeRO-1: are updated weights sent, and are they alike?"""
    (handed, mine), (_, theirs) = ranks(2).run(_steps_only, _NUM_STEPS)
    gathered_bytes = ranks(2).run(_zero_steps, _NUM_STEPS)[0]
    apart, broadcast_bytes = distance(mine, theirs), handed.get("broadcast", 0)
    weight_bytes = _NUM_STEPS * mine.nbytes
    nothing_sent = broadcast_bytes < weight_bytes / _NUM_STEPS and apart == 0
    sharing_sends = gathered_bytes >= weight_bytes
    return Evidence(
        ("holds with conditions" if sharing_sends else "false") if nothing_sent else "holds",
        {
            f"bytes of the weights, {_NUM_STEPS} times": weight_bytes,
            f"bytes all-reduced in {_NUM_STEPS} steps": handed.get("all_reduce", 0),
            "bytes broadcast": f"{broadcast_bytes} (DDP's table of buckets, once)" if broadcast_bytes else 0,
            f"bytes of weights all-gathered in {_NUM_STEPS} steps of ZeRO-1": gathered_bytes,
            "largest difference of the weights": f"{apart:.0e}",
        },
        because="in DDP every replica applies the same update to the same weights, so DDP sends no weights after it. "
        "In ZeRO each rank updates a share, and updated weights are sent. nn.DataParallel copies the weights to its "
        "replicas at every forward pass",
        turns_if="it spoke of DDP alone (then it is false), or of nn.DataParallel or ZeRO-1 alone (then it holds)",
    )


def _who(me: Rank) -> tuple[int, bool]:
    return os.getpid(), isinstance(DistributedDataParallel(mlp()), nn.DataParallel)


@tries("A4")
def one_process_a_device_with_ddp_is_nn_dataparallel(ranks: Ranks) -> Evidence:
    """Is a DDP model an nn.DataParallel, and in how many processes do the two run?"""
    found = ranks(2).run(_who)
    processes, is_one = len({pid for pid, _ in found}), any(same for _, same in found)
    seen: set[int] = set()
    probe = mlp()
    probe.register_forward_hook(lambda *_: seen.add(os.getpid()))
    DataParallel(probe, ["cpu"] * 2)(batch(8)[0])  # the course's: PyTorch's takes the GPUs that are there
    return Evidence(
        "holds" if is_one or processes == len(seen) else "false",
        {
            "processes, DDP on 2 devices": processes,
            "processes, nn.DataParallel": len(seen),
            "a DDP model is an nn.DataParallel": is_one,
        },
        because="they are two classes. DistributedDataParallel trains with one process for each device, "
        "nn.DataParallel with threads of one process",
        turns_if="DistributedDataParallel was derived from nn.DataParallel, or drove several devices from one process",
    )


@tries("A7")
def a_process_group_and_a_sampler_make_a_loop_data_parallel(ranks: Ranks) -> Evidence:
    """The same loop with and without DDP: how far apart are two replicas after ten steps?"""
    apart = {}
    for with_ddp in (False, True):
        mine, theirs = ranks(2).run(_train, with_ddp=with_ddp)
        apart[with_ddp] = distance(mine, theirs)
    calls = metered(ranks(2), _train, with_ddp=False).communication.calls
    return Evidence(
        "false" if apart[False] > 1e-3 and apart[True] == 0 else "holds",
        {
            "calls in ten steps, process group and sampler only": len(calls),
            "weights apart, process group and sampler only": rounded(apart[False], 2),
            "weights apart, with DDP": f"{apart[True]:.0e}",
        },
        because="nothing sends the gradients, and no error says so: the ranks train two different models",
        turns_if="the loop averaged the gradients itself, or wrapped the model in DDP, as in the last row",
    )


def _gradient(me: Rank, batch_norm: bool) -> torch.Tensor:
    """The gradient that DDP leaves on this rank for its contiguous share of the batch."""
    model = DistributedDataParallel(mlp(batch_norm=batch_norm))
    inputs, classes = (part.tensor_split(me.world_size)[me.rank] for part in batch(_NUM_SAMPLES))
    nn.functional.cross_entropy(model(inputs), classes).backward()
    return gradients(model)


def _accumulated(batch_norm: bool, num_parts: int) -> torch.Tensor:
    model = mlp(batch_norm=batch_norm)
    inputs, classes = batch(_NUM_SAMPLES)
    parts = zip(inputs.tensor_split(num_parts), classes.tensor_split(num_parts), strict=True)
    for some, their_classes in parts:
        (nn.functional.cross_entropy(model(some), their_classes) / num_parts).backward()
    return gradients(model)


def _in_one_go(batch_norm: bool) -> torch.Tensor:
    return _accumulated(batch_norm, num_parts=1)


@tries("D3")
def data_parallelism_gives_the_gradients_of_accumulation(ranks: Ranks) -> Evidence:
    """Four shares by four ranks, by one after the other, and the whole batch at once; with and without BatchNorm."""
    facts, from_accumulation, from_whole = {}, {}, {}
    for batch_norm, name in ((False, "plain"), (True, "with BatchNorm")):
        by_ranks = ranks(4).run(_gradient, batch_norm)[0]
        from_accumulation[name] = distance(by_ranks, _accumulated(batch_norm, 4))
        from_whole[name] = distance(by_ranks, _in_one_go(batch_norm))
        facts[f"{name}: from accumulation"] = distance_text(from_accumulation[name])
        facts[f"{name}: from the whole batch"] = distance_text(from_whole[name])
    same = max(from_accumulation.values()) < ROUNDING
    return Evidence(
        "holds" if same else "false",
        facts,
        because="both add the gradients of the same parts. With a layer such as BatchNorm, the sum is not the gradient "
        "of the whole batch: in both, the layer sees each part alone",
        turns_if="the model drew random numbers, as dropout does: ranks would draw other numbers than one process "
        "draws for its parts",
    )


def _local_steps(me: Rank, sync_every: int) -> torch.Tensor:
    """SGD on this rank's share; weights are averaged every so many steps, gradients never."""
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    inputs, classes = (part.tensor_split(me.world_size)[me.rank] for part in batch(_NUM_SAMPLES))
    for step in range(1, 9):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), classes).backward()
        optimizer.step()
        if step % sync_every == 0:
            for parameter in model.parameters():
                dist.all_reduce(parameter.data, op=dist.ReduceOp.SUM)
                parameter.data /= me.world_size
    return weights(model)


def _accumulate_by_ddp(me: Rank) -> torch.Tensor:
    """Two micro-batches a step, of which the first sends nothing."""
    model = DistributedDataParallel(mlp())
    inputs, classes = (part.tensor_split(me.world_size)[me.rank] for part in batch(_NUM_SAMPLES))
    halves = list(zip(inputs.chunk(2), classes.chunk(2), strict=True))
    with model.no_sync():
        (nn.functional.cross_entropy(model(halves[0][0]), halves[0][1]) / 2).backward()
    (nn.functional.cross_entropy(model(halves[1][0]), halves[1][1]) / 2).backward()
    return gradients(model)


@tries("C9")
def rare_synchronisation_trades_speed_for_accuracy(ranks: Ranks) -> Evidence:
    """Sending less often in two ways: gradients added up first (no_sync), and weights averaged now and then."""
    cluster = ranks(2)
    accumulated = distance(cluster.run(_accumulate_by_ddp)[0], _in_one_go(batch_norm=False))
    every_step, rarely = (cluster.run(_local_steps, sync_every)[0] for sync_every in (1, 4))
    drifted = distance(every_step, rarely)
    exact = accumulated < ROUNDING
    return Evidence(
        "holds with conditions" if exact and drifted > 1e-6 else "false" if exact else "holds",
        {
            "gradient with no_sync, from the whole batch": distance_text(accumulated),
            "weights averaged every 4 steps, from every step": distance_text(drifted),
        },
        because="adding up gradients before sending them changes only the messages. Local SGD takes other steps, on "
        "weights that have drifted apart, and may end at another accuracy",
        turns_if="it spoke of local SGD alone (then it holds), or of adding gradients up alone (then it is false)",
    )
