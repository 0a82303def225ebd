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


def from_the_middle(me, tensor):
    def among(first, end):
        if end - first < 2:
            return
        middle = (first + end + 1) // 2
        if me.rank in (first, middle):
            exchange([send(tensor, middle) if me.rank == first else recv(tensor, first)])
        among(*((first, middle) if me.rank < middle else (middle, end)))

    among(0, me.world_size)
    return tensor


def far_ones_first(me, tensor):
    reach = 1 << (me.world_size - 1).bit_length()
    while reach := reach // 2:
        place = me.rank % (2 * reach)
        if place == 0 and me.rank + reach < me.world_size:
            exchange([send(tensor, me.rank + reach)])
        elif place == reach:
            exchange([recv(tensor, me.rank - reach)])
    return tensor


def two_chains(me, tensor):
    n, middle = me.world_size, (me.world_size + 1) // 2
    if me.rank:
        exchange([recv(tensor, 0 if me.rank == middle else me.rank - 1)])
    elif 1 < middle < n:
        exchange([send(tensor, middle)])
    if me.rank + 1 < n and (me.rank + 1 != middle or me.rank == 0):
        exchange([send(tensor, me.rank + 1)])
    return tensor


def rounds_rounded_down(me, tensor):
    for number in range(me.world_size.bit_length() - 1):
        reach = 2**number
        if me.rank < reach and me.rank + reach < me.world_size:
            exchange([send(tensor, me.rank + reach)])
        elif reach <= me.rank < 2 * reach:
            exchange([recv(tensor, me.rank - reach)])
    return tensor


def the_root_forgets(me, tensor):
    along_a_tree(me, tensor)
    return tensor if me.rank else tensor.zero_()


def in_two_pieces(me, tensor):
    for piece in tensor.view(-1).tensor_split(2):
        along_a_tree(me, piece)
    return tensor


def adds_what_comes(me, tensor):
    before = tensor.clone()
    along_a_tree(me, tensor)
    return tensor.add_(before) if me.rank else tensor


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
    Row(answer=from_the_middle, verdict="passed", why="halves of halves: as many rounds"),
    Row(answer=far_ones_first, verdict="passed", why="the same tree, its long ways first"),
    Row(answer=two_chains, verdict="not yet", mistake="two-children", why="from 7 ranks on a chain is too long"),
    Row(answer=rounds_rounded_down, verdict="not yet", words=("rank 2 of 3",), why="the last ranks get nothing"),
    Row(answer=the_root_forgets, verdict="not yet", words=("rank 0 of 2",), why="the root is to keep its own"),
    Row(answer=in_two_pieces, verdict="not yet", words=("went in 2 messages",), why="each message costs a latency"),
    Row(answer=adds_what_comes, verdict="not yet", words=("rank 1 of 2",), why="it is to be overwritten"),
]
