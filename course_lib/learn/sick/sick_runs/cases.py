"""The six runs: how each is set, what is wrong with it, and the one change that gains the most."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from course_lib.learn.sick.sick_runs.job import SickJob
from course_lib.learn.sick.sick_runs.settings import Settings

__all__ = ["ACROSS", "BUBBLE", "CASES", "EXPOSED", "FULL", "HEALTHY", "LOADER", "RECOMPUTED", "SLOW", "SUSPECTS",
           "UNEVEN", "SickCase"]  # fmt: skip

ACROSS = "tensor parallelism goes from node to node"
BUBBLE = "too few micro-batches for the stages"
SLOW = "one device is slower than the others"
LOADER = "batches are not read fast enough"
RECOMPUTED = "activations are recomputed that would fit in memory"
EXPOSED = "gradients are averaged when there is nothing left to hide behind"
UNEVEN = "the layers are cut unevenly"
FULL = "memory is full, and is made free and taken again"
SUSPECTS = (ACROSS, BUBBLE, SLOW, LOADER, RECOMPUTED, EXPOSED, UNEVEN, FULL)

_PLAIN = SickJob()


@dataclass(frozen=True)
class SickCase:
    """A run, and what there is to know about it. ``best``: the single change that gains the most."""

    name: str
    fault: str  # one of SUSPECTS; empty for the healthy run
    settings: Settings
    job: SickJob = _PLAIN
    best: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))


_DATA, _TENSOR, _STAGES, _BOTH = "dp_replicate=4", "dp_replicate=2 tp=2", "pp=4", "pp=2 dp_replicate=2"

HEALTHY = SickCase("0", "", Settings(_DATA))
CASES: Mapping[str, SickCase] = MappingProxyType(
    {
        case.name: case
        for case in (
            SickCase("A", LOADER, Settings(_TENSOR, readers=0), SickJob(read_s=150e-3), {"readers": 2}),
            SickCase("B", BUBBLE, Settings(_STAGES, micro_batches=2), best={"micro_batches": 8}),
            SickCase("C", RECOMPUTED, Settings(_DATA, recompute="full"), best={"recompute": "none"}),
            SickCase("D", ACROSS, Settings("tp=2 dp_replicate=2"), best={"mesh": _TENSOR}),
            SickCase("E", EXPOSED, Settings(_DATA, buckets=1), SickJob(gradient_bytes=300_000), {"buckets": 4}),
            SickCase("F", SLOW, Settings(_BOTH, micro_batches=4), SickJob(slow=((2, 2.0),)), {"spare_for": 2}),
        )
    }
)
