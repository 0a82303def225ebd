"""``course bench ddp``: the course's DistributedDataParallel beside PyTorch's, in turns, within one run.

First whole training steps (forward, backward with all-reduces, optimizer) with real arithmetic, on 2 ranks and the
machine's own links. The promise: at most 1.05 times PyTorch's. Then how much of the all-reduces is hidden behind
backward, by the meter: on a link shaped so that they take as long as forward and backward together, hence half of a
step without overlap. There the layers are *paced*: they wait instead of computing, since two cores that are shared with
others cannot compute evenly enough. The promise: at least 60 % is hidden, so at most 40 % exposed; a forward pass takes
half as long as a backward pass and can hide nothing, so no implementation hides more than two thirds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from course_lib.authoring.bench.options import bench_parser, count, open_table
from course_lib.authoring.bench.strategies.in_turns import compare_on_ranks
from course_lib.authoring.bench.table import Table
from course_lib.cluster.api.cluster import Cluster
from course_lib.cluster.base.rank import Rank
from course_lib.cluster.links.links import Links
from course_lib.cost.data_parallel.step import ddp_step
from course_lib.layouts.link import Link
from course_lib.meter.clocks.stopwatch import Comparison

if TYPE_CHECKING:
    from torch import Tensor, nn

    from course_lib.meter import Call

__all__ = ["MODELS", "WIDE", "main", "overlap", "paired_steps", "training"]

_PROMISED_RATIO = 1.05
_PROMISED_EXPOSED = 0.40
MODELS = ("CNN on digits", "transformer on text")
WIDE = "wide transformer on text"  # enough work for a GPU; 25 million parameters
_STEPS = 4  # in a turn

_NUM_LAYERS = 24  # of the paced model; one bucket each
_LAYER_BYTES = 64 * 2**10
_FORWARD_S, _BACKWARD_S = 0.096, 0.192  # of all layers
_CALL_S = 0.35e-3  # what a shaped link adds to a call of its own
_LINK_S = (_FORWARD_S + _BACKWARD_S) / _NUM_LAYERS - _CALL_S  # of a layer's all-reduce, beside that
_LINK = Link(0.0, _LAYER_BYTES / _LINK_S)  # in an all-reduce, each of 2 ranks sends as much as it holds
_WAYS = ("torch", "the course", "the course without overlap")


def main(arguments: list[str]) -> int:
    parser = bench_parser("ddp", __doc__, rounds=40, of="pairs of turns for the step time")
    parser.add_argument("--overlap-rounds", type=count, default=7, help="steps for the overlap (default 7)")
    options = parser.parse_args(arguments)
    with open_table(options) as table:
        with Cluster(2, links=Links(), timeout_s=600) as cluster:
            for name in MODELS:
                both = cluster.call(paired_steps, (name, options.rounds), show=False)[0]
                table.add_pair(f"step, {name}", both, target=_PROMISED_RATIO)
        with Cluster(2, links=Links(_LINK), timeout_s=600) as cluster:
            add_overlap(table, list(cluster.call(overlap, (options.overlap_rounds,), show=False)))
    return 0


# -- whole steps, real arithmetic -----------------------------------------------------------------------------


def paired_steps(me: Rank, name: str, rounds: int) -> Comparison:
    """On each rank: training steps under PyTorch's wrapper and under the course's, in turns; a step's time."""
    import torch
    from torch.nn.parallel import DistributedDataParallel as TorchDDP

    from course_lib.parallel.data import DistributedDataParallel

    wrap: tuple[Callable[[nn.Module], nn.Module], ...] = (
        TorchDDP,
        lambda model: DistributedDataParallel(me, model),
    )
    turns = []
    for wrapper in wrap:
        torch.manual_seed(0)
        turns.append(_steps(me, name, wrapper))
    return compare_on_ranks(*turns, names=("torch", "the course"), rounds=rounds, steps=_STEPS, device=me.device)


def _steps(me: Rank, name: str, wrap: Callable[[nn.Module], nn.Module]) -> Callable[[], None]:
    """A turn: some training steps on this rank's part of the data."""
    step = training(me, name, wrap)

    def turn() -> None:
        for _ in range(_STEPS):
            step()

    return turn


