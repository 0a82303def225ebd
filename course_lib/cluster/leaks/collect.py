"""Leak report of one rank after a call: operations never waited for, open groups, threads, changed switches."""

from __future__ import annotations

import sys
import threading
import time
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from course_lib.cluster.base.failure import is_user_code
from course_lib.cluster.base.open_groups import groups_here, ranks_of
from course_lib.cluster.failures.flight_recorder import entries_since
from course_lib.cluster.hooks.op_tracker import OpTracker
from course_lib.cluster.hooks.pending_ops import Channel, PendingOp

__all__ = ["LeakCollector", "RankLeaks"]


@dataclass(frozen=True)
class RankLeaks:
    """``RankLeaks()`` is nothing at all."""

    is_member: bool = True  # still in the process group that the cluster has made
    is_restored: bool = True  # False: something in the process could not be put back
    restored: tuple[str, ...] = ()  # "left gradients switched off"
    messages: tuple[PendingOp, ...] = ()  # that nobody has waited for
    collectives: tuple[PendingOp, ...] = ()  # under way
    failed: tuple[PendingOp, ...] = ()  # raised in a wait, and the function went on
    threads: tuple[str, ...] = ()  # of the function, still running
    counts: Mapping[str, int] = field(default_factory=dict)  # collectives of the call, by group
    groups: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # beside the default one: its ranks
    num_made: int = 0  # times that new_group was called by all, in the life of the default group
    next_number: int = 0  # of the next group; it is past the above where members alone have made groups
    sent: Mapping[Channel, int] = field(default_factory=dict)
    received: Mapping[Channel, int] = field(default_factory=dict)

    @property
    def is_nothing(self) -> bool:
        """Nothing that this rank alone could tell; ranks that say the same have left nothing."""
        left = (self.restored, self.messages, self.collectives, self.failed, self.threads)
        return self.is_member and self.is_restored and not any(left)


class LeakCollector:
    """In the rank: looks around after each call."""

    def __init__(self, tracker: OpTracker) -> None:
        self._tracker = tracker
        self._began_ns = time.time_ns()
        self._world: Any = None  # weak reference to the group that the cluster has made
        self._threads: set[int] = set()  # by their ids

    def remember_world(self) -> None:
        """The rank has joined: this default group is the one to be in."""
        import torch.distributed as dist

        self._world = weakref.ref(dist.group.WORLD) if dist.is_initialized() else None

    def begin(self) -> None:
        """A call begins."""
        self._tracker.open_page()
        self._began_ns = time.time_ns()

    def gather_any(self, **how: Any) -> RankLeaks | None:
        """``gather``, with None for nothing at all: the usual answer is then a small message."""
        leaks = self.gather(**how)
        return None if leaks == _NOTHING else leaks

    def gather(
        self, *, own_group: bool, with_threads: bool, restored: tuple[str, ...] = (), is_restored: bool = True
    ) -> RankLeaks:
        """What is left. ``own_group``: the function makes its process group itself, so none has to be there."""
        tracker = self._tracker
        groups = groups_here()
        page, counts = tracker.page, {name: count for name, count in tracker.counts(groups).items() if count}
        leaks = RankLeaks(
            is_restored=is_restored,
            restored=restored,
            is_member=own_group or self._is_member(),
            threads=tuple(self._users_threads()) if with_threads else (),
            groups={name: ranks_of(group) for name, group in groups if group is not _default_group()},
            num_made=tracker.names.num_made,
            next_number=tracker.names.next if tracker.names.num_local_groups else 0,
        )
        if not counts and not page.is_used:
            return leaks
        if tracker.is_settled(counts):  # whatever was begun has been waited for
            leaks = replace(leaks, counts=counts)
            return replace(leaks, sent=dict(page.sent), received=dict(page.received)) if page.numbers else leaks
        return replace(
            leaks,
            messages=tracker.open_messages(),
            collectives=self._collectives(),
            failed=tracker.failed(),
            counts=counts,
            sent=dict(page.sent),
            received=dict(page.received),
        )

    def keep_threads(self) -> None:
        """The threads that run now may go on: those of the library, and those of cells."""
        if threading.active_count() != len(self._threads):
            self._threads = {id(thread) for thread in threading.enumerate()}

    def settle(self, limit_s: float) -> None:
        """Give what will end by itself the time to do so."""
        deadline = time.monotonic() + limit_s
        while (self._collectives() or any(self._users_threads())) and time.monotonic() < deadline:
            time.sleep(0.005)

    def _is_member(self) -> bool:
        world = _default_group()
        return world is not None and self._world is not None and self._world() is world

    def _collectives(self) -> tuple[PendingOp, ...]:
        """By our own account; the flight recorder is asked only for what we cannot know, since it takes 2 ms."""
        entries, dropped, is_unsure = self._tracker.open_collectives()
        found = {(entry.group_name, entry.number): entry.snapshot() for entry in entries}
        if is_unsure:
            lines = {(entry.group_name, entry.number): entry.snapshot().where for entry in dropped}
            ranks = {name: ranks_of(group) for name, group in groups_here()}
            for operation in entries_since(self._began_ns, self._tracker.before):
                key = (operation.group, operation.number)
                if not operation.is_done and not operation.is_message and key not in found:
                    found[key] = PendingOp(operation.name, *key[::-1], ranks.get(operation.group, ()), lines.get(key))
        return tuple(found.values())

    def _users_threads(self) -> list[str]:
        """Threads that this call has started, whose function a person wrote, and that still run."""
        if threading.active_count() <= len(self._threads):
            return []
        new = [thread for thread in threading.enumerate() if id(thread) not in self._threads]
        return [thread.name for thread in new if thread.is_alive() and _is_users(thread)]


_NOTHING = RankLeaks()


def _is_users(thread: threading.Thread) -> bool:
    function = getattr(thread, "_target", None) or type(thread).run
    code = getattr(function, "__code__", None)
    return code is not None and is_user_code(code.co_filename)


def _default_group() -> Any:
    c10d = sys.modules.get("torch.distributed.distributed_c10d")
    return None if c10d is None else c10d._world.default_pg
