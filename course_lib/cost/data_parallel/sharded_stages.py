"""The memory of a rank over the course of one step, for any stage of ZeRO: 0 is DDP, 3 is ``sharded_moments``.

It follows ``DistributedDataParallel`` and ``ShardedOptimizer``, message by message; their buckets are the units, and
are filled from the end of the model. Activations, and what an optimizer needs while it computes, are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from course_lib.base.checked import checked
from course_lib.base.checks import MOST_RANKS, at_least, at_most, known
from course_lib.cost.data_parallel.sharded import check_stage
from course_lib.cost.data_parallel.sharded_step import ShardedMoment, UnitSizes, sharded_moments
from course_lib.cost.single_device.model_state import DTYPE_BYTES, OPTIMIZERS

__all__ = ["largest_by_phase", "step_moments"]

_UNDER_WAY = 2  # buckets whose weights are gathered at a time after an optimizer's step


@checked
def step_moments(
    units: Sequence[UnitSizes],
    *,
    stage: int,
    num_ranks: int,
    optimizer: str = "adamw",
    dtype: str = "float32",
    reshard_after_forward: bool = True,
    prefetch: int = 1,
    largest_numel: int | None = None,
) -> list[ShardedMoment]:
    """The moments of forward, backward and the optimizer's step; the largest total is the peak.

    ``prefetch`` and ``reshard_after_forward`` count in stage 3. ``largest_numel``, in stage 0: numbers of the largest
    gradient, which is there twice while it is copied into its bucket (by default a unit is one gradient).
    ``ValueError`` for another stage, and for an optimizer or a dtype that the cost model does not know.
    """
    check_stage(stage, from_stage=0)
    at_least(1, num_ranks=num_ranks, num_units=len(units))
    at_most(MOST_RANKS, num_ranks=num_ranks)
    at_least(0, prefetch=prefetch, largest_numel=largest_numel or 0)
    known("optimizer", optimizer, OPTIMIZERS)
    known("dtype", dtype, DTYPE_BYTES)
    if stage == 3:
        moments = sharded_moments(
            units,
            num_ranks=num_ranks,
            optimizer=optimizer,
            dtype=dtype,
            reshard_after_forward=reshard_after_forward,
            prefetch=prefetch,
        )
        last = replace(moments[-1], messages=0, phase="optimizer", what="the optimizer has stepped")
        return [*moments, last]
    walk = _Walk(units, stage, num_ranks, DTYPE_BYTES[dtype], OPTIMIZERS[optimizer][0])
    for unit in range(len(units)):
        walk.mark(f"forward of unit {unit}", phase=f"forward of unit {unit}")
    for unit in reversed(range(len(units))):
        walk.enter(f"backward of unit {unit}")
        if stage == 0:
            walk.copy_into_bucket(unit, largest_numel)
        elif stage == 1:
            walk.keep_gradients(unit)
        else:
            walk.reduce(unit)
    walk.land()
    walk.enter("optimizer")
    walk.step()
    return walk.moments


@checked
def largest_by_phase(moments: Sequence[ShardedMoment]) -> dict[str, ShardedMoment]:
    """Of each part of a step the moment with the largest total (the first of equals), in the order of the parts."""
    largest: dict[str, ShardedMoment] = {}
    for moment in moments:
        if moment.phase not in largest or moment.total > largest[moment.phase].total:
            largest[moment.phase] = moment
    return largest


class _Walk:
    """Through a step of stages 0 to 2, whose weights are whole all the time: ``now`` changes, ``moments`` are kept."""

    def __init__(self, units: Sequence[UnitSizes], stage: int, num_ranks: int, number_bytes: int, copies: int) -> None:
        self.units, self.stage, self.num_ranks, self.number_bytes = units, stage, num_ranks, number_bytes
        weights = sum(unit.whole_numel for unit in units) * number_bytes
        rows = sum(unit.part_numel for unit in units) * number_bytes
        kept = weights + copies * (rows if stage else weights)
        whole_gradients = 0 if stage else weights  # DDP's buckets stay
        self.now = ShardedMoment("before the step", kept, whole_gradients=whole_gradients)
        self.moments = [self.now]
        self.under_way: int | None = None  # the bucket whose gradients travel

    def enter(self, phase: str) -> None:
        self.now = replace(self.now, phase=phase)

    def add(self, **more: int) -> None:
        self.now = replace(self.now, **{name: getattr(self.now, name) + size for name, size in more.items()})

    def mark(self, what: str, *, phase: str | None = None) -> None:
        self.now = replace(self.now, what=what, phase=phase or self.now.phase)
        self.moments.append(self.now)

    def whole(self, unit: int) -> int:
        return self.units[unit].whole_numel * self.number_bytes

    def rows(self, unit: int) -> int:
        return self.units[unit].part_numel * self.number_bytes

    # -- backward ---------------------------------------------------------------------------------------------------

    def copy_into_bucket(self, unit: int, largest_numel: int | None) -> None:
        """Stage 0: one gradient at a time is copied into the bucket, where it is summed in place."""
        copied = self.whole(unit) if largest_numel is None else largest_numel * self.number_bytes
        self.add(whole_gradients=copied)
        self.mark(f"backward of unit {unit}")
        self.add(whole_gradients=-copied)

    def keep_gradients(self, unit: int) -> None:
        """Stage 1: whole gradients stay until the optimizer steps."""
        self.add(whole_gradients=self.whole(unit))
        self.mark(f"backward of unit {unit}")

    def reduce(self, unit: int) -> None:
        """Stage 2: the bucket before is waited for, and this one's gradients are packed and let go."""
        self.keep_gradients(unit)
        self.land()
        self.send(unit)
        self.add(whole_gradients=-self.whole(unit))

    def send(self, unit: int) -> None:
        """A buffer that goes, and, by all-to-all on gloo, one that comes."""
        self.add(messages=2 * self.num_ranks * self.rows(unit))
        self.mark(f"gradients of unit {unit} are packed")
        self.under_way = unit

    def land(self) -> None:
        if self.under_way is not None:
            self.add(gradients=self.rows(self.under_way))
            self.mark("gradients have come")
            self.add(messages=-2 * self.num_ranks * self.rows(self.under_way))
            self.under_way = None

    # -- the optimizer's step ---------------------------------------------------------------------------------------

    def step(self) -> None:
        """Stage 1 reduces now; then a rank updates its rows, and gets those of the others."""
        buckets = list(reversed(range(len(self.units))))
        for unit in buckets if self.stage == 1 else ():
            self.send(unit)
            self.land()
        self.mark("the optimizer has stepped")
        for at in range(len(buckets) if self.stage else 0):
            travelling = sum(self.rows(unit) for unit in buckets[at : at + _UNDER_WAY])
            self.add(messages=(self.num_ranks + 1) * travelling)
            self.mark(f"weights of unit {buckets[at]} come")
            self.add(messages=-(self.num_ranks + 1) * travelling)
        if self.stage:
            self.add(gradients=-self.now.gradients)
            self.mark("after the step")
