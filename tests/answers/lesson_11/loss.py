"""11.loss: the loss of a few positions at a time, whose scores nobody keeps."""

from __future__ import annotations

import torch
from answer_table import Row
from torch.utils.checkpoint import checkpoint

from course_lib.models import next_token_loss


def body(model, tokens):
    x = model.stem(tokens)
    for block in model.blocks:
        x = block(x)
    return x


def colleagues(model, tokens, length=32):
    return next_token_loss(model.head(body(model, tokens)), tokens)


def always_32_at_a_time(model, tokens, length=32):
    def of_piece(x, targets):
        return next_token_loss(model.head(x), targets, reduction="sum")

    pieces = zip(body(model, tokens).split(32, dim=1), tokens.split(32, dim=1), strict=True)
    return sum(checkpoint(of_piece, *piece, use_reentrant=False) for piece in pieces) / tokens.numel()


def first_piece_alone(model, tokens, length=32):
    return next_token_loss(model.head(body(model, tokens)[:, :length]), tokens[:, :length])


def body_without_gradients(model, tokens, length=32):
    with torch.no_grad():
        x = body(model, tokens)
    return next_token_loss(model.head(x), tokens)


def goes_back_itself(model, tokens, length=32):
    loss = colleagues(model, tokens)
    loss.backward(retain_graph=True)
    return loss


ROWS = [
    Row(answer=colleagues, verdict="not yet", mistake="as-it-was", why="the cell below once called it the same loss"),
    Row(answer=always_32_at_a_time, verdict="not yet", mistake="all-again-at-once", why="`length` is an argument"),
    Row(answer=first_piece_alone, verdict="not yet", mistake="", why="another loss", words=("the loss: expected",)),
    Row(answer=body_without_gradients, verdict="not yet", mistake="", why="most weights learn nothing"),
    Row(
        answer=goes_back_itself,
        verdict="not yet",
        mistake="",
        why="each gradient comes twice",
        words=("has run already",),
    ),
]
