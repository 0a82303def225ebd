"""04.sampler: which examples each rank reads in an epoch."""

from __future__ import annotations

import math

import torch
from answer_table import Row


def dealt(order, num_items, rank, world_size):
    total = math.ceil(num_items / world_size) * world_size
    return (order * math.ceil(total / num_items))[:total][rank::world_size]


def by_a_generator(num_items, rank, world_size, epoch, seed):
    generator = torch.Generator().manual_seed(seed + epoch)
    return dealt(torch.randperm(num_items, generator=generator).tolist(), num_items, rank, world_size)


def by_the_global_one_put_back(num_items, rank, world_size, epoch, seed):
    state = torch.get_rng_state()
    torch.manual_seed(seed + epoch)
    order = torch.randperm(num_items).tolist()
    torch.set_rng_state(state)
    return dealt(order, num_items, rank, world_size)


def by_the_global_one(num_items, rank, world_size, epoch, seed):
    torch.manual_seed(seed + epoch)
    return dealt(torch.randperm(num_items).tolist(), num_items, rank, world_size)


ROWS = [
    Row(answer=by_a_generator, verdict="passed", why="the definition"),
    Row(answer=by_the_global_one_put_back, verdict="passed", why="afterwards all generators are as they were"),
    Row(
        answer=by_the_global_one,
        verdict="not yet",
        mistake="seeds-everything",
        why="dropout draws from the same generator",
    ),
]
