"""The six runs: how each is set, what is wrong with it, and the one change that gains the most."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from course_lib.learn.sick.sick_runs.job import Job
from course_lib.learn.sick.sick_runs.settings import Settings

__all__ = ["ACROSS", "BUBBLE", "CASES", "EXPOSED", "FULL", "HEALTHY", "LOADER", "RECOMPUTED", "SLOW", "SUSPECTS",
           "UNEVEN", "Case"]  # fmt: skip

ACROSS = "tensor parallelism goes from node to node"
BUBBLE = "too few micro-batches for the stages"
SLOW = "one device is slower than the others"
LOADER = "batches are not read fast enough"
RECOMPUTED = "activations are recomputed that would fit in memory"
EXPOSED = "gradients are averaged when there is nothing left to hide behind"
UNEVEN = "the layers are cut unevenly"
FULL = "memory is full, and is made free and taken again"
SUSPECTS = (ACROSS, BUBBLE, SLOW, LOADER, RECOMPUTED, EXPOSED, UNEVEN, FULL)

_PLAIN = Job()


@dataclass(frozen=True)
class Case:
    """A run, and what there is to know about it. ``best``: the single change that gains the most."""

    name: str
    fault: str  # one of SUSPECTS; empty for the healthy run
    settings: Settings
    job: Job = _PLAIN
    best: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))


_DATA, _TENSOR, _STAGES, _BOTH = "dp_replicate=4", "dp_replicate=2 tp=2", "pp=4", "pp=2 dp_replicate=2"

HEALTHY = Case("0", "", Settings(_DATA))
CASES: Mapping[str, Case] = MappingProxyType(
    {
        case.name: case
        for case in (
            Case("A", LOADER, Settings(_TENSOR, readers=0), Job(read_s=150e-3), {"readers": 2}),
            Case("B", BUBBLE, Settings(_STAGES, micro_batches=2), best={"micro_batches": 8}),
            Case("C", RECOMPUTED, Settings(_DATA, recompute="full"), best={"recompute": "none"}),
            Case("D", ACROSS, Settings("tp=2 dp_replicate=2"), best={"mesh": _TENSOR}),
            Case("E", EXPOSED, Settings(_DATA, buckets=1), Job(gradient_bytes=300_000), {"buckets": 4}),
            Case("F", SLOW, Settings(_BOTH, micro_batches=4), Job(slow=((2, 2.0),)), {"spare_for": 2}),
        )
    }
)
