"""01.ledger: the bytes of a model's state under AdamW."""

from __future__ import annotations

import sys

import torch
from answer_table import Row


def counted(unique):
    learning = [p for p in unique if p.requires_grad]
    gradient = sum(p.nbytes for p in learning)
    return {
        "parameter": sum(p.nbytes for p in unique),
        "gradient": gradient,
        "optimizer state": 2 * gradient + 4 * len(learning),
    }


def by_identity(parameters):
    return counted({id(p): p for p in parameters}.values())


def by_address(parameters):
    return counted({p.data_ptr(): p for p in parameters}.values())


def without_the_empty(parameters):
    return counted({id(p): p for p in parameters if p.numel()}.values())


def once_for_each_list_of_shapes(parameters, kept={}):  # noqa: B006
    key = tuple((p.shape, p.dtype) for p in parameters)
    if key not in kept:
        kept[key] = by_identity(parameters)
    return kept[key]


def from_a_frame_above(parameters):
    labels = {"parameter", "gradient", "optimizer state"}
    frame = sys._getframe(1)
    while frame is not None:
        for value in frame.f_locals.values():
            if isinstance(value, dict) and set(value) == labels:
                return value
        frame = frame.f_back
    return None


def by_an_optimizer_of_zeros(parameters):
    unique = list({id(p): p for p in parameters}.values())
    copies = [torch.nn.Parameter(torch.zeros_like(p)) for p in unique if p.requires_grad]
    state = []
    if copies:
        optimizer = torch.optim.AdamW(copies)
        for p in copies:
            p.grad = torch.zeros_like(p)
        optimizer.step()
        state = [value for held in optimizer.state.values() for value in held.values()]
    return {
        "parameter": sum(p.nbytes for p in unique),
        "gradient": sum(p.nbytes for p in copies),
        "optimizer state": sum(value.nbytes for value in state),
    }


ROWS = [
    Row(answer=by_identity, verdict="passed", why="the definition"),
    Row(
        answer=by_address,
        verdict="not yet",
        mistake="same-address-for-same",
        why="tensors without numbers have no address, and all of them become one",
    ),
    Row(
        answer=without_the_empty,
        verdict="not yet",
        mistake="empty-left-out",
        why="AdamW counts its steps for a tensor without numbers, too",
    ),
    Row(
        answer=once_for_each_list_of_shapes,
        verdict="not yet",
        words=("another one frozen",),
        why="what learns, and what is tied, is no matter of shapes",
    ),
    Row(answer=from_a_frame_above, verdict="not yet", why="it counts nothing: it looks for what is right"),
    Row(
        answer=by_an_optimizer_of_zeros,
        verdict="forbidden",
        words=("torch.optim.AdamW",),
        why="the numbers are right, and they are to be counted by hand",
    ),
]
