"""How many ranks lie along each axis of the mesh: which meshes a job can have, and the nearest one to a wish."""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Iterator
from typing import NamedTuple

from .settings import SettingsError

__all__ = ["Axes", "axes_of", "num_micro_batches"]


class Axes(NamedTuple):
    """Ranks along each axis, from the one whose neighbours lie farthest apart to the one with neighbouring ranks.

    Along ``tp`` messages are many and wait for nobody else's computing, so it gets the fastest links: those within a
    machine. Along ``pp`` they are few and small.
    """

    pp: int  # stages of the pipeline: each has some of the blocks
    dp: int  # copies of all the rest, which see other samples (HSDP's outer axis)
    shard: int  # parts of every parameter, gathered for use, on ranks that see other samples (FSDP)
    tp: int  # parts of every product of matrices, on ranks that see the same samples

    @property
    def num_data_shares(self) -> int:
        """Parts in which a batch is dealt out. Ranks that differ in ``pp`` or ``tp`` alone see the same samples."""
        return self.dp * self.shard

    def __str__(self) -> str:
        return f"--dp {self.dp} --shard {self.shard} --pp {self.pp} --tp {self.tp}"


def axes_of(args: argparse.Namespace, world_size: int) -> Axes:
    """The mesh that was asked for; without ``--shard``, that axis takes all ranks that the others leave.

    ``SettingsError`` where it has not as many places as there are ranks, or the model cannot be cut so; with the
    nearest mesh that works.
    """
    others = args.pp * args.dp * args.tp
    wish = Axes(args.pp, args.dp, args.shard or max(1, world_size // others), args.tp)
    if why_not := _why_not(wish, args, world_size):
        raise SettingsError(f"{why_not} {_advice(wish, args, world_size)}")
    return wish


def num_micro_batches(args: argparse.Namespace, axes: Axes) -> int:
    """Parts of a rank's share of a batch; without ``--accumulate`` as many as stages, which is the least that works."""
    return args.accumulate or axes.pp


def _why_not(axes: Axes, args: argparse.Namespace, world_size: int) -> str:
    """A sentence about what is wrong with a mesh, or ""."""
    if math.prod(axes) != world_size:
        return f"The mesh {axes} has {math.prod(axes)} places, and there are {world_size} processes."
    if args.heads % axes.tp:
        return f"--tp {axes.tp} cannot share out --heads {args.heads} equally."
    if args.context % axes.tp:
        return f"--tp {axes.tp} cannot share out --context {args.context} equally: it cuts the sequence, too."
    if axes.pp > args.layers:
        return f"--pp {axes.pp} stages need a block each, and there are --layers {args.layers}."
    if axes.pp > num_micro_batches(args, axes):
        return (
            f"--pp {axes.pp} stages need as many micro-batches, to work at the same time; --accumulate "
            f"{args.accumulate} makes fewer. Give --accumulate {axes.pp}, or another mesh."
        )
    return ""


def _advice(wish: Axes, args: argparse.Namespace, world_size: int) -> str:
    """Which mesh to ask for instead, with fewer processes if none has as many."""
    for num_ranks in range(world_size, 0, -1):
        legal = [axes for axes in _meshes(num_ranks) if _works(axes, args, num_ranks)]
        if legal:
            nearest = min(legal, key=lambda axes: _distance(axes, wish))
            start = "" if num_ranks == world_size else f" of {num_ranks} processes"
            return f"The nearest mesh that works is one{start} of {nearest}."
    return "Give a --batch-size that is a multiple of --accumulate."  # else one process would work


def _works(axes: Axes, args: argparse.Namespace, world_size: int) -> bool:
    return (
        not _why_not(axes, args, world_size)
        and args.batch_size % (axes.num_data_shares * num_micro_batches(args, axes)) == 0
    )


def _meshes(num_ranks: int) -> Iterator[Axes]:
    """All meshes with so many places."""
    divisors = [n for n in range(1, num_ranks + 1) if num_ranks % n == 0]
    for pp, dp, shard in itertools.product(divisors, repeat=3):
        if num_ranks % (pp * dp * shard) == 0:
            yield Axes(pp, dp, shard, num_ranks // (pp * dp * shard))


def _distance(axes: Axes, wish: Axes) -> float:
    """How often an axis would have to be doubled or halved."""
    return sum(abs(math.log2(has / wants)) for has, wants in zip(axes, wish, strict=True))
