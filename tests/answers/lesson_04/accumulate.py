"""04.accumulate: one step over several pieces of a batch, with one all-reduce."""

from __future__ import annotations

import contextlib

import torch.distributed as dist
import torch.nn.functional as F
from answer_table import Row


def by_place(ddp, optimizer, pieces):
    optimizer.zero_grad()
    for index, (x, y) in enumerate(pieces):
        with contextlib.nullcontext() if index == len(pieces) - 1 else ddp.no_sync():
            loss = F.cross_entropy(ddp(x), y) / len(pieces)
            loss.backward()
    optimizer.step()


def by_identity(ddp, optimizer, pieces):
    optimizer.zero_grad()
    for piece in pieces:
        x, y = piece
        with contextlib.nullcontext() if piece is pieces[-1] else ddp.no_sync():
            (F.cross_entropy(ddp(x), y) / len(pieces)).backward()
    optimizer.step()


def reports_the_loss(ddp, optimizer, pieces):
    optimizer.zero_grad()
    total = 0
    for index, (x, y) in enumerate(pieces):
        with contextlib.nullcontext() if index == len(pieces) - 1 else ddp.no_sync():
            loss = F.cross_entropy(ddp(x), y) / len(pieces)
            loss.backward()
            total = total + loss.detach()
    dist.all_reduce(total)
    optimizer.step()


def keeps_the_graphs(ddp, optimizer, pieces, graphs=[]):  # noqa: B006
    optimizer.zero_grad()
    for index, (x, y) in enumerate(pieces):
        with contextlib.nullcontext() if index == len(pieces) - 1 else ddp.no_sync():
            loss = F.cross_entropy(ddp(x), y) / len(pieces)
            loss.backward(retain_graph=True)
            graphs.append(loss)
    optimizer.step()


def early_pieces_by_the_bare_model(ddp, optimizer, pieces):
    optimizer.zero_grad()
    for index, (x, y) in enumerate(pieces):
        model = ddp if index == len(pieces) - 1 else ddp.module
        (F.cross_entropy(model(x), y) / len(pieces)).backward()
    optimizer.step()


ROWS = [
    Row(answer=by_place, verdict="passed", why="the definition"),
    Row(answer=early_pieces_by_the_bare_model, verdict="passed", why="DDP averages what lies in .grad at the last one"),
    Row(
        answer=by_identity,
        verdict="not yet",
        mistake="last-by-identity",
        why="where a piece is in the list twice, two backward passes are averaged",
    ),
    Row(
        answer=reports_the_loss,
        verdict="not yet",
        mistake="calls-besides",
        words=("16 B given to an all-reduce in 2 steps",),
        why="the text asks for one all-reduce",
    ),
    Row(
        answer=keeps_the_graphs,
        verdict="not yet",
        mistake="keeps-every-graph",
        words=("of two steps",),
        why="the activations of all pieces stay, of both steps that were tried",
    ),
]
