"""The names that ``new_group`` gives, by which the ranks of a group find each other.

A name is the number of groups before it, so the ranks must agree on that number. From torch 2.14 on a group that its
members make alone (``use_local_synchronization=True``) moves the number too, and on the members alone: the next group
of all then has two names, and its ranks wait for each other for ever. Within a call that is PyTorch's to bear;
between calls the ranks are told a number from which none of them has named a group yet.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

__all__ = ["GroupNames"]


class GroupNames:
    """Those of this rank, heard for the life of the process."""

    def __init__(self) -> None:
        self.made: dict[str, tuple[int, ...]] = {}  # groups asked of new_group, by name, oldest first
        self.num_local_groups = 0  # groups that have moved the number on their members alone

    @property
    def num_made(self) -> int:
        """Times that a ``new_group`` of all was called, in the life of the default group, which counts as one."""
        return max(0, _number() - self.num_local_groups - 1)

    @property
    def next(self) -> int:
        """The number of the next group."""
        return _number()

    def go_on_from(self, number: int) -> None:
        """Name the next group by this number, for which the ranks have come together."""
        world = _world()
        if world is not None and 0 < world.group_count < number:  # 0: there is no default group
            self.num_local_groups += number - world.group_count
            world.group_count = number

    def hooked(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        """``new_group`` asks for a name first."""

        @functools.wraps(plain)
        def name_of(ranks: Any, use_hashed_name: bool, *args: Any, **kwargs: Any) -> Any:
            before = _number()
            if before == 0:  # a default group begins, and all numbers anew
                self.num_local_groups = 0
            name = plain(ranks, use_hashed_name, *args, **kwargs)
            if use_hashed_name:
                self.num_local_groups += _number() - before  # 0 up to torch 2.13
            self.made.pop(str(name), None)
            self.made[str(name)] = tuple(ranks)
            return name

        return name_of


def _world() -> Any:
    c10d = sys.modules.get("torch.distributed.distributed_c10d")
    return None if c10d is None else c10d._world


def _number() -> int:
    world = _world()
    return 0 if world is None else world.group_count
