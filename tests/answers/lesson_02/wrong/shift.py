"""02.shift: wrong answers, by the name of the mistake that each makes."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from course_lib.cluster.base.point_to_point import exchange, recv, send
from course_lib.learn.exercises.lesson_02.shift import _right


def _receives_over_its_own(me: Any, mine: torch.Tensor) -> torch.Tensor:
    mine.zero_()  # as where the other's message comes first, which is left to chance
    return _right(me, mine)


def _sends_first(me: Any, mine: torch.Tensor) -> torch.Tensor:
    theirs = torch.empty_like(mine)
    exchange([send(mine, (me.rank + 1) % me.world_size)])
    exchange([recv(theirs, (me.rank - 1) % me.world_size)])
    return theirs


def _asks_everybody(me: Any, mine: torch.Tensor) -> torch.Tensor:
    everything = [torch.empty_like(mine) for _ in range(me.world_size)]
    dist.all_gather(everything, mine)
    return everything[me.rank - 1]


def _receives_first(me: Any, mine: torch.Tensor) -> torch.Tensor:
    theirs = torch.empty_like(mine)
    exchange([recv(theirs, (me.rank - 1) % me.world_size)])
    exchange([send(mine, (me.rank + 1) % me.world_size)])
    return theirs


EXERCISE = "02.shift"
EXAMPLES: dict[str, Any] = {
    "receives-over-its-own": _receives_over_its_own,
    "still-waits": _sends_first,
    "still-waits-to-receive": _receives_first,
    "asks-everybody": _asks_everybody,
}