def training(me: Rank, name: str, wrap: Callable[[nn.Module], nn.Module]) -> Callable[[], None]:
    """A training step of the model called ``name``, wrapped, on this rank's device and its part of the data."""
    import torch
    import torch.nn.functional as F

    from course_lib.data import digits, documentation_windows
    from course_lib.models import SmallCNN, Transformer, TransformerConfig, next_token_loss

    task: tuple[nn.Module, Any, int, Callable[..., Any]]
    if name == MODELS[0]:
        task = SmallCNN(), digits().train, 64, F.cross_entropy
    else:
        wide = TransformerConfig(num_layers=8, width=512, num_heads=8, context_length=256)
        config, length = (wide, 256) if name == WIDE else (TransformerConfig(), 64)
        task = Transformer(config), documentation_windows(length).train, 8, next_token_loss
    model, data, size, loss_of = task
    mine = [data[me.rank * size + place] for place in range(size)]
    x, y = (torch.stack(list(parts)).to(me.device) for parts in zip(*mine, strict=True))
    model = model.to(me.device)
    wrapped = wrap(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step() -> None:
        optimizer.zero_grad()
        loss_of(wrapped(x), y).backward()
        optimizer.step()

    return step


# -- what overlap hides, paced layers and a shaped link -------------------------------------------------------


@dataclass(frozen=True)
class MeasuredOverlap:
    """One step of one rank: its time, the time in which an all-reduce was in flight, and the exposed part of it."""

    step_s: float
    communication_s: float
    exposed_s: float


def add_overlap(table: Table, by_rank: list[dict[str, list[MeasuredOverlap]]]) -> None:
    for way in _WAYS:
        rounds = list(zip(*(steps[way] for steps in by_rank), strict=True))
        table.add(f"paced step: {way}", [1e3 * max(s.step_s for s in ranks) for ranks in rounds], "ms")
        exposed = [100 * max(s.exposed_s / s.communication_s for s in ranks) for ranks in rounds]
        target = 100 * _PROMISED_EXPOSED if way == "the course" else None
        table.add(f"all-reduce time exposed: {way}", exposed, "%", target=target)
    bound = ddp_step(
        [_LAYER_BYTES] * _NUM_LAYERS,
        forward_s=_FORWARD_S,
        backward_s=_BACKWARD_S,
        all_reduce_time_s=lambda _: _LINK_S + _CALL_S,
    )
    table.add("all-reduce time exposed: by the cost model", [100 * bound.exposed_s / bound.communication_s], "%")
    late = [step for steps in by_rank for step in steps[_WAYS[2]]]
    share = 100 * median(step.communication_s / step.step_s for step in late)
    table.add("all-reduces, of a step without overlap", [share], "%")


def overlap(me: Rank, rounds: int) -> dict[str, list[MeasuredOverlap]]:
    """On each rank: a step in each way, in turns, with the meter on."""
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel as TorchDDP

    from course_lib.parallel.data import DistributedDataParallel, PacedLayers

    def paced() -> PacedLayers:
        times = {"forward_s": _FORWARD_S, "backward_s": _BACKWARD_S}
        return PacedLayers(me, num_layers=_NUM_LAYERS, layer_bytes=_LAYER_BYTES, **times)

    sizes = {"bucket_size_bytes": _LAYER_BYTES, "first_bucket_size_bytes": _LAYER_BYTES}
    wrapped = (
        TorchDDP(paced(), bucket_cap_mb=_LAYER_BYTES / 2**20),
        DistributedDataParallel(me, paced(), **sizes),
        DistributedDataParallel(me, paced(), overlap=False, **sizes),
    )
    x = torch.zeros(1, requires_grad=True)
    found: dict[str, list[MeasuredOverlap]] = {way: [] for way in _WAYS}
    for number in range(-2, rounds):  # the first two are not counted: there torch finds its order of buckets
        for way, model in list(zip(_WAYS, wrapped, strict=True))[:: 1 if number % 2 else -1]:
            dist.barrier()
            step = _watched(me, model, x)
            if number >= 0:
                found[way].append(step)
    return found


def _watched(me: Rank, model: nn.Module, x: Tensor) -> MeasuredOverlap:
    from course_lib.meter.communication.recorder import Recorder

    with Recorder(me.rank) as recorder:
        began_s = time.perf_counter()
        model(x).sum().backward()
        step_s = time.perf_counter() - began_s
    calls = [call for call in recorder.calls if call.operation == "all_reduce"]
    return MeasuredOverlap(step_s, _under_way_s(calls), _last(calls).exposed_s or 0.0)


def _last(calls: list[Call]) -> Call:
    """The one that ends last. Backward is over when it begins, so what it exposes is all that is exposed."""
    return max(calls, key=lambda call: call.end_s or 0.0)


def _under_way_s(calls: list[Call]) -> float:
    """Time in which at least one of the calls was in flight."""
    total_s, until_s = 0.0, 0.0
    for call in sorted(calls, key=lambda call: call.start_s):
        end_s = call.end_s or call.start_s
        total_s += max(0.0, end_s - max(call.start_s, until_s))
        until_s = max(until_s, end_s)
    return total_s
