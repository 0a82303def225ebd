"""04.gradients: the mean of all ranks' gradients, on every rank."""

from __future__ import annotations

import torch
import torch.distributed as dist
from answer_table import Row


def filled_and_divided_in_place(me, model):
    for p in model.parameters():
        if not p.requires_grad:
            continue
        if p.grad is None:
            p.grad = torch.zeros_like(p)
        dist.all_reduce(p.grad, op=dist.ReduceOp.SUM)
        p.grad.div_(me.world_size)


def a_barrier_before_each(me, model):
    for p in model.parameters():
        if p.requires_grad:
            if p.grad is None:
                p.grad = torch.zeros_like(p)
            dist.barrier()
            dist.all_reduce(p.grad)
            p.grad /= me.world_size


def in_a_new_tensor(me, model):
    for p in model.parameters():
        if p.requires_grad:
            g = torch.zeros_like(p) if p.grad is None else p.grad.clone()
            dist.all_reduce(g)
            p.grad = g / me.world_size


def asks_first_who_has_one(me, model):
    ps = [p for p in model.parameters() if p.requires_grad]
    mask = torch.tensor([0.0 if p.grad is None else 1.0 for p in ps], device=me.device)
    dist.all_reduce(mask)
    for p, users in zip(ps, mask.tolist(), strict=True):
        if users == 0:
            continue
        if p.grad is None:
            p.grad = torch.zeros_like(p)
        dist.all_reduce(p.grad)
        p.grad /= me.world_size


def zeros_of_the_default_type(me, model):
    for p in model.parameters():
        if p.requires_grad:
            g = p.grad if p.grad is not None else torch.zeros(p.shape)
            dist.all_reduce(g)
            g /= me.world_size
            if p.grad is None:
                p.grad = g.to(p.dtype)


def nobody_waits(me, model):
    for p in model.parameters():
        if p.requires_grad:
            if p.grad is None:
                p.grad = torch.zeros_like(p)
            dist.all_reduce(p.grad, async_op=True)
            p.grad /= me.world_size


ROWS = [
    Row(answer=filled_and_divided_in_place, verdict="passed", why="the definition"),
    Row(answer=a_barrier_before_each, verdict="not yet", words=("barrier",), why="twice the calls"),
    Row(answer=in_a_new_tensor, verdict="not yet", mistake="not-in-place", why="the text says in place"),
    Row(
        answer=asks_first_who_has_one,
        verdict="not yet",
        mistake="loses-gradients",
        why="no gradient counts as zeros, on all ranks as on one",
    ),
    Row(
        answer=zeros_of_the_default_type,
        verdict="not yet",
        mistake="sends-another-type",
        unsaid=("does not make a call", "put zeros in place of None"),
        why="it makes every call and puts zeros, of the wrong type",
    ),
    Row(answer=nobody_waits, verdict="not yet", words=("never waited for it",), why="the sum may come later"),
]
