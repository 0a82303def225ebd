"""Tracker of operations: every message and collective that Python starts on this rank, from its start to its wait.

All of ``torch.distributed`` calls the methods of ``ProcessGroup`` and waits by ``Work.wait``; both are heard here, for
the life of the rank. Nothing is kept alive: a ``Work`` is held by a weak reference, so that memory is what it would be
without us. gloo tells nobody but the waiter that a message has come, and PyTorch's flight recorder leaves gloo's
messages out: for them this is the only record. What C++ starts by itself (DDP's buckets, functional collectives) is
only counted, by the number that each group keeps of its calls.

Listens on gloo alone. NCCL's messages are started in batches, and waited for by one ``Work`` that stands for all.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from course_lib.cluster.base.group_names import GroupNames
from course_lib.cluster.base.open_groups import groups_here, ranks_of
from course_lib.cluster.hooks.pending_ops import (
    COLLECTIVES,
    MESSAGES,
    CallAccount,
    OpRecord,
    PendingOp,
    need_peer,
    user_frame,
)

__all__ = ["OpTracker", "mark_done", "unwaited_here"]

_SWEEP_AT = 256  # open entries; more than anybody has under way, so most of them are done


class OpTracker:
    """Everything begun on this rank since ``open_page``; a subscriber of ``comm_hooks``."""

    def __init__(self) -> None:
        self.page = CallAccount()
        self.names = GroupNames()
        self._open: dict[int, OpRecord] = {}  # by the id of the Work, or of the entry where that is gone
        self._waiting: dict[int, list[OpRecord | None]] = {}  # by thread: what it waits for; None is unknown
        self._messages: Any = weakref.WeakKeyDictionary()  # by group, in all calls: its own count has them
        self._before: dict[str, int] = {}  # by group: its collectives before this page
        self._is_gloo: Any = weakref.WeakKeyDictionary()  # by group
        self._has_swept = False

    # -- listening -----------------------------------------------------------------------------------------------

    def install(self) -> None:
        """From now on, for the life of the process."""
        import torch.distributed.distributed_c10d as c10d
        from torch._C._distributed_c10d import ProcessGroup, Work
        from torch._dynamo import trace_rules

        from course_lib.cluster.hooks import comm_hooks

        global _mark, _here
        for method in (*MESSAGES, *COLLECTIVES):
            plain = getattr(ProcessGroup, method, None)  # a torch of another age lacks some
            if plain is not None:
                setattr(ProcessGroup, method, self._hooked(method, plain))
        c10d._process_group_name = self.names.hooked(c10d._process_group_name)
        comm_hooks.subscribe_waits(self)
        Work.is_completed = self._hooked_is_completed(Work.is_completed)  # type: ignore[method-assign]
        Work.get_future = self._hooked_get_future(Work.get_future)  # type: ignore[method-assign]
        _mark, _here = self._mark_done, self
        trace_rules.add("course_lib.cluster")  # a compiler does not look into what has effects

    def _hooked(self, method: str, plain: Callable[..., Any]) -> Callable[..., Any]:
        begin = self._begin_message if method in MESSAGES else self._begin_collective

        @functools.wraps(plain)
        def call(group: Any, *args: Any, **kwargs: Any) -> Any:
            need_peer(method, group, args)
            work = plain(group, *args, **kwargs)
            if work is not None and self._is_tracked(group):
                begin(method, group, args, work)
            return work

        return call

    def wait_started(self, work: Any) -> OpRecord | None:
        entry = self._open.get(id(work))
        self._waiting.setdefault(threading.get_ident(), []).append(entry)
        return entry

    def wait_ended(self, work: Any, started: OpRecord | None, error: BaseException | None) -> None:
        if stack := self._waiting.get(threading.get_ident()):
            stack.pop()
        if started is None:
            return
        if error is not None:
            started.has_failed = True
            self.page.is_used = True
            self.page.failed.append(started)
        self._finish(work, started)

    def _hooked_is_completed(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        """Whoever has seen that a ``Work`` is done need not wait for it."""

        @functools.wraps(plain)
        def is_completed(work: Any) -> bool:
            is_done = bool(plain(work))
            if is_done:
                self._mark_done(work)
            return is_done

        return is_completed

    def _hooked_get_future(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        """Whoever takes the future of a ``Work`` waits by that, which nobody hears."""

        @functools.wraps(plain)
        def get_future(work: Any) -> Any:
            entry = self._open.get(id(work))
            if entry is not None:
                entry.has_future = True
            return plain(work)

        return get_future

    def _is_tracked(self, group: Any) -> bool:
        known = self._is_gloo.get(group)
        if known is None:
            import torch.distributed as dist

            known = self._is_gloo[group] = "gloo" in str(dist.get_backend(group))
        return known

    def _begin_message(self, method: str, group: Any, args: tuple[Any, ...], work: Any) -> None:
        page, name, group_name = self.page, MESSAGES[method], group.group_name
        page.is_used = True
        page.numbers[name] += 1
        self._messages[group] = self._messages.get(group, 0) + 1
        tensor, tag = args[0][0], int(args[-1])
        entry = self._entry(name, page.numbers[name], group, work)
        entry.is_message, entry.tag = True, tag
        entry.shape, entry.dtype = tuple(tensor.shape), str(tensor.dtype).removeprefix("torch.")
        if method == "recv_anysource":
            page.posted_any[group_name, tag] += 1
            return
        ranks = ranks_of(group)
        me, entry.peer = ranks[group.rank()], ranks[int(args[1])]
        if method == "send":
            channel = (group_name, me, entry.peer, tag)
            page.sent[channel] += 1
            entry.seq = page.sent[channel]
        else:
            channel = (group_name, entry.peer, me, tag)
            page.posted[channel] += 1
            entry.seq = page.posted[channel]

    def _begin_collective(self, method: str, group: Any, args: tuple[Any, ...], work: Any) -> None:
        self.page.is_used = True
        self.page.started[group.group_name] += 1
        self._entry(COLLECTIVES[method], self._count(group), group, work)

    def _entry(self, name: str, number: int, group: Any, work: Any) -> OpRecord:
        entry = OpRecord(name, number, weakref.ref(group), group.group_name, user_frame())
        key = id(work)
        entry.work = weakref.ref(work, lambda _: self._on_dropped(key, entry))
        if len(self._open) >= _SWEEP_AT:
            self._sweep()
        self._open[key] = entry
        return entry

    def _on_dropped(self, key: int, entry: OpRecord) -> None:
        """The caller has forgotten a ``Work``: its id may be given to another, so the entry moves to its own."""
        if self._open.get(key) is entry:
            del self._open[key]
            self._open[id(entry)] = entry

    def _finish(self, work: Any, entry: OpRecord) -> None:
        if self._open.get(id(work)) is not entry:
            return  # somebody has waited before
        del self._open[id(work)]
        if entry.name == "irecv":
            page, group = self.page, entry.group()
            if entry.seq == 0:
                page.posted_any[entry.group_name, entry.tag] -= 1
                if entry.has_failed or group is None:
                    return
                ranks = ranks_of(group)
                entry.peer = ranks[work._source_rank()]
                channel = (entry.group_name, entry.peer, ranks[group.rank()], entry.tag)
                page.posted[channel] += 1
                page.received[channel] += 1
            elif group is not None:
                page.received[entry.group_name, entry.peer or 0, ranks_of(group)[group.rank()], entry.tag] += 1

    def _mark_done(self, work: Any) -> None:
        entry = self._open.get(id(work))
        if entry is not None:
            self._finish(work, entry)

    def _sweep(self) -> None:
        self._has_swept = True
        for key, entry in list(self._open.items()):
            if not entry.is_message and entry.is_done() is not False:
                self._open.pop(key, None)  # of one that was let go the flight recorder knows more

    # -- reading -------------------------------------------------------------------------------------------------

    def open_page(self) -> None:
        """A call begins: count from here, and forget what is over."""
        if self.page.is_used:
            self.page = CallAccount()
        self._open, self._has_swept = {}, False
        self._waiting.pop(threading.get_ident(), None)  # an interrupt may have cut short what ends a wait
        self._before = {name: self._total(group) for name, group in groups_here()}

    def counts(self, groups: list[tuple[str, Any]] | None = None) -> dict[str, int]:
        """By group, the collectives that this rank has begun in this call, those that C++ started included."""
        groups = groups_here() if groups is None else groups
        return {name: self._total(group) - self._before.get(name, 0) for name, group in groups}

    def before(self, group_name: str) -> int:
        return self._before.get(group_name, 0)

    def waits_for(self, thread: int) -> tuple[bool, PendingOp | None]:
        """Whether a thread is inside ``Work.wait``, and for what."""
        stack = list(self._waiting.get(thread, ()))
        known = [entry for entry in stack if entry is not None]
        return bool(stack), known[-1].snapshot() if known else None

    def dropped(self) -> tuple[PendingOp, ...]:
        """Messages whose ``Work`` was forgotten before anybody had waited."""
        known = [entry.snapshot() for entry in self._entries() if entry.is_message and entry.work() is None]
        return tuple(known)  # asked from another thread, as _stack_of says

    def unwaited(self) -> tuple[PendingOp, ...]:
        """Everything begun in this call that nobody has waited for, over or not, but for what has a future."""
        return tuple(entry.snapshot() for entry in self._entries() if not entry.has_future)

    def open_messages(self) -> tuple[PendingOp, ...]:
        return tuple(entry.snapshot() for entry in self._entries() if entry.is_message and not entry.is_done())

    def is_settled(self, counts: dict[str, int]) -> bool:
        """Whether nothing is open, and nothing was begun but by Python."""
        page = self.page
        return not (self._open or self._has_swept or page.failed) and all(
            count <= page.started[name] for name, count in counts.items()
        )

    def open_collectives(self) -> tuple[list[OpRecord], list[OpRecord], bool]:
        """Those that are surely in flight, those that were let go, and whether only the flight recorder knows all."""
        entries = [entry for entry in self._entries() if not entry.is_message]
        by_cpp = any(count > self.page.started[name] for name, count in self.counts().items())
        dropped = [entry for entry in entries if entry.is_done() is None]
        is_unsure = self._has_swept or by_cpp or bool(dropped)
        return [entry for entry in entries if entry.is_done() is False], dropped, is_unsure

    def failed(self) -> tuple[PendingOp, ...]:
        return tuple(entry.snapshot() for entry in self.page.failed)

    def _entries(self) -> Iterator[OpRecord]:
        return iter(list(self._open.values()))

    def _count(self, group: Any) -> int:
        return self._total(group) - self._before.get(group.group_name, 0)

    def _total(self, group: Any) -> int:
        try:
            return group._get_sequence_number_for_group() - self._messages.get(group, 0)
        except (RuntimeError, AttributeError):  # not every back end counts
            return 0


def mark_done(work: Any) -> None:
    """For a ``Work`` with a wait of its own, that nobody hears: it is over."""
    if _mark is not None:
        _mark(work)


def unwaited_here() -> tuple[PendingOp, ...]:
    """What this rank has begun in the present call and never waited for, over or not; nothing outside of a rank."""
    return () if _here is None else _here.unwaited()


_mark: Callable[[Any], None] | None = None
_here: OpTracker | None = None  # of this rank
