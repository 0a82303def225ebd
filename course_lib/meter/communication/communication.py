"""The communication meter: every collective and message of a run, with its bytes, its time and its line.

::

    run = metered(cluster, train)            # cluster.run(train), and what it sent
    print(run.communication)                 # totals by operation, the matrix, the busiest rank
    run.communication.sent_bytes(0)          # by rank 0, on the wire

Bytes on the wire follow from the operation and the algorithm (``wire_bytes``), which a test holds against the kernel's
own count. Times are the host's clock; *hidden* is the part of a call during which the thread that started it went on
computing, by that thread's own CPU clock, and *exposed* the part in which it waited.

Where a run builds a strategy as well as using it, the few bytes by which ranks compare what they were given are no part
of any step: they are counted apart, in ``run.communication.construction``.
"""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from course_lib.base.text import counted
from course_lib.cluster.api.cluster import Cluster
from course_lib.cluster.base.rank import Rank
from course_lib.cluster.failures.run import Run
from course_lib.meter.clocks.timeline import Timeline
from course_lib.meter.communication.call import Call
from course_lib.meter.communication.nccl_rules import Breach, nccl_breaches
from course_lib.meter.units import bytes_text, time_text

__all__ = ["Communication", "metered"]

_WIDTHS = (13, 10, 21, 10, 10)  # of the columns of a table, after the operation's name


