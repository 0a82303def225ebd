"""What a collective costs by gloo among the ranks of one machine, from what that machine was measured to do.

Read in gloo's and PyTorch's sources and confirmed, with PyTorch 2.13, by the bytes that each rank writes:

==============  ==========================================================================================
all-reduce      a ring, in place: n - 1 steps that add, n - 1 that copy; each step moves size / n
all-gather      a ring of n - 1 steps into a new buffer, which is then copied to the output
reduce-scatter  a copy of the input, a whole all-reduce of that copy, and one part of it is kept: the same
                bytes as all-reduce, twice what a reduce-scatter needs
broadcast       a binomial tree of whole messages; a rank sends to all of its children at once
==============  ==========================================================================================

Steps of a ring, messages, additions and copies are measured with all ranks busy, so ranks that share cores need
no factor of their own. ``size_bytes`` is the whole buffer, as
everywhere in this package.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from course_lib.base.checked import checked
from course_lib.base.checks import at_least, known, not_negative
from course_lib.meter.calibration.together import Together

__all__ = ["GLOO_COLLECTIVES", "GlooTime", "gloo_time"]


@dataclass(frozen=True)
class GlooTime:
    """A predicted time and what it is made of, in seconds.

    ``spread`` is the share by which what was measured for it lay apart: 0.3 where the middle half of the rounds took
    up to 30 % longer than the quickest of them.
    """

    call_s: float  # into the back end's thread and back
    messages_s: float
    adding_s: float = 0.0
    copies_s: float = 0.0
    spread: float = 0.0

    @property
    def time_s(self) -> float:
        """All parts, one after the other."""
        return self.call_s + self.messages_s + self.adding_s + self.copies_s

    @property
    def band_s(self) -> tuple[float, float]:
        """Between which times to expect it, as far as the spread of what it is made of says."""
        return self.time_s / (1 + self.spread), self.time_s * (1 + self.spread)

    def __str__(self) -> str:
        from course_lib.meter.units import time_text

        low_s, high_s = self.band_s
        return f"{time_text(self.time_s)}; expect {time_text(low_s)} to {time_text(high_s)}"


@checked
def gloo_time(collective: str, size_bytes: float, *, num_ranks: int, together: Sequence[Together]) -> GlooTime:
    """Predict a collective of ``size_bytes`` among ``num_ranks`` ranks of one machine.

    ``together`` is what a calibration measured (``calibrate(together=True).together``). A number of ranks that was not
    measured lies on the line through the two nearest that were. Raises ValueError for an unknown
    collective, a negative size, fewer than one rank, and a calibration without ``together`` (a machine
    whose ranks do not use gloo).
    """
    part_of = _PARTS[known("collective", collective, _PARTS)]
    not_negative(size_bytes=size_bytes)
    at_least(1, num_ranks=num_ranks)
    if not together:
        raise ValueError("This calibration measured no ranks together, which it does where gloo carries them.")
    here = _Ranks(tuple(together))
    if num_ranks == 1 or size_bytes == 0:
        return GlooTime(here.at(min(2, num_ranks), lambda one: one.call_s), 0.0)
    return replace(part_of(size_bytes, num_ranks, here), spread=here.at(num_ranks, lambda one: one.spread))


@dataclass(frozen=True)
class _Ranks:
    """Measured quantities at any number of ranks."""

    together: tuple[Together, ...]

    def at(self, num_ranks: int, quantity: Callable[[Together], float]) -> float:
        """``quantity`` at ``num_ranks``; on a line between two counts, and never less with more ranks."""
        values = {measured.num_ranks: quantity(measured) for measured in self.together}
        if num_ranks in values or len(values) == 1:
            return values.get(num_ranks, min(values.values()))
        low, high = sorted(sorted(values, key=lambda count: abs(count - num_ranks))[:2])
        slope = (values[high] - values[low]) / (high - low)
        if num_ranks > high:
            return values[high] + max(0.0, slope) * (num_ranks - high)
        return max(0.0, values[low] + slope * (num_ranks - low)) if num_ranks > low else values[low]

    def call_s(self, num_ranks: int) -> float:
        return self.at(num_ranks, lambda measured: measured.call_s)

    def ring_step_s(self, num_ranks: int, size_bytes: float) -> float:
        return self.at(num_ranks, lambda measured: _ring_step_s(measured, size_bytes))

    def messages_s(self, num_pairs: int, size_bytes: float) -> float:
        """One message in each of so many pairs of ranks."""
        return self.at(2 * num_pairs, lambda measured: measured.message.time_s(size_bytes))

    def add_s(self, num_ranks: int, size_bytes: float) -> float:
        return self.at(num_ranks, lambda measured: measured.add.time_s(size_bytes))

    def copies_s(self, num_ranks: int, local: str, size_bytes: float) -> float:
        """What a collective does beside calling and sending, from its time in a group of one rank."""
        return self.at(
            num_ranks,
            lambda measured: max(0.0, getattr(measured, local).time_s(size_bytes) - measured.call_s),
        )


def _all_reduce(size_bytes: float, n: int, here: _Ranks) -> GlooTime:
    return GlooTime(
        here.call_s(n),
        2 * (n - 1) * here.ring_step_s(n, size_bytes / n),
        adding_s=(n - 1) * here.add_s(n, size_bytes / n),
    )


def _reduce_scatter(size_bytes: float, n: int, here: _Ranks) -> GlooTime:
    copies_s = here.copies_s(n, "local_reduce_scatter", size_bytes)
    return replace(_all_reduce(size_bytes, n, here), copies_s=copies_s)


def _all_gather(size_bytes: float, n: int, here: _Ranks) -> GlooTime:
    return GlooTime(
        here.call_s(n),
        (n - 1) * here.ring_step_s(n, size_bytes / n),
        copies_s=here.copies_s(n, "local_all_gather", size_bytes),
    )


def _broadcast(size_bytes: float, n: int, here: _Ranks) -> GlooTime:
    # On each level of the tree, every rank that has the data sends it to one that has not.
    messages_s, have = 0.0, 1
    while have < n:
        sending = min(have, n - have)
        messages_s += here.messages_s(sending, size_bytes)
        have += sending
    return GlooTime(0.0, messages_s)  # a message is measured with its own way into the back end


def _ring_step_s(measured: Together, size_bytes: float) -> float:
    """A step inside the back end. It was measured from outside, where each message starts by a call of its own.

    So the shortest step is left out of what was measured, and two rounds of a barrier stand for it: gloo cuts what
    goes round a ring in two at least, and each half waits for its turn.
    """
    if size_bytes == 0:
        return 0.0
    growth_s = measured.ring_step.time_s(size_bytes) - measured.ring_step.latency_s
    return 2 * measured.round_s + growth_s


_PARTS: dict[str, Callable[[float, int, _Ranks], GlooTime]] = {
    "all_reduce": _all_reduce,
    "all_gather": _all_gather,
    "reduce_scatter": _reduce_scatter,
    "broadcast": _broadcast,
}
GLOO_COLLECTIVES = tuple(_PARTS)
