"""11.planner: usual mistakes about layouts that fit, and awkward jobs; each changes a formula of a whole planner."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from course_lib.plan.inputs.layout import Layout

__all__ = [
    "AnyMemory",
    "AsManyKeys",
    "ByItsFirstStage",
    "ByItsLastStage",
    "NeverAgain",
    "NoReserve",
    "OneAtATime",
    "PowersOfTwo",
    "TiedOnFirst",
    "TiedTwice",
    "Unsharded",
    "WithinANode",
]


class ByItsFirstStage:
    def needed_bytes(self: Any, layout: Layout) -> float:
        return sum(self.memory(layout, 0).values()) + self.machines.reserve_bytes


class ByItsLastStage:
    def needed_bytes(self: Any, layout: Layout) -> float:
        return sum(self.memory(layout, layout.pp - 1).values()) + self.machines.reserve_bytes


class NoReserve:
    def needed_bytes(self: Any, layout: Layout) -> float:
        return max(sum(self.memory(layout, stage).values()) for stage in range(layout.pp))


class AnyMemory:
    def needed_bytes(self: Any, layout: Layout) -> float:
        return 0.0


class WithinANode:
    def candidates(self: Any) -> Iterator[Layout]:
        return (one for one in super().candidates() if one.tp <= self.machines.node_size)  # type: ignore[misc]


class OneAtATime:
    def candidates(self: Any) -> Iterator[Layout]:
        return (one for one in super().candidates() if one.micro_batch == 1)  # type: ignore[misc]


class Unsharded:
    def candidates(self: Any) -> Iterator[Layout]:
        return (one for one in super().candidates() if not one.sharding)  # type: ignore[misc]


class NeverAgain:
    def candidates(self: Any) -> Iterator[Layout]:
        return (one for one in super().candidates() if one.recompute == "none")  # type: ignore[misc]


class PowersOfTwo:
    """Axes that are no power of two are left out."""

    def candidates(self: Any) -> Iterator[Layout]:
        every = super().candidates()  # type: ignore[misc]
        return (one for one in every if not any(size & (size - 1) for size in (one.tp, one.pp, one.dp)))


class AsManyKeys:
    """Keys and values as wide as queries."""

    @property
    def kv_width(self: Any) -> float:
        return self.job.hidden


class TiedTwice:
    def tables(self: Any, layout: Layout, stage: int) -> int:
        if layout.pp == 1:
            return 2
        return int(stage in (0, layout.pp - 1))


class TiedOnFirst:
    """Tied tables on the first stage alone, also where the last one is another."""

    def tables(self: Any, layout: Layout, stage: int) -> int:
        if self.job.tied:
            return int(stage == 0)
        return super().tables(layout, stage)  # type: ignore[misc]
