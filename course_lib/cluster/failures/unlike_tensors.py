"""A process that gloo has ended, since more bytes came than it had room for: a message's, or a collective's."""

from __future__ import annotations

from collections.abc import Mapping

from course_lib.cluster.base.failure import Failure
from course_lib.cluster.failures.hang_diagnosis import members_of, numbered, payload
from course_lib.cluster.failures.rank_status import RankStatus

__all__ = ["NO_ROOM", "is_too_large", "is_too_large_in_a_collective", "unlike_tensors"]

NO_ROOM = "came for a receive"


def is_too_large(failure: Failure) -> bool:
    """Whether a process ended since more bytes came than it had room for."""
    return failure.kind == "died" and NO_ROOM in failure.message


def is_too_large_in_a_collective(first: Failure, others: Mapping[int, Failure | RankStatus]) -> bool:
    """Whether that was in a collective: others have called one, and nobody has begun a message.

    Then what came was a piece of the collective, and its size one of gloo's own.
    """
    return is_too_large(first) and bool(_calls(others)) and not _has_messages(others)


def _calls(others: Mapping[int, Failure | RankStatus]) -> dict[str, int]:
    """The collectives that ranks have called last, with what they handed in, and a rank of each."""
    statuses = [other for other in others.values() if isinstance(other, RankStatus)]
    return {numbered(s.operation, members_of(s, s.operation)) + payload(s.operation): s.rank
            for s in statuses if s.operation is not None and not s.operation.is_message}  # fmt: skip


def _has_messages(others: Mapping[int, Failure | RankStatus]) -> bool:
    statuses = [other for other in others.values() if isinstance(other, RankStatus)]
    return any(s.message or (s.accounts and (s.accounts.sent or s.accounts.posted)) for s in statuses)


def unlike_tensors(first: Failure, others: Mapping[int, Failure | RankStatus]) -> str:
    """What is said of a process that ended since a collective sent it more than it had room for; empty for others."""
    if not is_too_large_in_a_collective(first, others):
        return ""
    call, rank = next(iter(_calls(others).items()))
    return (
        "is gone: in a collective it was sent more than its tensor has room for, which ends a process under gloo. The "
        f"last call of rank {rank} was {call}. Do all ranks make the same call, with tensors of the same shape and "
        "dtype?"
    )
