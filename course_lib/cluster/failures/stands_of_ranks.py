"""Makes ``RankStands`` of what ranks answered and of how they failed."""

from __future__ import annotations

from collections.abc import Mapping

from course_lib.cluster.base.failure import Failure
from course_lib.cluster.failures.hang_diagnosis import let_go, members_of, never_called
from course_lib.cluster.failures.rank_stands import WAITS, RankStand, RankStands
from course_lib.cluster.failures.rank_status import RankStatus
from course_lib.cluster.failures.unlike_tensors import is_too_large, is_too_large_in_a_collective

__all__ = ["stands_of"]


def stands_of(statuses: Mapping[int, RankStatus], failures: Mapping[int, Failure], first: Failure | None) -> RankStands:
    """The same of a failed call. ``first``: the failure that came first; None where ranks never ended."""
    ranks = {rank: RankStand(rank, "failed") for rank in failures}
    ranks |= {rank: _stand(status) for rank, status in statuses.items() if rank not in failures}
    too_large = "message" if any(map(is_too_large, failures.values())) else ""
    if first is not None and is_too_large_in_a_collective(first, statuses):
        too_large = "collective"
    return RankStands(
        tuple(ranks[rank] for rank in sorted(ranks)),
        never_called=frozenset(never_called(statuses) if first is None else ()),
        let_go=frozenset(rank for rank, _ in let_go(statuses)) if first is None else frozenset(),
        too_large=too_large,
    )


def _stand(status: RankStatus) -> RankStand:
    rank, message, operation = status.rank, status.message, status.operation
    if status.state == "running" and message is not None:
        call = "receive" if message.name == "irecv" else "send"
        return RankStand(rank, WAITS, call, peer=message.peer, shape=message.shape, dtype=message.dtype)
    if status.state == "running" and status.rendezvous:
        return RankStand(rank, WAITS, status.rendezvous)
    if operation is None:
        return RankStand(rank, _state(status))
    return RankStand(
        rank,
        _state(status),
        operation.name,
        operation.number,
        shape=operation.shapes[0] if operation.shapes else None,
        dtype=operation.dtypes[0] if operation.dtypes else "",
        members=members_of(status, operation),
    )


def _state(status: RankStatus) -> str:
    """As ``report.status_line`` has it: "waits", "unfinished", "runs", or what is no longer "running"."""
    if status.state != "running":
        return status.state
    if status.pending is None:
        return WAITS if status.is_in_wait else "runs"
    return WAITS if status.is_blocked else "unfinished"
