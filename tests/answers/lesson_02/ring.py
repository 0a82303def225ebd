"""02.ring: an all-reduce around a ring, in the tensor's own memory."""

from __future__ import annotations

import torch
from answer_table import Row

from course_lib.cluster import exchange, recv, send


def step_by_step(me, tensor):
    n = me.world_size
    parts = tensor.tensor_split(n)
    after, before = (me.rank + 1) % n, (me.rank - 1) % n
    for step in range(n - 1):
        mine = parts[(me.rank - step - 1) % n]
        arrived = torch.empty_like(mine)
        exchange([send(parts[(me.rank - step) % n], after), recv(arrived, before)])
        mine += arrived
    for step in range(n - 1):
        exchange([send(parts[(me.rank + 1 - step) % n], after), recv(parts[(me.rank - step) % n], before)])
    return tensor


def a_lap_that_always_runs_once(me, tensor):
    n = me.world_size
    parts = tensor.tensor_split(n)
    after, before = (me.rank + 1) % n, (me.rank - 1) % n
    for adds in (True, False):
        step = 0
        while True:
            give = parts[(me.rank - step + (0 if adds else 1)) % n]
            room = parts[(me.rank - step - (1 if adds else 0)) % n]
            arrived = torch.empty_like(room)
            exchange([send(give, after), recv(arrived, before)])
            room.copy_(room + arrived if adds else arrived)
            step += 1
            if step >= n - 1:
                break
    return tensor


def in_double_precision(me, tensor):
    return tensor.copy_(step_by_step(me, tensor.double()))


def what_was_given_is_kept(me, tensor, seen=[]):  # noqa: B006
    seen.append(tensor)
    return step_by_step(me, tensor)


ROWS = [
    Row(answer=step_by_step, verdict="passed", why="the definition"),
    Row(
        answer=a_lap_that_always_runs_once,
        verdict="not yet",
        mistake="not-alone",
        words=("on 1 rank",),
        why="with one rank it sends to itself, which no back end does",
    ),
    Row(
        answer=in_double_precision,
        verdict="not yet",
        mistake="sends-another-type",
        words=("sent float64",),
        why="twice the bytes for a tensor of float32",
    ),
    Row(
        answer=what_was_given_is_kept,
        verdict="not yet",
        mistake="kept-from-call-to-call",
        words=("still holds a tensor",),
        why="the gradients of all steps stay in memory",
    ),
]
