"""A pending operation: one message or collective that a rank has started; and the account of one call."""

from __future__ import annotations

import functools
import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from course_lib.cluster.base.failure import Frame, is_user_code
from course_lib.cluster.base.open_groups import ranks_of

__all__ = [
    "COLLECTIVES",
    "MESSAGES",
    "CallAccount",
    "Channel",
    "OpRecord",
    "PendingOp",
    "need_peer",
    "user_frame",
]

Channel = tuple[str, int, int, int]  # group, sender, receiver (ranks of the whole job), tag

# Methods of ``ProcessGroup``, and what the operation is called.
MESSAGES = {"send": "isend", "recv": "irecv", "recv_anysource": "irecv"}
COLLECTIVES = {
    "all_gather_single": "all_gather",
    "all_gather_single_coalesced": "all_gather",
    "all_to_all_single": "all_to_all",
    "allgather": "all_gather",
    "_allgather_base": "all_gather",
    "allgather_coalesced": "all_gather",
    "allgather_into_tensor_coalesced": "all_gather",
    "allreduce": "all_reduce",
    "allreduce_coalesced": "all_reduce",
    "alltoall": "all_to_all",
    "alltoall_base": "all_to_all",
    "barrier": "barrier",
    "broadcast": "broadcast",
    "gather": "gather",
    "reduce": "reduce",
    "reduce_scatter": "reduce_scatter",
    "_reduce_scatter_base": "reduce_scatter",
    "reduce_scatter_single": "reduce_scatter",
    "reduce_scatter_single_coalesced": "reduce_scatter",
    "reduce_scatter_tensor_coalesced": "reduce_scatter",
    "scatter": "scatter",
}

_is_user_code = functools.lru_cache(maxsize=1024)(is_user_code)


@dataclass(frozen=True)
class PendingOp:
    """A message or a collective that this rank has started, as told to others."""

    name: str  # "isend", "irecv", "all_reduce"
    number: int  # of a message: among those of its name in this call; of a collective: in its group, in this call
    group: str
    ranks: tuple[int, ...]  # of the group
    where: Frame | None  # the line of the user that started it
    is_message: bool = False
    peer: int | None = None  # the other end of a message; None for "from anyone"
    tag: int = 0
    seq: int = 0  # of a message: the how-many-th of its channel; 0 from anyone
    shape: tuple[int, ...] = ()
    dtype: str = ""


@dataclass(eq=False)
class OpRecord:
    """A ``PendingOp`` in the making: only what costs nothing to note."""

    name: str
    number: int
    group: Any  # weak reference to the ProcessGroup
    group_name: str
    frame: tuple[str, int, str]
    work: Any = None  # weak reference
    peer: int | None = None
    tag: int = 0
    seq: int = 0
    shape: tuple[int, ...] = ()
    dtype: str = ""
    is_message: bool = False
    has_failed: bool = False
    has_future: bool = False  # somebody took it, and may wait by that

    def is_done(self) -> bool | None:
        """None where nobody can say: the caller has let the ``Work`` go."""
        work = self.work()
        if work is None:
            return None
        is_completed = type(work).is_completed
        while hasattr(is_completed, "__wrapped__"):  # not as a learner looks, which is heard
            is_completed = is_completed.__wrapped__
        return bool(is_completed(work))

    def snapshot(self) -> PendingOp:
        filename, line_number, function = self.frame
        where = Frame(filename, line_number, function) if filename else None
        return PendingOp(
            self.name, self.number, self.group_name, ranks_of(self.group()), where,
            self.is_message, self.peer, self.tag, self.seq, self.shape, self.dtype,
        )  # fmt: skip


@dataclass
class CallAccount:
    """One call's account."""

    numbers: Counter[str] = field(default_factory=Counter)  # messages so far, by name
    started: Counter[str] = field(default_factory=Counter)  # collectives that Python has started, by group
    sent: Counter[Channel] = field(default_factory=Counter)
    posted: Counter[Channel] = field(default_factory=Counter)  # receives
    received: Counter[Channel] = field(default_factory=Counter)  # receives that are over
    posted_any: Counter[tuple[str, int]] = field(default_factory=Counter)  # open ones from anyone, by group and tag
    failed: list[OpRecord] = field(default_factory=list)
    is_used: bool = False


def need_peer(method: str, group: Any, args: tuple[Any, ...]) -> None:
    """Refuse a message to or from a rank that is not there: gloo would wait for it for ever.

    Nor does gloo carry one from a rank to itself; its own error names no rank. ``args`` are those of
    ``ProcessGroup.send`` or ``recv``: the tensors, the place in the group, the tag. Raises ``ValueError``.
    """
    if method not in ("send", "recv") or not isinstance(args[1], int):
        return
    is_own = args[1] == group.rank() and group.name() == "gloo"
    if 0 <= args[1] < group.size() and not is_own:
        return
    verb, last = "sends to" if method == "send" else "receives from", group.size() - 1
    ranks = ranks_of(group)
    me = ranks[group.rank()]
    if is_own:
        raise ValueError(f"rank {me} {verb} itself, and gloo carries no such message; copy the tensor instead")
    if ranks == tuple(range(len(ranks))):
        raise ValueError(f"rank {me} {verb} rank {args[1]}, which does not exist: there are ranks 0 to {last}")
    raise ValueError(f"rank {me} {verb} place {args[1]} of a group, which does not exist: there are places 0 to {last}")


def user_frame() -> tuple[str, int, str]:
    """The line of the user's own code that leads here."""
    frame: Any = sys._getframe(3)
    while frame is not None:
        code = frame.f_code
        if _is_user_code(code.co_filename):
            return code.co_filename, frame.f_lineno, code.co_name
        frame = frame.f_back
    return "", 0, ""
