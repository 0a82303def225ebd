"""11.planner: the jobs, machines and layouts on which a planner is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from course_lib.plan.by_hand.inputs import Machines, PlannedJob, TimedRun
from course_lib.plan.by_hand.timed_runs import kept_back_runs, shown_runs
from course_lib.plan.inputs.layout import Layout

__all__ = [
    "AWKWARD",
    "COMPUTE",
    "LAYOUTS",
    "LINKS",
    "LINK_PARTS",
    "MEMORY",
    "MEMORY_PARTS",
    "RUNS",
    "STATES",
    "STATE_PARTS",
    "PlanQuestion",
    "PublishedCase",
    "published",
]

STATE_PARTS = ("weights", "gradients", "optimizer")
MEMORY_PARTS = (*STATE_PARTS, "activations", "logits")
LINK_PARTS = ("tensor", "pipeline", "data")


@dataclass(frozen=True)
class PlanQuestion:
    """What a planner is asked for: the parts of a layout, or (``is_search``) the layouts that fit.

    ``why``: layouts with what each refusal has to name, "" for one that can run.
    """

    label: str
    job: PlannedJob
    machines: Machines
    layout: Layout | None = None
    parts: tuple[str, ...] = ()
    is_search: bool = False
    why: tuple[tuple[Layout, str], ...] = ()


@dataclass(frozen=True)
class PublishedCase:
    """Runs of a cluster: those that a planner is given, those that judge it, and jobs that nobody ran."""

    label: str
    given: tuple[TimedRun, ...]
    judged: tuple[TimedRun, ...]
    changed: tuple[tuple[int, TimedRun], ...]  # of the judged run of this number


# Sizes without a common factor, so that no part is taken for another.
_SMALL = PlannedJob(layers=12, hidden=96, heads=4, kv_heads=4, ffn=352, vocab=1009, seq=128, batch=48)
_GATED = replace(_SMALL, gated=True, layers=8, hidden=64, ffn=200, vocab=2003, gradient_bytes=4)
_LARGE = PlannedJob(layers=24, hidden=2048, heads=16, kv_heads=16, ffn=8192, vocab=50257, seq=1024, batch=96)
_WIDE = replace(_LARGE, gated=True, ffn=5504, vocab=131_072, seq=4096, layers=16, batch=64, gradient_bytes=4)
_NODES = Machines(
    gpus=64,
    node_size=8,
    memory_bytes=80e9,
    reserve_bytes=2e9,
    peak_flops_per_s=300e12,
    share=0.45,
    pass_s=1e-3,
    inside_bytes_per_s=240e9,
    network_bits_per_s=120e9,
    latency_s=8e-6,
    hidden=0.5,
)
_SLOW_NET = replace(_NODES, network_bits_per_s=24e9, latency_s=30e-6, hidden=0.7)
_PAIRS = replace(_SLOW_NET, node_size=2)


def _asked(parts: Sequence[str]) -> Any:
    def make(label: str, job: PlannedJob, machines: Machines = _NODES, **sizes: Any) -> PlanQuestion:
        layout = Layout(**sizes)
        return PlanQuestion(label, job, replace(machines, gpus=layout.gpus), layout, tuple(parts))

    return make


_states, _memory = _asked(STATE_PARTS), _asked(MEMORY_PARTS)
_compute, _links = _asked(("compute",)), _asked(("compute", *LINK_PARTS))

STATES = (
    _states("one GPU", _SMALL),
    _states("one GPU, and a gated MLP", _GATED),
    _states("a tensor axis of 4", _SMALL, tp=4),
    *(_states(f"a data axis of 8, sharding {stage}", _GATED, dp=8, sharding=stage) for stage in range(4)),
    _states("4 stages", _SMALL, pp=4),
    _states("2 stages, a tensor axis of 2, a data axis of 4, sharding 1", _GATED, tp=2, pp=2, dp=4, sharding=1),
    _states("4 stages, a data axis of 6, sharding 3", _SMALL, pp=4, dp=6, sharding=3),
)
MEMORY = (
    _memory("one GPU, 3 sequences in a micro-batch", _SMALL, micro_batch=3),
    _memory("a gated MLP, a tensor axis of 4", _GATED, tp=4, micro_batch=2),
    _memory("a tensor axis of 2, sequence parallel", _GATED, tp=2, sequence_parallel=True, micro_batch=2),
    _memory("4 stages, 12 micro-batches", _SMALL, pp=4, micro_batch=4),
    _memory("4 stages, 2 micro-batches on each of 8 data ranks", _SMALL, pp=4, dp=8, micro_batch=3),
    _memory("one GPU, all layers computed again", _SMALL, recompute="full"),
    _memory("2 stages, all layers computed again", _GATED, pp=2, tp=2, sequence_parallel=True, recompute="full"),
    _memory("3 stages, a tensor axis of 2, sharding 1", _SMALL, pp=3, tp=2, dp=2, sharding=1, recompute="full"),
)
COMPUTE = (
    _compute("one GPU", _LARGE, micro_batch=4),
    _compute("one GPU, passes that the host cannot begin in time", _SMALL),
    _compute("a gated MLP, long sequences, a tensor axis of 8", _WIDE, tp=8, sequence_parallel=True),
    _compute("a data axis of 8", _LARGE, dp=8, micro_batch=2),
    _compute("4 stages, 12 micro-batches", _LARGE, pp=4, micro_batch=8),
    _compute("8 stages, 2 micro-batches, a large vocabulary", _WIDE, pp=8, dp=8, micro_batch=4),
    _compute("one GPU, all layers computed again", _LARGE, micro_batch=4, recompute="full"),
    _compute("4 stages, all layers computed again", _LARGE, pp=4, tp=2, micro_batch=2, recompute="full"),
    _compute("2 stages, forward passes that the host holds up", _LARGE, pp=2, tp=8, micro_batch=3),
)
LINKS = (
    _links("a tensor axis within a node", _LARGE, tp=4, micro_batch=4),
    _links("a tensor axis over two nodes", _LARGE, _SLOW_NET, tp=16, micro_batch=4),
    _links("a tensor axis, sequence parallel, computed again", _WIDE, tp=4, sequence_parallel=True, recompute="full"),
    _links("copies within a node", _LARGE, dp=8, micro_batch=4),
    _links("copies on four nodes, 8 ranks on each", _LARGE, _SLOW_NET, dp=32, micro_batch=3),
    _links("copies on eight nodes, one rank of each tensor group", _LARGE, _SLOW_NET, tp=8, dp=8, micro_batch=6),
    _links("copies that lie 4 ranks apart", _LARGE, _SLOW_NET, tp=4, dp=4, micro_batch=8),
    _links("sharding 1 on four nodes", _WIDE, _SLOW_NET, dp=32, sharding=1, micro_batch=2),
    _links("sharding 3 on four nodes", _WIDE, _SLOW_NET, dp=16, sharding=3, micro_batch=1, recompute="full"),
    _links("sharding 3 within a node", _LARGE, dp=8, sharding=3, micro_batch=4),
    _links("gradients that all find something to hide behind", _WIDE, dp=2, micro_batch=16),
    _links("4 stages within a node", _LARGE, pp=4, micro_batch=4),
    _links("8 stages on four nodes", _LARGE, _PAIRS, pp=8, micro_batch=4),
    _links("all axes, sequence parallel", _WIDE, tp=4, pp=4, dp=4, sharding=1, sequence_parallel=True, micro_batch=2),
    _links("all axes, on nodes of two", _LARGE, _PAIRS, tp=2, pp=2, dp=8, micro_batch=2),
)


def _search(label: str, job: PlannedJob, gpus: int, **changed: Any) -> PlanQuestion:
    return PlanQuestion(label, job, replace(_NODES, gpus=gpus, **changed), is_search=True)


_FITS_8 = replace(_LARGE, layers=32, hidden=4096, heads=32, kv_heads=32, ffn=16384, seq=2048, batch=64)
_MANY = replace(_FITS_8, layers=80, hidden=8192, heads=64, kv_heads=64, ffn=28672, gated=True, seq=4096, batch=1024)
LAYOUTS = (
    _search("a small model on 8 GPUs", _LARGE, 8),
    _search("a model of 7 billion on 16 GPUs", _FITS_8, 16),
    _search("the same on 16 GPUs of 40 GB", _FITS_8, 16, memory_bytes=40e9),
    _search("the same on 16 GPUs of which 12 GB are reserved", _FITS_8, 16, memory_bytes=60e9, reserve_bytes=12e9),
    _search("24 GPUs in nodes of 4, a batch of 96", _LARGE, 24, node_size=4),
    _search("1,024 GPUs", _MANY, 1024),
)


def _with_jobs(judged: Sequence[TimedRun]) -> tuple[tuple[int, TimedRun], ...]:
    """Jobs near these runs: a batch of twice the size, and twice the layers."""
    found = []
    for number, run in list(enumerate(judged))[:: max(1, len(judged) // 5)]:
        found.append((number, replace(run, job=replace(run.job, batch=2 * run.job.batch))))
        found.append((number, replace(run, job=replace(run.job, layers=2 * run.job.layers))))
    return tuple(found)


@cache
def published() -> tuple[PublishedCase, ...]:
    """Read when it is first asked for."""
    sources = (
        ("a cluster of A100", shown_runs("vtrain-multi")[::4], kept_back_runs("vtrain-single", "judged")),
        ("a cluster of H100", kept_back_runs("ultra-scale", "given"), kept_back_runs("ultra-scale", "judged")),
    )
    return tuple(
        PublishedCase(label, tuple(given), tuple(judged), _with_jobs(judged)) for label, given, judged in sources
    )


RUNS = ("a cluster of A100", "a cluster of H100")

_GROUPED = replace(_GATED, heads=8, kv_heads=2)
_GROUPED_LARGE = replace(_WIDE, heads=32, kv_heads=8)
_TIED = replace(_SMALL, tied=True)
_ODD = replace(_LARGE, batch=90)
_GIANT = replace(_MANY, layers=128, hidden=16384, heads=128, kv_heads=128, ffn=65536, batch=64)
AWKWARD = (
    _links("one GPU, one sequence", replace(_LARGE, batch=1)),
    _memory("grouped-query attention", _GROUPED, tp=2, micro_batch=2),
    _compute("grouped-query attention, long sequences", _GROUPED_LARGE, tp=4, sequence_parallel=True),
    _search("grouped-query attention on 16 GPUs", _GROUPED_LARGE, 16),
    _memory("tied embeddings on one GPU", _TIED),
    _memory("tied embeddings on 3 stages", _TIED, pp=3, dp=2, sharding=1),
    _links("12 GPUs in nodes of 8: copies on one node and a half", _LARGE, _SLOW_NET, dp=12, micro_batch=4),
    _links("6 GPUs in nodes of 4", _LARGE, replace(_SLOW_NET, node_size=4), tp=2, dp=3, micro_batch=4),
    _search("one GPU", replace(_LARGE, layers=4, batch=6), 1),
    _search("a batch of 90 on 16 GPUs", _ODD, 16),
    _search("a model that fits nowhere", _GIANT, 8),
    PlanQuestion(
        "why some layouts cannot run",
        _ODD,
        replace(_NODES, gpus=16),
        why=(
            (Layout(dp=16), "batch"),
            (Layout(tp=8, dp=2, micro_batch=2, sequence_parallel=True), "batch"),
            (Layout(pp=16), "layers"),
            (Layout(tp=8, dp=2, micro_batch=3, sequence_parallel=True), ""),
        ),
    ),
    PlanQuestion(
        "why nothing fits",
        _GIANT,
        replace(_NODES, gpus=8),
        why=((Layout(tp=8, sequence_parallel=True, recompute="full"), "memory"), (Layout(dp=8, sharding=3), "memory")),
    ),
)
