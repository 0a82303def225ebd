"""02.tree: rank 0's tensor on every rank, in rounds that double those that have it."""

from __future__ import annotations

import torch
from answer_table import Row

from course_lib.cluster import exchange, recv, send


def along_a_tree(me, tensor):
    reach = 1
    while reach < me.world_size:
        if me.rank < reach:
            if me.rank + reach < me.world_size:
                exchange([send(tensor, me.rank + reach)])
        elif me.rank < 2 * reach:
            exchange([recv(tensor, me.rank - reach)])
        reach *= 2
    return tensor


def into_a_clone(me, tensor):
    return along_a_tree(me, tensor.clone())


def in_single_precision(me, tensor):
    return tensor.copy_(along_a_tree(me, tensor.float()))


def in_double_precision(me, tensor):
    return tensor.copy_(along_a_tree(me, tensor.double()))


def for_several_ranks(me, tensor):
    if me.rank == 0:
        exchange([send(tensor, 1)])
    elif me.rank == 1:
        exchange([recv(tensor, 0)])
    reach = 2
    while reach < me.world_size:
        if me.rank < reach and me.rank + reach < me.world_size:
            exchange([send(tensor, me.rank + reach)])
        elif reach <= me.rank < 2 * reach:
            exchange([recv(tensor, me.rank - reach)])
        reach *= 2
    return tensor


def as_bytes(me, tensor):
    flat = tensor.view(-1).view(torch.uint8)
    along_a_tree(me, flat)
    return tensor


ROWS = [
    Row(answer=along_a_tree, verdict="passed", why="the definition"),
    Row(
        answer=into_a_clone,
        verdict="not yet",
        words=("what came back is a copy", "and on rank 1 that tensor does not hold the result"),
        unsaid=("; give back that tensor",),
        why="who gives back the tensor that was handed in gives old numbers on all ranks but the root",
    ),
    Row(
        answer=in_single_precision,
        verdict="not yet",
        mistake="sends-another-type",
        words=("sent float32, and the numbers of its tensor are int64",),
        unsaid=("too little was sent",),
        why="each rank has received the tensor once, as numbers of another type",
    ),
    Row(
        answer=in_double_precision,
        verdict="not yet",
        mistake="sends-another-type",
        words=("sent float64",),
        why="twice the bytes for a tensor of float32, and whole numbers beyond 2**53 are rounded",
    ),
    Row(answer=for_several_ranks, verdict="not yet", mistake="not-alone", why="with one rank it sends to a rank 1"),
    Row(answer=as_bytes, verdict="passed", why="the bytes of a tensor as they are: nothing is lost, nothing more sent"),
]
