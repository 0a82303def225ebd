"""Trials of what is said about models cut by layers: what waits, what moves, what is kept, and what a pipeline is.

Where a clock decides, computing is *paced* (a timed wait), so that two cores can play four devices; ranks, messages and
their order are real.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import pairwise

import torch
from torch import nn

from course_lib.claims.court.evidence import Evidence, Ranks, tries
from course_lib.claims.court.timing_noise import borne_out, too_busy
from course_lib.claims.court.workloads import ROUNDING, batch, distance, distance_text, gradients
from course_lib.cluster.api.cluster import Cluster
from course_lib.cluster.base.rank import Rank
from course_lib.meter import MemoryLedger, metered
from course_lib.parallel.pipeline import Pipeline, average_gradients, run_pipeline
from course_lib.schedules import Schedule, ScheduleTrace, StageTimes, gpipe, naive, one_f_one_b

__all__: list[str] = []

_P, _M, _NUM_SAMPLES = 4, 8, 64
_FORWARD_S = 0.006  # a backward takes twice as long
_EQUAL = StageTimes.of(_FORWARD_S)
_FORMULA = (_P - 1) / (_M + _P - 1)


def _step(cluster: Cluster, schedule: Schedule, times: StageTimes | list[StageTimes] = _EQUAL) -> ScheduleTrace:
    """One paced step on real ranks, as measured after a forward pass to warm up."""
    return run_pipeline(cluster, schedule, times, message_bytes=4, steps=1)


def _busy_shares(cluster: Cluster, slower: int) -> dict[str, float]:
    """How busy four devices are in four situations, with stages that take so many times as long as usual."""
    equal, double = StageTimes.of(slower * _FORWARD_S), StageTimes.of(2 * slower * _FORWARD_S)
    steps = {
        "one batch": _step(cluster, naive(_P), equal),
        f"{_M} micro-batches": _step(cluster, one_f_one_b(_P, _M), equal),
        "2 micro-batches": _step(cluster, one_f_one_b(_P, 2), equal),
        f"{_M} micro-batches, one stage of double time": _step(
            cluster, one_f_one_b(_P, _M), [equal, double, equal, equal]
        ),
    }
    return {name: 1 - step.idle_share for name, step in steps.items()}


def _gains_and_conditions(busy: Mapping[str, float]) -> tuple[bool, bool]:
    """Are they nearly twice as busy with many micro-batches; and much less so with few, or with a slow stage?"""
    one, many, few, unequal = busy.values()
    return many > 1.8 * one, min(few, unequal) < 0.85 * many


@tries("B5")
def micro_batches_keep_the_devices_busy(ranks: Ranks) -> Evidence:
    """How busy are four devices with one batch, with eight micro-batches, with two, and with one slow stage?"""
    rounds = (partial(_busy_shares, ranks(_P), slower) for slower in (1, 1, 2))
    busy, in_line = borne_out(ranks(_P), rounds, lambda busy: all(_gains_and_conditions(busy)))
    improves, conditions = _gains_and_conditions(busy)
    if not (improves and conditions) and (undecided := too_busy(in_line)):
        return undecided
    return Evidence(
        ("holds with conditions" if conditions else "holds") if improves else "false",
        {
            "devices": _P,
            "busy by formula, one batch": f"{1 / _P:.0%}",
            f"busy by formula, {_M} micro-batches": f"{1 - _FORMULA:.0%}",
            "nearly twice as busy or more": improves,
            "much less so with few micro-batches, or with a slow stage": conditions,
        },
        timings={f"busy, {name}": f"{share:.0%}" for name, share in busy.items()},
        because="it takes several times as many micro-batches as stages, and stages that take equally long. For p "
        "stages and m micro-batches the idle share (bubble fraction) is then (p - 1)/(m + p - 1)",
        turns_if="stages took equally long and micro-batches were many (then it holds), or there was only one (then it "
        "is false)",
    )


def _idle_shares(cluster: Cluster, slower: int) -> dict[int, float]:
    """By number of micro-batches, with stages that take so many times as long as usual."""
    times = StageTimes.of(slower * _FORWARD_S)
    return {m: _step(cluster, gpipe(_P, m), times).idle_share for m in (1, 4, 16)}


def _falls(idle: Mapping[int, float]) -> bool:
    return idle[16] < 0.75 * idle[4] and idle[4] < 0.85 * idle[1]


@tries("E8")
def micro_batches_reduce_idle_time(ranks: Ranks) -> Evidence:
    """The idle share of four devices with 1, 4 and 16 micro-batches; and what they keep meanwhile."""
    rounds = (partial(_idle_shares, ranks(_P), slower) for slower in (1, 2, 4))
    idle, in_line = borne_out(ranks(_P), rounds, _falls)
    falls = _falls(idle)
    if not falls and (undecided := too_busy(in_line)):
        return undecided
    peaks = {kind.__name__: _in_flight(ranks(_P), kind(_P, 16)) for kind in (gpipe, one_f_one_b)}
    return Evidence(
        "holds" if falls else "false",
        {
            "idle by formula, 1, 4 and 16 micro-batches": ", ".join(f"{(_P - 1) / (m + _P - 1):.0%}" for m in idle),
            "it falls each time": falls,
            "in flight by rank, 16 micro-batches, GPipe": peaks["gpipe"],
            "and 1F1B": peaks["one_f_one_b"],
        },
        timings={f"idle, {m} micro-batch{'es' * (m > 1)}": f"{share:.0%}" for m, share in idle.items()},
        because="while one stage works on a micro-batch, the next stage works on the one before. Each micro-batch in "
        "flight keeps activations; a schedule such as 1F1B limits their number",
        turns_if="a stage waited until all micro-batches were through the stage before it: then idle time stays as "
        "it was",
    )


# -- real arithmetic, decided by what is counted ------------------------------------------------------------------


def _stages(width: int = 32, *, num_layers: int = 1) -> list[nn.Module]:
    """Four stages of so many layers; chained, they are the model. The same weights on every rank."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        sizes = [12, *[width] * (_P * num_layers - 1), 4]
        layers = [nn.Sequential(nn.Linear(a, b), nn.Tanh()).double() for a, b in pairwise(sizes)]
    return [nn.Sequential(*layers[i : i + num_layers]) for i in range(0, len(layers), num_layers)]


