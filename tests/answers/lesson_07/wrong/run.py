"""07.run: wrong answers, by the name of the mistake that each makes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch.distributed as dist
from torch import Tensor, nn

from course_lib.cluster.base.point_to_point import exchange, recv, send


def _peers(me: Any, kind: str) -> tuple[int, int]:
    """The rank that an action hears from, and the one that hears of it."""
    return (me.rank - 1, me.rank + 1) if kind == "F" else (me.rank + 1, me.rank - 1)


def _is_there(me: Any, rank: int) -> bool:
    return 0 <= rank < me.world_size


def _one_by_one(
    me: Any,
    row: Sequence[str],
    stage: Any,
    pass_on: Callable[[Tensor, int], Any],
    room: Callable[[], Tensor],
) -> list[Any]:
    works = []
    for action in row:
        kind, i = action[0], int(action[1:])
        before, after = _peers(me, kind)
        arrived = None
        if _is_there(me, before):
            arrived = room()
            dist.recv(arrived, before)
        made = (stage.forward if kind == "F" else stage.backward)(i, arrived)
        if _is_there(me, after):
            works.append(pass_on(made.contiguous(), after))
    return works


def in_turn(me: Any, row: list[str], stage: Any) -> None:
    _one_by_one(me, row, stage, dist.send, stage.room)


def never_waits(me: Any, row: list[str], stage: Any) -> None:
    _one_by_one(me, row, stage, dist.isend, stage.room)


def forwards_first(me: Any, row: list[str], stage: Any) -> None:
    _together(me, sorted(row, key=lambda action: (action[0] == "B", int(action[1:]))), stage)


def counts_up(me: Any, row: list[str], stage: Any) -> None:
    """The next forward and the next backward, whatever number the row gives them."""
    done = {"F": 0, "B": 0}
    counted = []
    for action in row:
        counted.append(f"{action[0]}{done[action[0]]}")
        done[action[0]] += 1
    _together(me, counted, stage)


def even_and_odd(me: Any, row: list[str], stage: Any) -> None:
    """One message at a time: even ranks send what they made and then receive, odd ones the other way round."""
    going: list[Any] = []
    for action in row:
        kind, i = action[0], int(action[1:])
        before, after = _peers(me, kind)
        arrived = stage.room() if _is_there(me, before) else None
        coming = [] if arrived is None else [recv(arrived, before)]
        for messages in (coming, going) if me.rank % 2 else (going, coming):
            exchange(messages)
        made = (stage.forward if kind == "F" else stage.backward)(i, arrived)
        going = [send(made.contiguous(), after)] if _is_there(me, after) else []
    exchange(going)


def one_room(me: Any, row: list[str], stage: Any) -> None:
    room = stage.room()
    works = _one_by_one(me, row, stage, dist.isend, lambda: room)
    for work in works:
        work.wait()


def without_messages(me: Any, row: list[str], stage: Any) -> None:
    for action in row:
        run = stage.forward if action[0] == "F" else stage.backward
        run(int(action[1:]), stage.room().zero_())


def forgets_the_last(me: Any, row: list[str], stage: Any) -> None:
    _together(me, row, stage, flushes=False)


def _together(me: Any, row: Sequence[str], stage: Any, *, flushes: bool = True) -> None:
    going: list[Any] = []
    for action in row:
        kind, i = action[0], int(action[1:])
        before, after = _peers(me, kind)
        arrived = stage.room() if _is_there(me, before) else None
        exchange(going + ([] if arrived is None else [recv(arrived, before)]))
        made = (stage.forward if kind == "F" else stage.backward)(i, arrived)
        going = [send(made.contiguous(), after)] if _is_there(me, after) else []
    if flushes:
        exchange(going)


def until_the_next_receive(me: Any, row: list[str], stage: Any) -> None:
    """What was made goes out with the next receive, and not with the next action."""
    held: list[Any] = []
    for action in row:
        kind, i = action[0], int(action[1:])
        before, after = _peers(me, kind)
        arrived = stage.room() if _is_there(me, before) else None
        if arrived is not None:
            exchange([*held, recv(arrived, before)])
            held = []
        made = (stage.forward if kind == "F" else stage.backward)(i, arrived)
        if _is_there(me, after):
            held.append(send(made.contiguous(), after))
    exchange(held)


def by_the_course(me: Any, row: list[str], stage: Any) -> None:
    from course_lib.parallel import pipeline
    from course_lib.schedules import gpipe

    stages = [nn.Identity() for _ in range(me.world_size)]
    pipeline.Pipeline(me, stages, gpipe(me.world_size, 2), nn.functional.mse_loss)


EXERCISE = "07.run"
EXAMPLES: dict[str, Any] = {
    "they-cross": in_turn,
    "all-forwards-first": forwards_first,
    "other-numbers": counts_up,
    "receive-before-send": even_and_odd,
    "one-room": one_room,
    "held-back": until_the_next_receive,
    "nothing-travels": without_messages,
    "nobody-waited": never_waits,
    "the-last-message": forgets_the_last,
}


FORBIDDEN = by_the_course
