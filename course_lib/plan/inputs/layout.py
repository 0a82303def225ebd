"""A layout: how many ways each axis cuts, and how a step runs through the cut. And where a group's ranks sit.

Ranks are numbered with the tensor axis fastest, then context, data, and the pipeline slowest, as Megatron-LM does:
neighbours in the pipeline are the farthest apart, because they say the least. Experts on a mesh of their own number the
ranks of a stage anew: their tensor axis fastest, then ``ep``, then their copies.
"""

from __future__ import annotations

from dataclasses import dataclass

from course_lib.base.checked import checked
from course_lib.base.checks import at_least, known
from course_lib.plan.inputs.cluster import ClusterSpec

__all__ = ["RECOMPUTE", "Layout", "Placement", "placement"]

RECOMPUTE = ("none", "selective", "full")


@checked
@dataclass(frozen=True)
class Layout:
    """Sizes of the axes and the ways of a step.

    ``sharding``: ZeRO stages 0 to 3 on the data axis, among ``shard_size`` neighbours (0: all of the axis; fewer is
    hybrid sharding). ``chunks``: stages a rank of an interleaved schedule; 1 is 1F1B. ``ep`` ranks of the data axis
    share out the experts. With ``etp`` above 0 experts have a mesh of their own (parallel folding): within a stage
    ``tp * cp * dp`` is ``etp * ep * expert_dp``, and ``etp`` ranks cut each expert. 0: they share the dense layers'.
    """

    tp: int = 1
    cp: int = 1
    pp: int = 1
    dp: int = 1
    ep: int = 1
    micro_batch: int = 1
    chunks: int = 1
    sharding: int = 0
    shard_size: int = 0
    sequence_parallel: bool = False
    recompute: str = "none"
    offload: bool = False
    etp: int = 0

    def __post_init__(self) -> None:
        axes = self.tp, self.cp, self.pp, self.dp, self.ep
        for count in (*axes, self.micro_batch, self.chunks, self.shard_size + 1, self.etp + 1):
            if count.__class__ is not int or count < 1:  # asked first: a search makes a hundred thousand of these
                at_least(1, tp=self.tp, cp=self.cp, pp=self.pp, dp=self.dp, ep=self.ep)
                at_least(1, micro_batch=self.micro_batch, chunks=self.chunks)
                at_least(0, shard_size=self.shard_size, etp=self.etp)
                break
        if self.recompute not in RECOMPUTE:
            known("recompute", self.recompute, RECOMPUTE)
        if self.sharding not in (0, 1, 2, 3):
            nearest = min(max(self.sharding, 0), 3)
            raise ValueError(f"sharding is {self.sharding}; it is 0, 1, 2 or 3. The nearest is {nearest}.")

    @property
    def gpus(self) -> int:
        """How many GPUs it takes."""
        return self.tp * self.cp * self.pp * self.dp

    @property
    def shards(self) -> int:
        """Among how many ranks the sharded states are shared out: context ranks hold the same weights, and share."""
        return (self.shard_size or self.dp * self.cp) if self.sharding else 1

    @property
    def expert_dp(self) -> int:
        """How many ranks of a stage hold the same experts, or the same part of them."""
        if self.etp:
            return self.tp * self.cp * self.dp // (self.ep * self.etp)
        return self.cp * self.dp // self.ep

    def num_micro_batches(self, batch: int) -> int:
        """Micro-batches of a step for a rank, the last one perhaps not full."""
        return max(1, -(-batch // (self.micro_batch * self.dp)))

    def __str__(self) -> str:
        axes = [f"{name}{size}" for name in ("tp", "cp", "pp", "dp", "ep") if (size := getattr(self, name)) > 1]
        axes += [f"etp{self.etp}"] if self.etp else []
        words = [*(axes or ["one GPU"]), f"mb{self.micro_batch}"]
        words += [f"v{self.chunks}"] if self.chunks > 1 else []
        words += [f"zero{self.sharding}" + (f"/{self.shard_size}" if self.shard_size else "")] if self.sharding else []
        words += ["sp"] if self.sequence_parallel else []
        words += [self.recompute] if self.recompute != "none" else []
        return " ".join([*words, *(["offload"] if self.offload else [])])


@dataclass(frozen=True)
class Placement:
    """Where a group of ranks sits: all in one NVLink domain, or ``per_node`` of them on each of several nodes."""

    size: int
    inside: bool
    per_node: int


def placement(cluster: ClusterSpec, size: int, stride: int) -> Placement:
    """The place of a group of ``size`` ranks, each ``stride`` after the one before."""
    if size * stride <= cluster.domain_size or size == 1:
        return Placement(size, True, size)
    return Placement(size, False, max(1, min(size, cluster.node_size // stride)))
