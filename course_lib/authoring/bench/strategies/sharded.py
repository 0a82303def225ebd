"""``course bench sharded``: the course's ZeRO-3 beside PyTorch's ``fully_shard``, in turns, within one run.

First whole training steps (forward, backward, optimizer) with real arithmetic, on 2 ranks and the machine's own
links, with the same units. The promise: at most 1.00 times PyTorch's at the median. Then what prefetching hides, on a
link shaped so that all-gathers take half of a step without it. There the layers are *paced*: they wait instead of
computing, since two cores cannot compute and communicate evenly enough. Gradients travel in bfloat16, so a
reduce-scatter takes half as long as an all-gather; both share the link, and no order of messages hides more than
three quarters of the all-gathers. The promise: at least 60 % of their time is gone from the step.
"""

from __future__ import annotations

import time
from statistics import median
from typing import TYPE_CHECKING

from course_lib.authoring.bench.options import bench_parser, count, open_table
from course_lib.authoring.bench.strategies.ddp import MODELS, training
from course_lib.authoring.bench.strategies.in_turns import compare_on_ranks
from course_lib.authoring.bench.table import Table
from course_lib.cluster.api.cluster import Cluster
from course_lib.cluster.base.rank import Rank
from course_lib.cluster.links.links import Links
from course_lib.layouts.link import Link
from course_lib.meter.clocks.stopwatch import Comparison

if TYPE_CHECKING:
    from torch import nn

__all__ = ["main", "paired_steps", "prefetching"]

_PROMISED_RATIO = 1.00
_PROMISED_HIDDEN = 0.60
_STEPS = 4  # in a turn

_NUM_LAYERS = 16  # of the paced model; a unit each
_LAYER_BYTES = 64 * 2**10
_FORWARD_S, _BACKWARD_S = 0.128, 0.256  # of all layers
_CALL_S = 0.35e-3  # what a shaped link adds to a call of its own
# Of a unit, which is gathered twice in a step: without prefetching the rank waits for two all-gathers and, since the
# second one queues behind it, for a reduce-scatter: 2.5 of this, and these two are half of it all.
_GATHER_S = (_FORWARD_S + _BACKWARD_S) / _NUM_LAYERS / 1.5 - _CALL_S
_LINK = Link(0.0, _LAYER_BYTES / 2 / _GATHER_S)  # each of 2 ranks sends the half that it keeps
_PREFETCHES = (0, 1, 2)


def main(arguments: list[str]) -> int:
    parser = bench_parser("sharded", __doc__, rounds=40, of="pairs of turns for the step time")
    parser.add_argument("--overlap-rounds", type=count, default=7, help="steps for what is hidden (default 7)")
    options = parser.parse_args(arguments)
    with open_table(options) as table:
        with Cluster(2, links=Links(), timeout_s=600) as cluster:
            for name in MODELS:
                both = cluster.call(paired_steps, (name, options.rounds), show=False)[0]
                table.add_pair(f"step, {name}", both, target=_PROMISED_RATIO)
        with Cluster(2, links=Links(_LINK), timeout_s=600) as cluster:
            add_prefetching(table, list(cluster.call(prefetching, (options.overlap_rounds,), show=False)))
    return 0


def paired_steps(me: Rank, name: str, rounds: int) -> Comparison:
    """On each rank: training steps under ``fully_shard`` and under the course's, in turns; a step's time."""
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    from course_lib.parallel.sharded import FullySharded
    from course_lib.parallel.sharded.unit_partition import default_units

    # Without a mesh, the machine's GPUs would be taken.
    mesh = init_device_mesh(me.device.type, (me.world_size,))

    def theirs(model: nn.Module) -> nn.Module:
        for unit in default_units(model):
            if any(True for _ in unit.parameters()):
                fully_shard(unit, mesh=mesh)
        fully_shard(model, mesh=mesh)
        return model

    turns = []
    for wrap in (theirs, lambda model: FullySharded(me, model)):
        torch.manual_seed(0)
        step = training(me, name, wrap)
        turns.append(lambda step=step: [step() for _ in range(_STEPS)])
    return compare_on_ranks(*turns, names=("fully_shard", "the course"), rounds=rounds, steps=_STEPS, device=me.device)


# -- what prefetching hides, paced layers and a shaped link ---------------------------------------------------


def add_prefetching(table: Table, by_rank: list[dict[int, list[float]]]) -> None:
    gathers_s = 2 * _NUM_LAYERS * (_GATHER_S + _CALL_S)
    steps_s = {
        prefetch: [max(ranks) for ranks in zip(*(steps[prefetch] for steps in by_rank), strict=True)]
        for prefetch in _PREFETCHES
    }
    for prefetch, times_s in steps_s.items():
        table.add(f"paced step: prefetch {prefetch}", [1e3 * time_s for time_s in times_s], "ms")
        if prefetch:
            pairs = zip(steps_s[0], times_s, strict=True)
            hidden = [100 * (without_s - with_s) / gathers_s for without_s, with_s in pairs]
            target = 100 * _PROMISED_HIDDEN if prefetch == 1 else None
            table.add(f"all-gather time gone: prefetch {prefetch}", hidden, "%", target=target, at_least=True)
    table.add("all-gathers, of a step without prefetching", [100 * gathers_s / median(steps_s[0])], "%")


def prefetching(me: Rank, rounds: int) -> dict[int, list[float]]:
    """On each rank: seconds of a step's forward and backward for each number of units ahead, in turns."""
    import torch
    import torch.distributed as dist
    from torch import nn

    from course_lib.parallel.data import PacedLayers
    from course_lib.parallel.sharded import FullySharded

    def paced(prefetch: int) -> FullySharded:
        layers = [
            PacedLayers(
                me,
                num_layers=1,
                layer_bytes=_LAYER_BYTES,
                forward_s=_FORWARD_S / _NUM_LAYERS,
                backward_s=_BACKWARD_S / _NUM_LAYERS,
            )
            for _ in range(_NUM_LAYERS)
        ]
        return FullySharded(me, nn.Sequential(*layers), reduce_dtype=torch.bfloat16, prefetch=prefetch)

    models = {prefetch: paced(prefetch) for prefetch in _PREFETCHES}
    x = torch.zeros(1, requires_grad=True)
    found: dict[int, list[float]] = {prefetch: [] for prefetch in _PREFETCHES}
    for number in range(-2, rounds):  # the first two are not counted: there the order of units is found
        for prefetch, model in list(models.items())[:: 1 if number % 2 else -1]:
            dist.barrier()
            began_s = time.perf_counter()
            model(x).sum().backward()
            if number >= 0:
                found[prefetch].append(time.perf_counter() - began_s)
    return found
