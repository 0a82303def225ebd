"""02.shift: each rank's tensor to the rank after it."""

from __future__ import annotations

import torch
from answer_table import Row

from course_lib.cluster import exchange, recv, send


def both_halves_together(me, mine):
    theirs, n = torch.empty_like(mine), me.world_size
    exchange([send(mine, (me.rank + 1) % n), recv(theirs, (me.rank - 1) % n)])
    return theirs


def one_after_the_other(me, mine):
    theirs, n = torch.empty_like(mine), me.world_size
    halves = [send(mine, (me.rank + 1) % n), recv(theirs, (me.rank - 1) % n)]
    for half in halves if me.rank == 0 else halves[::-1]:
        exchange([half])
    return theirs


def into_its_own(me, mine):
    n = me.world_size
    exchange([send(mine, (me.rank + 1) % n), recv(mine, (me.rank - 1) % n)])
    return mine


def in_one_buffer(me, mine, buffers={}):  # noqa: B006
    theirs = buffers.setdefault((mine.shape, mine.dtype), torch.empty_like(mine))
    exchange([send(mine, (me.rank + 1) % me.world_size), recv(theirs, (me.rank - 1) % me.world_size)])
    return theirs


def in_single_precision(me, mine):
    return both_halves_together(me, mine.float()).to(mine.dtype)


ROWS = [
    Row(answer=both_halves_together, verdict="passed", why="the definition"),
    Row(
        answer=one_after_the_other,
        verdict="passed",
        why="slow, and right: the text asks for no time, and gloo has no message from a rank to itself",
    ),
    Row(
        answer=into_its_own,
        verdict="not yet",
        mistake="receives-over-its-own",
        why="`mine` is to stay, and what arrives may take its place before it is sent",
    ),
    Row(
        answer=in_one_buffer,
        verdict="not yet",
        mistake="kept-from-call-to-call",
        words=("who keeps that one finds it overwritten",),
        why="the result of the call before is overwritten",
    ),
    Row(answer=in_single_precision, verdict="not yet", words=("sent float32",), why="float64 is rounded on the way"),
]
