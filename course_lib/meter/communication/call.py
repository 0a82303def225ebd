"""One collective or message, as the meter saw it on one rank."""

from __future__ import annotations

from dataclasses import dataclass

from course_lib.cluster.base.failure import Frame
from course_lib.meter.clocks.spans import Span

__all__ = ["Call"]


@dataclass(frozen=True)
class Call:
    """``size_bytes`` is the rank's input buffer; ``sent_bytes`` what it put on the wire, by the receiver's global rank.

    ``end_s`` is when the result was there; None where no one could tell (a message nobody waited for; NCCL).
    """

    rank: int
    number: int  # counted from 1 on this rank
    operation: str  # "all_reduce", "send"
    group: tuple[int, ...]  # the global ranks that take part
    size_bytes: int
    sent_bytes: dict[int, int]
    num_messages: int
    start_s: float
    end_s: float | None
    hidden_s: float | None  # of its time, how long its thread computed meanwhile
    line: Frame | None  # of the user's code
    thread: str = "MainThread"
    operator: str = ""  # of c10d, where two of them are one operation: "recv_any_source_"
    group_name: str = ""  # tells groups of the same ranks apart
    peer: int | None = None  # of a message: the global rank at the other end; None for "whoever sends"
    tag: int = 0
    batch: int | None = None  # equal for the messages of one batch_isend_irecv
    waited_after: int | None = None  # how many calls the rank had begun when it waited for this one; None: never
    dtype: str = ""  # of the input, as "float32"
    only_on_gloo: bool = False  # begun at a place where another back end would not have it
    root: int | None = None  # of a broadcast, reduce, gather or scatter: the global rank it starts from or ends at
    waited_s: float | None = None  # when the rank began to wait for it; None: never, as far as Python saw
    is_construction: bool = False  # sent while a strategy was built, to compare what ranks were given

    @property
    def is_message(self) -> bool:
        """Whether it is one of two ranks, and no collective of a group."""
        return self.operation in ("send", "recv")

    def span(self, name: str = "") -> Span | None:
        """As a span of kind send, recv or collective, under ``name`` or else the operation's; None without an end."""
        if self.end_s is None:
            return None
        kind = self.operation if self.is_message else "collective"
        return Span(self.rank, name or self.operation, kind, self.start_s, self.end_s)

    @property
    def time_s(self) -> float | None:
        return None if self.end_s is None else self.end_s - self.start_s

    @property
    def exposed_s(self) -> float | None:
        return None if self.time_s is None or self.hidden_s is None else max(0.0, self.time_s - self.hidden_s)
