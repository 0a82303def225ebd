"""07.run: the loop over a row. A pipeline is one only if what an action has made sets out before the next begins."""

from __future__ import annotations

from answer_table import Row

from course_lib.cluster import exchange, recv, send


def neighbours(me, kind):
    return (me.rank - 1, me.rank + 1) if kind == "F" else (me.rank + 1, me.rank - 1)


def holds_sends_until_the_next_receive(me, row, stage):
    held = []
    for action in row:
        kind, i = action[0], int(action[1:])
        before, after = neighbours(me, kind)
        arrived = None
        if 0 <= before < me.world_size:
            arrived = stage.room()
            exchange([*held, recv(arrived, before)])
            held = []
        made = stage.forward(i, arrived) if kind == "F" else stage.backward(i, arrived)
        if 0 <= after < me.world_size:
            held.append(send(made, after))
    exchange(held)


def sends_one_action_later(me, row, stage):
    going, made_last = [], []
    for action in row:
        kind, i = action[0], int(action[1:])
        before, after = neighbours(me, kind)
        arrived = stage.room() if 0 <= before < me.world_size else None
        exchange(going if arrived is None else [*going, recv(arrived, before)])
        going, made_last = made_last, []
        made = stage.forward(i, arrived) if kind == "F" else stage.backward(i, arrived)
        if 0 <= after < me.world_size:
            made_last = [send(made, after)]
    exchange([*going, *made_last])


def empties_the_row(me, row, stage):
    going = []
    for action in list(row):
        kind, i = action[0], int(action[1:])
        before, after = neighbours(me, kind)
        arrived = stage.room() if 0 <= before < me.world_size else None
        exchange(going if arrived is None else [*going, recv(arrived, before)])
        made = stage.forward(i, arrived) if kind == "F" else stage.backward(i, arrived)
        going = [send(made, after)] if 0 <= after < me.world_size else []
    exchange(going)
    row.clear()


def a_room_for_each_way(me, row, stage):
    rooms = {"F": stage.room(), "B": stage.room()}
    going = []
    for action in row:
        kind, i = action[0], int(action[1:])
        before, after = neighbours(me, kind)
        arrived = rooms[kind] if 0 <= before < me.world_size else None
        exchange(going if arrived is None else [*going, recv(arrived, before)])
        made = stage.forward(i, arrived) if kind == "F" else stage.backward(i, arrived)
        going = [send(made, after)] if 0 <= after < me.world_size else []
    exchange(going)


def sends_at_once_and_waits_later(me, row, stage):
    """Each message by itself, as soon as it is made."""
    import torch.distributed as dist

    works = []
    for action in row:
        kind, i = action[0], int(action[1:])
        before, after = neighbours(me, kind)
        arrived = None
        if 0 <= before < me.world_size:
            arrived = stage.room()
            dist.irecv(arrived, before).wait()
        made = stage.forward(i, arrived) if kind == "F" else stage.backward(i, arrived)
        if 0 <= after < me.world_size:
            works.append((dist.isend(made, after), made))
    for work, _ in works:
        work.wait()


ROWS = [
    Row(answer=sends_at_once_and_waits_later, verdict="passed", why="nothing is held back"),
    Row(
        answer=holds_sends_until_the_next_receive,
        verdict="not yet",
        mistake="held-back",
        why="under GPipe the second rank begins when the first has run all its forwards: no pipeline",
        words=("F0", "F1"),
    ),
    Row(
        answer=sends_one_action_later,
        verdict="raised",
        why="the next rank waits for an output that is in hand: under 1F1B both wait",
    ),
    Row(answer=empties_the_row, verdict="not yet", why="the row is the caller's", words=("row",)),
    Row(
        answer=a_room_for_each_way,
        verdict="not yet",
        mistake="one-room",
        why="two rooms, each of which several micro-batches share",
        unsaid=("one and the same tensor",),
    ),
]
