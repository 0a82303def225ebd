"""The memory of a rank over the course of one ZeRO-3 step: unit by unit, what is unsharded, in flight, saved.

It follows ``course_lib.parallel.sharded``, message by message. Activations are left out: they are as in any other
step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from course_lib.base.checked import checked
from course_lib.base.checks import at_least
from course_lib.cost.data_parallel.sharded import ranks_in_between
from course_lib.cost.single_device.model_state import DTYPE_BYTES, OPTIMIZERS

__all__ = ["ShardedMoment", "UnitSizes", "sharded_moments"]


@checked
@dataclass(frozen=True)
class UnitSizes:
    """A unit: how many numbers it has whole, and how many of them a rank keeps that has all its rows."""

    whole_numel: int
    part_numel: int

    def __post_init__(self) -> None:
        at_least(0, whole_numel=self.whole_numel, part_numel=self.part_numel)


@checked
@dataclass(frozen=True)
class ShardedMoment:
    """What a rank holds at a moment, in bytes. ``messages`` are buffers of collectives in flight, or just done
    with; ``pieces`` what it holds of weights from forward to backward, where neighbours have them together."""

    what: str
    kept: int  # its rows of weights and optimizer states
    gradients: int = 0  # its rows of them
    whole: int = 0  # weights of units that compute
    whole_gradients: int = 0
    messages: int = 0
    pieces: int = 0
    phase: str = "before"  # the part of the step that it lies in: "forward of unit 2", "optimizer", ...

    def __post_init__(self) -> None:
        at_least(0, kept=self.kept, gradients=self.gradients, whole=self.whole)
        at_least(0, whole_gradients=self.whole_gradients, messages=self.messages, pieces=self.pieces)

    @property
    def total(self) -> int:
        return self.kept + self.gradients + self.whole + self.whole_gradients + self.messages + self.pieces


@checked
def sharded_moments(
    units: Sequence[UnitSizes],
    *,
    num_ranks: int,
    optimizer: str = "adamw",
    dtype: str = "float32",
    compute_dtype: str | None = None,
    reduce_dtype: str | None = None,
    reshard_after_forward: bool | int = True,
    prefetch: int = 1,
) -> list[ShardedMoment]:
    """The moments of a step of units that are used one after the other, forward and backward; the largest is the
    peak.

    ``reshard_after_forward=m``: m neighbours hold a unit together from forward to backward, where its rows divide.
    """
    at_least(1, num_ranks=num_ranks, num_units=len(units))
    at_least(0, prefetch=prefetch)
    among = ranks_in_between(reshard_after_forward, num_ranks)
    reshards = reshard_after_forward is True or among > 1
    kept_bytes, whole_bytes = DTYPE_BYTES[dtype], DTYPE_BYTES[compute_dtype or dtype]
    copies, _ = OPTIMIZERS[optimizer]
    kept = sum(unit.part_numel for unit in units) * kept_bytes * (1 + copies)
    step = _Step(
        list(units),
        num_ranks,
        among,
        kept_bytes,
        whole_bytes,
        DTYPE_BYTES[reduce_dtype or compute_dtype or dtype],
    )
    step.now = ShardedMoment("before the step", kept)
    step.moments.append(step.now)
    places = list(range(len(units)))
    for at, unit in enumerate(places):
        step.enter(f"forward of unit {unit}")
        step.gather(unit, places[at + 1 : at + 1 + prefetch], num_ranks)
        step.mark(f"forward of unit {unit}", pieces=step.piece_of(unit))
        if step.has_pieces:
            step.mark(f"unit {unit} is cut among neighbours")
        step.add(whole=-step.whole_of(unit) if reshards else 0)
    for at, unit in enumerate(reversed(places)):
        step.enter(f"backward of unit {unit}")
        if reshards:
            step.gather(unit, places[::-1][at + 1 : at + 1 + prefetch], among)
        step.reduce(unit)
    step.land()
    step.mark("after backward")
    return step.moments


@dataclass
class _Step:
    units: list[UnitSizes]
    num_ranks: int
    among: int  # how many ranks hold a unit from forward to backward; 1: each
    kept_bytes: int
    whole_bytes: int
    reduce_bytes: int
    now: ShardedMoment = field(init=False)
    moments: list[ShardedMoment] = field(default_factory=list)
    started: set[int] = field(default_factory=set)
    under_way: int | None = None  # the unit whose gradients travel

    def whole_of(self, unit: int) -> int:
        return self.units[unit].whole_numel * self.whole_bytes

    @property
    def has_pieces(self) -> bool:
        return 1 < self.among < self.num_ranks

    def piece_of(self, unit: int) -> int:
        numel = -(-self.units[unit].whole_numel // self.among)
        return numel * self.whole_bytes if self.has_pieces else 0

    def enter(self, phase: str) -> None:
        """The moments from here on lie in this part of the step."""
        self.now = replace(self.now, phase=phase)

    def mark(self, what: str, **more: int) -> None:
        """A moment; what ``more`` says is added to it, or taken off, afterwards."""
        self.moments.append(replace(self.now, what=what))
        self.add(**more)

    def add(self, **more: int) -> None:
        self.now = replace(self.now, **{name: getattr(self.now, name) + size for name, size in more.items()})

    def gather(self, unit: int, following: Sequence[int], among: int) -> None:
        """All-gathers start for a unit and for those that follow; the unit's is waited for, and its weights laid
        out."""
        for one in [unit, *following]:
            if one not in self.started:
                self.started.add(one)
                self.add(messages=self.gathering(one, among))
        # What was sent goes before the weights are laid out; in forward their memory is taken while it travels.
        is_let_go = self.now.phase.startswith("backward") and among == self.num_ranks
        sent = self.units[unit].part_numel * self.whole_bytes if is_let_go else 0
        pieces = 0 if among == self.num_ranks else -self.piece_of(unit)
        self.add(whole=self.whole_of(unit), messages=-sent, pieces=pieces)
        self.mark(f"unit {unit} is laid out")
        self.started.discard(unit)
        self.add(messages=sent - self.gathering(unit, among))

    def gathering(self, unit: int, among: int) -> int:
        """Of an all-gather: what comes, and what goes, if that is not a piece, which is counted already."""
        if among < self.num_ranks:
            return among * self.piece_of(unit)
        return (self.num_ranks + 1) * self.units[unit].part_numel * self.whole_bytes

    def reduce(self, unit: int) -> None:
        """A unit's backward: whole gradients; its weights are let go; the reduce-scatter before it is waited for."""
        self.add(whole_gradients=self.whole_of(unit))
        self.mark(f"backward of unit {unit}", whole=-self.whole_of(unit))
        self.land()
        self.add(messages=self.travelling(unit))
        self.under_way = unit
        self.mark(f"gradients of unit {unit} are packed", whole_gradients=-self.whole_of(unit))

    def travelling(self, unit: int) -> int:
        """Of gradients in flight: the buffer that goes, and, by all-to-all on gloo, the one that comes."""
        return 2 * self.num_ranks * self.units[unit].part_numel * self.reduce_bytes

    def land(self) -> None:
        """The rows of the gradients in flight have come."""
        if self.under_way is not None:
            numel = self.units[self.under_way].part_numel
            self.add(gradients=numel * self.kept_bytes)
            self.mark("gradients have come", messages=-self.travelling(self.under_way))
            self.under_way = None
