"""Events of a GPU on the host's clock: an *anchor* ties the two clocks together, and each second there is a new one.

An anchor is an event of which both tell the time. ``elapsed_time`` is a float32 of milliseconds, so from one anchor
alone it would step by 16 us after 160 s and by 1 ms after three hours, and two quartz clocks part by some microseconds
in each second.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["GpuClock"]

_ANCHOR_EVERY_S = 1.0  # within it a float32 of milliseconds is good to 0.06 us
_TRIES = 3  # the host may be busy elsewhere while it looks at an anchor


class Stamp(NamedTuple):
    """An event that has been recorded, and the number of the anchor before it."""

    event: Any
    anchor: int


class _Anchor(NamedTuple):
    event: Any
    host_s: float
    unsure_s: float  # by how much the host may be wrong


class GpuClock:
    """Device events, read on the host's clock; good to about the time of a synchronisation (10 us).

    Between two anchors both clocks are taken to run evenly. So one moment follows the other on the host's clock as on
    the device's: what lies within a span stays within it, and a length is good to a hundred-thousandth.

    Not run on a GPU so far: written from the documentation of ``torch.cuda.Event``.
    """

    def __init__(self, device: Any, clock: Callable[[], float]) -> None:
        import torch

        self._cuda, self._device, self._clock = torch.cuda, torch.device(device), clock
        # Of its own and without work, so that an anchor does not wait for what the program has begun.
        self._stream = torch.cuda.Stream(self._device)
        self._anchors = [self._new_anchor()]

    def stamp(self) -> Stamp:
        """This moment in the work of the current stream: it comes when the device gets there."""
        if self._clock() - self._anchors[-1].host_s >= _ANCHOR_EVERY_S:
            self._anchors.append(self._new_anchor())
        return Stamp(self._recorded(self._cuda.current_stream(self._device)), len(self._anchors) - 1)

    def read(self, stamp: Stamp) -> float:
        """When the device got there, in seconds of the host's clock. Waits until it has."""
        event, number = stamp
        event.synchronize()
        while True:
            anchor = self._anchors[number]
            after_s = anchor.event.elapsed_time(event) / 1e3
            if number + 1 == len(self._anchors):
                return anchor.host_s + after_s
            following = self._anchors[number + 1]
            between_s = anchor.event.elapsed_time(following.event) / 1e3
            if after_s < between_s:
                return anchor.host_s + after_s * (following.host_s - anchor.host_s) / between_s
            number += 1  # the device had so much to do before that it got there later

    def _new_anchor(self) -> _Anchor:
        """The one of several of which the host is surest: the event came between its two looks at the clock."""
        return min((self._tried() for _ in range(_TRIES)), key=lambda anchor: anchor.unsure_s)

    def _tried(self) -> _Anchor:
        before_s = self._clock()
        event = self._recorded(self._stream)
        event.synchronize()
        after_s = self._clock()
        return _Anchor(event, (before_s + after_s) / 2, (after_s - before_s) / 2)

    def _recorded(self, stream: Any) -> Any:
        event = self._cuda.Event(enable_timing=True)
        event.record(stream)
        return event
