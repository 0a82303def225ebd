"""What trials of this lesson's builds need around a call on ranks: a group, bytes that were sent, a quiet moment."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch.distributed as dist

from course_lib.cluster.base.rank import Rank
from course_lib.meter import Call

__all__ = ["group_of", "sent_in", "settled"]

_LOOKS, _PAUSE_S = 20, 0.01


@contextmanager
def group_of(members: Sequence[int], me: Rank) -> Iterator[Any]:
    """The group of these ranks; None where they are all. Every rank makes it."""
    group = None if len(members) == me.world_size else dist.new_group(list(members))
    yield group
    if group is not None and me.rank in members:
        dist.destroy_process_group(group)


def sent_in(calls: Sequence[Call]) -> int:
    """Bytes that these calls of a rank sent to others."""
    return sum(sum(call.sent_bytes.values()) for call in calls)


def settled(total: Callable[[], int], enough: int) -> int:
    """The least of a few looks: a thread of gloo may let go of a message a moment after the wait for it."""
    least = total()
    for _ in range(_LOOKS):
        if least <= enough:
            break
        gc.collect()
        time.sleep(_PAUSE_S)
        least = min(least, total())
    return least
