"""Results of attempts that nobody has run: for tests of what is told of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from course_lib.capstone.jobs.job import CapstoneJob
from course_lib.capstone.jobs.result import Fault, Known, PartPoints, RankMemory, Result, Sent, Values
from course_lib.cost import NodeShape, ScaledJob
from course_lib.layouts.link import Link
from course_lib.models import TransformerConfig

__all__ = ["JOB", "RESULT", "cheated", "made", "over_memory"]

_CONFIG = TransformerConfig(vocab_size=64, context_length=16, num_layers=4, width=64, num_heads=4)
_PAIRS = NodeShape(2, within=Link(0.0, 20e6), between=Link(0.0, 2e6))
JOB = CapstoneJob(
    level=2,
    seed=7,
    job=ScaledJob(config=_CONFIG, batch_size=32, forward_s=0.24, nodes=_PAIRS),
    ranks=4,
    nodes=2,
    memory_bytes=2_000_000,
    budget_s=0.3,
)
_PARTS = {"parameter": 300_000, "gradient": 300_000, "optimizer state": 600_000, "activation": 400_000}
RESULT = Result(
    job=JOB,
    words="pp=2 dp_shard=2",
    planned=Known("pp=4", 0.21, 200_000, "played by the planner"),
    real=Known("pp=2 dp_shard=2", 0.31, 300_000, "run here"),
    points=(
        PartPoints("values", 40, 40, "As one device."),
        PartPoints("peak memory", 10, 10, "Within its limit."),
        PartPoints("bytes", 15, 20, "A third more than the best."),
        PartPoints("step time", 25, 30, "A tenth longer than the best."),
    ),
    values=Values(1e-8, 0.1, 1e-4, "blocks.0.mlp.w_up.weight", (4.2, 4.1), (4.2, 4.1)),
    memory=tuple(RankMemory(rank, 1_500_000 + 25_000 * rank, _PARTS) for rank in range(4)),
    sent=Sent({"pp": 100_000, "dp_shard": 500_000}, 400_000, 200_000, ((0,) * 4,) * 4),
    steps_s=(0.35, 0.34),
    paced_s=0.24,
    best=Known("pp=2 dp_shard=2", 0.22, 300_000, "best real run"),
)


def made(**changes: Any) -> Result:
    """The result with other facts."""
    return replace(RESULT, **changes)


def over_memory() -> Result:
    """A run that was ended by its limit."""
    none = tuple(PartPoints(part.part, 0, part.most, "It was ended.") for part in RESULT.points)
    return made(
        words="dp_replicate=4",
        points=none,
        ended="Rank 0 held 2,100,000 bytes and may hold 2,000,000.",
        values=None,
        sent=None,
        steps_s=(),
        paced_s=None,
        memory=(RankMemory(0, 2_100_000, {"parameter": 800_000, "gradient": 1_300_000}),),
    )


def cheated() -> Result:
    """A run that broke a rule."""
    none = tuple(PartPoints(part.part, 0, part.most, "A rule was broken.") for part in RESULT.points)
    return made(points=none, faults=(Fault("one-rank", "Rank 0 computed all of it."),))