@dataclass(frozen=True)
class Communication:
    """All calls of a run, by every rank; those by which strategies that are built compare ranks stand apart.

    ``nodes``: the node of each rank; empty where all are on one.
    """

    world_size: int
    calls: tuple[Call, ...]
    construction: tuple[Call, ...] = ()
    nodes: tuple[int, ...] = ()

    @classmethod
    def of_calls(cls, world_size: int, calls: Sequence[Call], nodes: Sequence[int] = ()) -> Communication:
        """Of all that was recorded, with the calls by which strategies compare ranks set apart."""
        return cls(
            world_size,
            tuple(call for call in calls if not call.is_construction),
            tuple(call for call in calls if call.is_construction),
            tuple(nodes) if len(set(nodes)) > 1 else (),
        )

    def of(self, rank: int | None = None, *, operation: str | Sequence[str] | None = None) -> Communication:
        """The calls of one rank, or of some operations."""
        names = (operation,) if isinstance(operation, str) else operation

        def kept(calls: Iterable[Call]) -> tuple[Call, ...]:
            return tuple(c for c in calls if rank in (None, c.rank) and (names is None or c.operation in names))

        return Communication(self.world_size, kept(self.calls), kept(self.construction), self.nodes)

    def sent_bytes(self, rank: int) -> int:
        """What one rank put on the wire."""
        return sum(sum(call.sent_bytes.values()) for call in self.calls if call.rank == rank)

    def received_bytes(self, rank: int) -> int:
        return sum(call.sent_bytes.get(rank, 0) for call in self.calls)

    @property
    def between_nodes_bytes(self) -> int:
        """What went from a node to another one, by all ranks; 0 where all are on one node."""
        if not self.nodes:
            return 0
        sent = [(call.rank, receiver, size) for call in self.calls for receiver, size in call.sent_bytes.items()]
        return sum(size for sender, receiver, size in sent if self.nodes[sender] != self.nodes[receiver])

    def num_messages(self, rank: int) -> int:
        """How many messages one rank sent, by the algorithm of each call."""
        return sum(call.num_messages for call in self.calls if call.rank == rank)

    @property
    def total_bytes(self) -> int:
        return sum(self.sent_bytes(rank) for rank in range(self.world_size))

    @property
    def busiest_bytes(self) -> int:
        """The most that any rank had to send or to receive: what a link per rank must carry."""
        ranks = range(self.world_size)
        return max((max(self.sent_bytes(rank), self.received_bytes(rank)) for rank in ranks), default=0)

    def matrix(self) -> list[list[int]]:
        """``matrix()[i][j]``: bytes from rank i to rank j."""
        table = [[0] * self.world_size for _ in range(self.world_size)]
        for call in self.calls:
            for receiver, size_bytes in call.sent_bytes.items():
                table[call.rank][receiver] += size_bytes
        return table

    def by_operation(self) -> dict[str, int]:
        """How often each operation was called, over all ranks."""
        return dict(sorted(Counter(call.operation for call in self.calls).items()))

    def hidden_s(self, rank: int) -> float:
        """Time in which ``rank`` communicated and computed at once."""
        return sum(call.hidden_s or 0.0 for call in self.calls if call.rank == rank)

    def exposed_s(self, rank: int) -> float:
        """Time in which ``rank`` communicated and did nothing else."""
        return sum(call.exposed_s or 0.0 for call in self.calls if call.rank == rank)

    def timeline(self) -> Timeline:
        """The calls as spans, to be drawn by ``gantt`` or joined with other spans by ``Timeline.join``.

        They are of kind send, receive or collective, under the operation's name. Calls without an end are left
        out.
        """
        timeline = Timeline()
        for call in self.calls:
            if span := call.span():
                timeline.add(span)
        return timeline

    def nccl_breaches(self, *, lazy_groups: bool = False) -> tuple[Breach, ...]:
        """What of these calls works here and would fail on NCCL; see ``nccl_rules``."""
        return nccl_breaches(self.calls, lazy_groups=lazy_groups)

    def table(self) -> str:
        """A line for each operation: calls, bytes of the busiest rank, hidden and exposed time of the slowest."""
        heads = ("calls a rank", "messages", "sent by the busiest", "hidden", "exposed")
        lines = ["operation".ljust(16) + "".join(head.rjust(width) for head, width in zip(heads, _WIDTHS, strict=True))]
        ranks = range(self.world_size)
        for name, count in self.by_operation().items():
            part = self.of(operation=name)
            cells = (
                f"{count / self.world_size:g}",
                str(max(map(part.num_messages, ranks))),
                bytes_text(max(map(part.sent_bytes, ranks))),
                _slowest_text(part, "hidden_s"),
                _slowest_text(part, "exposed_s"),
            )
            lines.append(name.ljust(16) + "".join(c.rjust(width) for c, width in zip(cells, _WIDTHS, strict=True)))
        return "\n".join(lines)

    def __str__(self) -> str:
        if not self.calls:
            return f"no communication{self._construction_text()}"
        total, busiest = bytes_text(self.total_bytes), bytes_text(self.busiest_bytes)
        warnings = "".join(f"\n{breach}." for breach in self.nccl_breaches())
        between = f"; between nodes {bytes_text(self.between_nodes_bytes)}" if self.nodes else ""
        return (
            f"{self.table()}\nin all {total}; the busiest rank {busiest}{between}{self._construction_text()}{warnings}"
        )

    def _construction_text(self) -> str:
        """A line where something was compared."""
        if not self.construction:
            return ""
        built = Communication(self.world_size, self.construction)
        most = max(map(built.num_messages, range(self.world_size)))
        return (
            f"\nbesides, to compare models while they are built: {counted(most, 'message')} a rank, "
            f"{bytes_text(built.total_bytes)} in all"
        )


def _slowest_text(part: Communication, name: str) -> str:
    """``hidden_s`` or ``exposed_s`` of the slowest rank; "-" where no clock could tell it of any call, as on NCCL."""
    if all(getattr(call, name) is None for call in part.calls):
        return "-"
    return time_text(max(map(getattr(part, name), range(part.world_size))))


def metered(cluster: Cluster, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Run:
    """``cluster.run(function, ...)`` with the meter on: ``run.communication`` holds what every rank sent."""
    run = cluster.run(functools.partial(_recorded, function), *args, **kwargs)
    results = {rank: result for rank, (result, *_) in run.results.items()}
    calls: list[Call] = [call for rank in run.ranks for call in run.results[rank][1]]
    nodes = [run.results[rank][2] for rank in run.ranks]
    communication = Communication.of_calls(cluster.world_size, calls, nodes)
    return dataclasses.replace(run, results=results, communication=communication)


def _recorded(function: Callable[..., Any], me: Rank, *args: Any, **kwargs: Any) -> tuple[Any, tuple[Call, ...], int]:
    """On the rank: call the function with a recorder on; its result, its calls, and the node of the rank."""
    from course_lib.meter.communication.recorder import Recorder

    with Recorder(me.rank) as recorder:
        result = function(me, *args, **kwargs)
    return result, recorder.calls, me.node
