"""The constants of a cluster that no data sheet tells: eight numbers, each with what it may be, and is typically.

A profile holds one set for one cluster. The bounds are those of physics: a share lies below 1. The typical value and
its spread say what to expect of a cluster that nobody has measured; a fit with few runs stays near them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from course_lib.base.checked import checked

__all__ = ["KINDS", "ClusterKind", "Constants"]


@dataclass(frozen=True)
class ClusterKind:
    """What a constant may be. ``spread`` is of its logarithm: 0.2 is about 20 % either way."""

    typical: float
    lowest: float
    highest: float
    spread: float
    what: str


KINDS = {
    "matmul_share": ClusterKind(0.72, 0.3, 0.95, 0.12, "of the GPU's peak that large matrices reach"),
    "memory_share": ClusterKind(
        0.75, 0.2, 1.0, 0.3, "of the memory's bandwidth that norms, softmax and optimizer reach"
    ),
    "host_layer_s": ClusterKind(1.2e-3, 0.05e-3, 10e-3, 0.8, "that the host needs to issue one pass of one layer"),
    "inside_share": ClusterKind(0.7, 0.2, 1.0, 0.3, "of the NVLink bandwidth that a collective reaches"),
    "outside_share": ClusterKind(0.6, 0.05, 1.0, 0.5, "of a node's network bandwidth that a collective reaches"),
    "latency_s": ClusterKind(8e-6, 1e-6, 100e-6, 0.7, "of a collective for each doubling of its size above 1 KiB"),
    "hidden_share": ClusterKind(
        0.5, 0.02, 1.0, 0.5, "of the sending time of the data axis and of interleaved stages that is hidden"
    ),
    "reserve_bytes": ClusterKind(2e9, 2e9, 16e9, 0.5, "that CUDA, NCCL and the allocator keep on each GPU"),
}


@checked
@dataclass(frozen=True)
class Constants:
    """One number of each of ``KINDS``; ``ValueError`` for one outside its bounds, with the nearest inside."""

    matmul_share: float = KINDS["matmul_share"].typical
    memory_share: float = KINDS["memory_share"].typical
    host_layer_s: float = KINDS["host_layer_s"].typical
    inside_share: float = KINDS["inside_share"].typical
    outside_share: float = KINDS["outside_share"].typical
    latency_s: float = KINDS["latency_s"].typical
    hidden_share: float = KINDS["hidden_share"].typical
    reserve_bytes: float = KINDS["reserve_bytes"].typical

    def __post_init__(self) -> None:
        for name, kind in KINDS.items():
            value = getattr(self, name)
            if not kind.lowest <= value <= kind.highest:
                nearest = min(max(value, kind.lowest), kind.highest)
                raise ValueError(
                    f"{name} is {value:g}; it lies between {kind.lowest:g} and {kind.highest:g} ({kind.what}). The "
                    f"nearest is {nearest:g}."
                )


assert tuple(KINDS) == tuple(field.name for field in fields(Constants))