def _held(me: Rank, schedule: Schedule) -> tuple[int, int, torch.Tensor]:
    """After one step: parameters of this rank, its most micro-batches in flight, and its gradients."""
    pipeline = Pipeline(me, _stages(), schedule, nn.functional.cross_entropy)
    pipeline.step(*batch(_NUM_SAMPLES))
    numbers = sum(p.numel() for p in pipeline.parameters())
    return numbers, max(pipeline.peak_in_flight.values()), gradients(pipeline.stages)


def _in_flight(cluster: Cluster, schedule: Schedule) -> str:
    return ", ".join(str(peak) for _, peak, _ in cluster.run(_held, schedule))


def _uncut_gradients() -> torch.Tensor:
    model = nn.Sequential(*_stages())
    inputs, classes = batch(_NUM_SAMPLES)
    nn.functional.cross_entropy(model(inputs), classes).backward()
    return gradients(model)


def _two_replicas(me: Rank) -> int:
    """Two pipelines of two stages, each with half of the batch: parameters of this rank."""
    pairs, same_stages = [[0, 1], [2, 3]], [[0, 2], [1, 3]]
    groups = [torch.distributed.new_group(members) for members in same_stages]
    stages = _stages()
    halves = [nn.Sequential(*stages[:2]), nn.Sequential(*stages[2:])]
    pipeline = Pipeline(me, halves, one_f_one_b(2, 4), nn.functional.cross_entropy, ranks=pairs[me.rank // 2])
    pipeline.step(*(part.chunk(2)[me.rank // 2] for part in batch(_NUM_SAMPLES)))
    average_gradients(pipeline, groups[me.rank % 2])
    return sum(p.numel() for p in pipeline.parameters())


@tries("B6")
def a_pipeline_is_data_and_model_parallelism_combined(ranks: Ranks) -> Evidence:
    """A pipeline, and two pipelines side by side: who holds what, and does anybody all-reduce a gradient?"""
    alone, both = metered(ranks(_P), _held, one_f_one_b(_P, _M)), metered(ranks(_P), _two_replicas)
    whole = sum(p.numel() for stage in _stages() for p in stage.parameters())
    copies = {"alone": sum(n for n, _, _ in alone) / whole, "both": sum(both) / whole}
    reduced = {"alone": alone.communication.by_operation(), "both": both.communication.by_operation()}
    apart = distance(torch.cat([found for _, _, found in alone]), _uncut_gradients())
    is_replicated = copies["alone"] > 1 or "all_reduce" in reduced["alone"]
    return Evidence(
        "holds" if is_replicated else "misleading",
        {
            "copies of each weight, one pipeline": f"{copies['alone']:g}",
            "all-reduces of gradients": reduced["alone"].get("all_reduce", 0),
            "gradients, away from the uncut model's": distance_text(apart),
            "copies of each weight, two pipelines side by side": f"{copies['both']:g}",
            "all-reduces of gradients there": reduced["both"].get("all_reduce", 0),
        },
        because="micro-batches are pieces of one batch that all pass the same weights, and no weight is replicated. "
        "The combination exists too: two pipelines side by side",
        turns_if="several pipelines ran side by side and averaged their gradients, as in the last rows",
    )


@tries("E7")
def model_parallelism_is_pipeline_parallelism(ranks: Ranks) -> Evidence:
    """The same four stages with one batch and with micro-batches: how many of these are in flight at once?"""
    found = {s.name: list(ranks(_P).run(_held, s)) for s in (naive(_P), one_f_one_b(_P, _M))}
    at_once = {name: max(peak for _, peak, _ in held) for name, held in found.items()}
    first, second = (torch.cat([made for _, _, made in held]) for held in found.values())
    apart, differ = distance(first, second), at_once["naive"] < at_once["1F1B"]
    return Evidence(
        "misleading" if differ and apart < ROUNDING else "holds" if apart < ROUNDING else "false",
        {
            "pieces of the batch in flight, model parallelism": at_once["naive"],
            f"and a pipeline with {_M} micro-batches": at_once["1F1B"],
            "gradients of the two differ by": distance_text(apart),
        },
        because="both cut the model by layers and compute the same gradients. A pipeline has several pieces of the "
        "batch in flight. Without micro-batches there is one, and one device works at a time",
        turns_if="a model cut by layers always came with micro-batches",
    )


def _peak(me: Rank, num_stages: int, kind: str) -> int:
    """The most bytes that this rank holds in a step under Adam."""
    stages = _stages(width=128, num_layers=6)
    parts = stages if num_stages == _P else [nn.Sequential(*stages)]
    schedule = naive(num_stages) if kind == "naive" else one_f_one_b(num_stages, _M)
    pipeline = Pipeline(me, parts, schedule, nn.functional.cross_entropy)
    optimizer, data = torch.optim.AdamW(pipeline.parameters()), batch(8 * _NUM_SAMPLES)

    def step() -> None:
        pipeline.step(*data)
        optimizer.step()
        optimizer.zero_grad()

    step()  # in the second step the optimizer has its state
    with MemoryLedger(pipeline.stages, optimizer, inputs=data, rank=me.rank) as ledger:
        step()
    return ledger.peak().total_bytes


@tries("E13")
def splitting_the_layers_lowers_the_memory_on_each(ranks: Ranks) -> Evidence:
    """A step of Adam on one device, over four stages, and over four stages as a pipeline."""
    uncut = ranks(1).run(_peak, 1, "naive")[0]
    cut = {kind: [peak / uncut for peak in ranks(_P).run(_peak, _P, kind)] for kind in ("naive", "1f1b")}
    return Evidence(
        "holds" if max(map(max, cut.values())) < 1 else "false",
        {
            "by rank, share of the uncut peak, one batch": ", ".join(f"{share:.2f}" for share in cut["naive"]),
            f"and {_M} micro-batches, 1F1B": ", ".join(f"{share:.2f}" for share in cut["1f1b"]),
            "micro-batches in flight by rank, 1F1B": _in_flight(ranks(_P), one_f_one_b(_P, _M)),
        },
        because="the devices share out weights, gradients, optimizer state and activations. In a pipeline the first "
        "stage has the most micro-batches in flight",
        turns_if="nearly all weights stood in one layer, such as a large embedding: its stage then keeps nearly all",
    )
