"""02.shift: each rank's tensor to the rank after it."""

from __future__ import annotations

import torch
import torch.distributed as dist
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


def meets_first(me, mine):
    dist.barrier()
    return both_halves_together(me, mine)


def counts_the_ranks(me, mine):
    dist.all_reduce(torch.ones(1))
    return both_halves_together(me, mine)


def gathers_objects(me, mine):
    everybodys = [None] * me.world_size
    dist.all_gather_object(everybodys, mine)
    return everybodys[me.rank - 1]


def waits_for_no_send(me, mine):
    theirs, n = torch.empty_like(mine), me.world_size
    waits_for_no_send.sent = dist.isend(mine, (me.rank + 1) % n)
    dist.recv(theirs, (me.rank - 1) % n)
    return theirs


def two_further(me, mine):
    theirs, n = torch.empty_like(mine), me.world_size
    exchange([send(mine, (me.rank + 2) % n), recv(theirs, (me.rank - 2) % n)])
    return theirs


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
    Row(
        answer=meets_first,
        verdict="not yet",
        words=("called, besides its message, barrier",),
        unsaid=("in 2 messages",),
        why="a collective that nobody needs",
    ),
    Row(
        answer=counts_the_ranks,
        verdict="not yet",
        words=("called, besides its message, all_reduce",),
        unsaid=("travelled as another type", "times its tensor"),
        why="the tensor itself goes as it is",
    ),
    Row(
        answer=gathers_objects,
        verdict="not yet",
        mistake="asks-everybody",
        unsaid=("as another type",),
        why="all tensors go to all, pickled",
    ),
    Row(
        answer=waits_for_no_send,
        verdict="not yet",
        words=("never waited for it",),
        why="the caller may overwrite what is still to leave",
    ),
    Row(
        answer=two_further,
        verdict="raised",
        words=("itself, and gloo carries no such message",),
        why="on two ranks that is the rank itself",
    ),
]
