"""``course bench pipeline``: the course's pipeline runtime beside ``torch.distributed.pipelining``, and the simulator.

First whole steps with real arithmetic, on 2 ranks: the same model, cut, micro-batches and kind of schedule, in turns,
within one run. The promise: at most PyTorch's time. Then *paced* stages, which wait instead of computing, since two
cores cannot show what four devices do: how far the measured idle share is from the simulated one. The promise: 0.02.
Last, activations: the most micro-batches that a stage held at a time, beside the simulator's count. The promise: equal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from course_lib.authoring.bench.options import bench_parser, count, open_table
from course_lib.authoring.bench.strategies.in_turns import compare_on_ranks
from course_lib.authoring.bench.table import Table
from course_lib.cluster.api.cluster import Cluster
from course_lib.cluster.base.rank import Rank
from course_lib.cluster.links.links import Links
from course_lib.cost.model_parallel.pipeline import simulate
from course_lib.meter.clocks.stopwatch import Comparison
from course_lib.schedules import SCHEDULES, get_schedule, peak_in_flight_by_stage
from course_lib.schedules.stage_times import StageTimes

if TYPE_CHECKING:
    from torch import Tensor, nn

__all__ = ["main", "paired_steps", "peaks"]

_PROMISED_RATIO = 1.0
_PROMISED_DISTANCE = 0.02  # of idle shares
_KINDS = ("gpipe", "1f1b", "interleaved")
_PACED_KINDS = ("gpipe", "1f1b", "interleaved", "zb_h1")
_NUM_RANKS, _NUM_MICRO_BATCHES, _MICRO_BATCH_SIZE, _LENGTH = 2, 8, 2, 64
_TIMES = StageTimes(0.040, 0.040, 0.040)  # of all that a rank holds, for one micro-batch


def main(arguments: list[str]) -> int:
    parser = bench_parser("pipeline", __doc__, rounds=30, of="pairs of turns for the step time")
    parser.add_argument("--paced-rounds", type=count, default=5, help="paced steps of each schedule (default 5)")
    options = parser.parse_args(arguments)
    with open_table(options) as table:
        with Cluster(_NUM_RANKS, links=Links(), timeout_s=600) as cluster:
            for kind in _KINDS:
                add_steps(table, kind, cluster.call(paired_steps, (kind, options.rounds), show=False)[0])
        for num_ranks in (2, 3, 4):
            with Cluster(num_ranks, links=Links(), timeout_s=600) as cluster:
                for kind in _PACED_KINDS:
                    for num_micro_batches in (4, 8, 16):
                        add_paced(table, cluster, kind, num_micro_batches, options.paced_rounds)
                add_peaks(table, cluster)
    return 0


# -- whole steps, real arithmetic -----------------------------------------------------------------------------


def add_steps(table: Table, kind: str, both: Comparison) -> None:
    """Three lines: the time by PyTorch, the time by the course, and the ratio of the paired times."""
    table.add_pair(f"step, {SCHEDULES[kind].title}", both, target=_PROMISED_RATIO)


def paired_steps(me: Rank, kind: str, rounds: int, *, steps_in_a_turn: int = 4) -> Comparison:
    """On each rank: forward and backward of a batch by PyTorch's pipeline and by the course's, in turns."""
    import torch

    num_virtual_stages = 2 if kind == "interleaved" else 1
    both = [way(me, kind, num_virtual_stages) for way in (_torch_step, _course_step)]
    tokens = torch.randint(256, (_NUM_MICRO_BATCHES * _MICRO_BATCH_SIZE, _LENGTH + 1), device=me.device)
    x = tokens[:, :-1] if me.rank == 0 else None
    y = tokens[:, 1:] if me.rank == me.world_size - 1 else None

    def turn(step: Callable[[Tensor | None, Tensor | None], None]) -> Callable[[], None]:
        def several() -> None:
            for _ in range(steps_in_a_turn):
                step(x, y)

        return several

    turns = [turn(step) for step in both]
    names = ("torch", "the course")
    return compare_on_ranks(*turns, names=names, rounds=rounds, steps=steps_in_a_turn, device=me.device)


def _parts(num_stages: int) -> list[nn.Module]:
    """A transformer of six blocks, cut evenly."""
    import torch

    from course_lib.models import Transformer, TransformerConfig
    from course_lib.parallel.model import cut, pieces_of, split_evenly

    torch.manual_seed(0)
    model = Transformer(TransformerConfig(num_layers=6))
    return [*cut(model, split_evenly([1] * len(pieces_of(model)), num_stages))]


def _torch_step(me: Rank, kind: str, num_virtual_stages: int) -> Callable[[Tensor | None, Tensor | None], None]:
    from torch.distributed.pipelining import (
        PipelineStage,
        Schedule1F1B,
        ScheduleGPipe,
        ScheduleInterleaved1F1B,
    )

    from course_lib.models import next_token_loss

    num_stages = num_virtual_stages * me.world_size
    parts = [part.to(me.device) for part in _parts(num_stages)]
    numbers = range(me.rank, num_stages, me.world_size)
    stages = [PipelineStage(parts[number], number, num_stages, me.device) for number in numbers]
    kinds: dict[str, Any] = {
        "gpipe": ScheduleGPipe,
        "1f1b": Schedule1F1B,
        "interleaved": ScheduleInterleaved1F1B,
    }
    given = stages if kind == "interleaved" else stages[0]
    schedule = kinds[kind](given, n_microbatches=_NUM_MICRO_BATCHES, loss_fn=next_token_loss)

    def step(x: Tensor | None, y: Tensor | None) -> None:
        for stage in stages:
            stage.submod.zero_grad()
        inputs = () if x is None else (x,)
        schedule.step(*inputs, target=y, losses=None if y is None else [], return_outputs=False)

    return step


def _course_step(me: Rank, kind: str, num_virtual_stages: int) -> Callable[[Tensor | None, Tensor | None], None]:
    from course_lib.models import next_token_loss
    from course_lib.parallel.pipeline import Pipeline

    schedule = get_schedule(kind, me.world_size, _NUM_MICRO_BATCHES, num_virtual_stages=num_virtual_stages)
    parts = [part.to(me.device) for part in _parts(schedule.num_stages)]
    pipeline = Pipeline(me, parts, schedule, next_token_loss)

    def step(x: Tensor | None, y: Tensor | None) -> None:
        pipeline.stages.zero_grad()
        pipeline.step(x, y)

    return step


# -- paced stages and the simulator ---------------------------------------------------------------------------


def add_paced(table: Table, cluster: Cluster, kind: str, num_micro_batches: int, rounds: int) -> None:
    """A line: how far measured idle shares are from the simulated one."""
    from course_lib.parallel.pipeline import run_pipeline_steps

    schedule = get_schedule(kind, cluster.world_size, num_micro_batches)
    times = _TIMES.divided(schedule.num_stages // schedule.num_ranks)
    expected = simulate(schedule, times).idle_share
    steps = run_pipeline_steps(cluster, schedule, times, steps=rounds)
    table.add(
        f"idle share off, {schedule.name}, {cluster.world_size} ranks x {num_micro_batches}",
        [abs(step.idle_share - expected) for step in steps],
        "share",
        target=_PROMISED_DISTANCE,
    )


def add_peaks(table: Table, cluster: Cluster) -> None:
    """A line: by how many micro-batches any stage's activations differ from the count, over all schedules."""
    by_rank = cluster.call(peaks, (tuple(SCHEDULES), 6), show=False)
    off = []
    for kind in SCHEDULES:
        found = {stage: peak for rank in by_rank for stage, peak in rank[kind].items()}
        expected = peak_in_flight_by_stage(get_schedule(kind, cluster.world_size, 6))
        off.append(max(abs(found[stage] - peak) for stage, peak in enumerate(expected)))
    table.add(f"activations at the peak off, all schedules, {cluster.world_size} ranks", off, "", target=0.0)


def peaks(me: Rank, kinds: tuple[str, ...], num_micro_batches: int) -> dict[str, dict[int, int]]:
    """On each rank: for each schedule, by stage, the most micro-batches in flight at a time."""
    import torch
    from torch import nn

    from course_lib.parallel.pipeline import Pipeline

    found = {}
    for kind in kinds:
        schedule = get_schedule(kind, me.world_size, num_micro_batches)
        stages = [nn.Linear(4, 4) for _ in range(schedule.num_stages)]
        pipeline = Pipeline(me, stages, schedule, nn.functional.mse_loss)
        x = torch.ones(num_micro_batches, 4)
        pipeline.step(x, x)
        found[kind] = pipeline.peak_in_flight
    return found
