"""Right answers to 10.dispatch in other styles than the lesson's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from course_lib.cluster.base.point_to_point import exchange, recv, send
from course_lib.cluster.base.rank import Rank

__all__ = ["ANSWERS", "SAME"]

Run = Callable[[int, Tensor], Tensor]


def regrouped(me: Rank, tokens: Tensor, chosen: Tensor, weights: Tensor, num_experts: int, run: Run) -> Tensor:
    """Blocks put behind each other by expert, and apart again; the sums by ``index_add_``."""
    n, k = me.world_size, chosen.size(1)
    num_own = num_experts // n
    flat, order = chosen.flatten().sort(stable=True)
    counts = torch.zeros(num_experts, dtype=torch.int64, device=me.device).scatter_add_(0, flat, torch.ones_like(flat))
    theirs = torch.empty_like(counts)
    dist.all_to_all_single(theirs, counts)
    send_rows = counts.view(n, num_own).sum(1).tolist()
    blocks = theirs.view(n, num_own).tolist()
    recv_rows = [sum(block) for block in blocks]
    came = tokens.new_empty((sum(recv_rows), tokens.size(1)))
    dist.all_to_all_single(came, tokens[order.div(k, rounding_mode="floor")], recv_rows, send_rows)
    pieces = came.split([size for block in blocks for size in block])
    made: list[Any] = [None] * len(pieces)
    for own in range(num_own):
        mine = pieces[own::num_own]
        together = run(me.rank * num_own + own, torch.cat(mine))
        made[own::num_own] = together.split([len(piece) for piece in mine])
    back = tokens.new_empty(len(order), tokens.size(1))
    dist.all_to_all_single(back, torch.cat(made), send_rows, recv_rows)
    return torch.zeros_like(tokens).index_add_(0, order // k, back * weights.flatten()[order].unsqueeze(1))


def by_messages(me: Rank, tokens: Tensor, chosen: Tensor, weights: Tensor, num_experts: int, run: Run) -> Tensor:
    """Message by message, a size first; with each row the number of its expert."""
    each, out = num_experts // me.world_size, torch.zeros_like(tokens)
    others = [rank for rank in range(me.world_size) if rank != me.rank]
    places = {rank: ((chosen // each) == rank).nonzero(as_tuple=True) for rank in range(me.world_size)}
    rows = {rank: tokens[token] for rank, (token, _) in places.items()}
    numbers = {rank: chosen[place] for rank, place in places.items()}
    sizes = {rank: torch.empty(1, dtype=torch.int64, device=me.device) for rank in others}
    lengths = {rank: torch.tensor([len(rows[rank])], device=me.device) for rank in others}
    exchange([*(send(lengths[one], one) for one in others), *(recv(sizes[one], one) for one in others)])
    came = {one: tokens.new_empty(int(sizes[one]), tokens.size(1)) for one in others}
    which = {one: torch.empty(int(sizes[one]), dtype=torch.int64, device=me.device) for one in others}
    for mine, theirs in ((rows, came), (numbers, which)):
        exchange(
            [send(mine[one], one) for one in others if len(mine[one])]
            + [recv(theirs[one], one) for one in others if len(theirs[one])]
        )
    came[me.rank], which[me.rank] = rows[me.rank], numbers[me.rank]
    made = {one: torch.empty_like(row) for one, row in came.items()}
    for one, experts in which.items():
        for expert in experts.unique().tolist():
            made[one][experts == expert] = run(expert, came[one][experts == expert])
    back = {one: torch.empty_like(rows[one]) for one in others}
    exchange(
        [send(made[one], one) for one in others if len(made[one])]
        + [recv(back[one], one) for one in others if len(back[one])]
    )
    back[me.rank] = made[me.rank]
    for one, place in places.items():
        out.index_add_(0, place[0], back[one] * weights[place][:, None])
    return out


def expert_by_expert(me: Rank, tokens: Tensor, chosen: Tensor, weights: Tensor, num_experts: int, run: Run) -> Tensor:
    """A gather for each expert, and a scatter: slow, and short."""
    out, each = torch.zeros_like(tokens), num_experts // me.world_size
    nothing = tokens[:0]
    for expert in range(num_experts):
        token, choice = (chosen == expert).nonzero(as_tuple=True)
        sizes = [torch.empty_like(torch.tensor([0], device=me.device)) for _ in range(me.world_size)]
        dist.all_gather(sizes, torch.tensor([len(token)], device=me.device))
        to, is_here = expert // each, expert // each == me.rank
        lengths = [int(size) if is_here else 0 for size in sizes]
        going = [len(token) if rank == to else 0 for rank in range(me.world_size)]
        came = tokens.new_empty(sum(lengths), tokens.size(1))
        dist.all_to_all_single(came, tokens[token], lengths, going)
        made = run(expert, came) if is_here else nothing
        back = tokens.new_empty(len(token), tokens.size(1))
        dist.all_to_all_single(back, made, going, lengths)
        out[token] += weights[token, choice].unsqueeze(-1) * back  # a token chooses an expert once
    return out


def weighed_there(me: Rank, tokens: Tensor, chosen: Tensor, weights: Tensor, num_experts: int, run: Run) -> Tensor:
    """Weights are sent with their rows, and counts as objects; the sum is a product with a matrix of ones."""
    n, k = me.world_size, chosen.size(1)
    order = torch.argsort(chosen.reshape(-1), stable=True)
    flat = chosen.reshape(-1)[order]
    token = order // k
    load = torch.cat([tokens[token], weights.reshape(-1)[order][:, None], flat[:, None].to(tokens.dtype)], 1)
    ends = torch.searchsorted(flat, torch.arange(n + 1, device=me.device) * (num_experts // n))
    send_rows = ends.diff().tolist()
    table: list[Any] = [None] * n
    dist.all_gather_object(table, send_rows)
    recv_rows = [row[me.rank] for row in table]
    came = load.new_empty(sum(recv_rows), load.size(1))
    work = dist.all_to_all_single(came, load, recv_rows, send_rows, async_op=True)
    assert work is not None
    work.wait()
    rows, weight, number = came[:, :-2], came[:, -2:-1], came[:, -1].long()
    made = torch.zeros_like(rows)
    for expert in range(me.rank * num_experts // n, (me.rank + 1) * num_experts // n):
        mine = (number == expert).nonzero().squeeze(1)
        if len(mine):
            made.index_copy_(0, mine, run(expert, rows[mine]))
    made *= weight
    back = tokens.new_empty(len(order), tokens.size(1))
    dist.all_to_all_single(back, made, send_rows, recv_rows)
    return (token == torch.arange(len(tokens), device=me.device)[:, None]).to(back.dtype) @ back


def once_to_each_rank(me: Rank, tokens: Tensor, chosen: Tensor, weights: Tensor, num_experts: int, run: Run) -> Tensor:
    """A token with two experts on one rank is sent there once, and comes back as one row, weighed and added."""
    n, width, each = me.world_size, tokens.size(1), num_experts // me.world_size
    places = [((chosen // each) == rank).any(1).nonzero().squeeze(1) for rank in range(n)]
    going = torch.tensor([len(place) for place in places], device=me.device)
    coming = torch.empty_like(going)
    dist.all_to_all_single(coming, going)
    place, sizes = torch.cat(places), (coming.tolist(), going.tolist())
    load = torch.cat([tokens, weights, chosen.to(tokens.dtype)], 1)[place]
    came = load.new_empty(sum(sizes[0]), load.size(1))
    dist.all_to_all_single(came, load, *sizes)
    rows, weight, number = came.split([width, chosen.size(1), chosen.size(1)], 1)
    made = torch.zeros_like(rows)
    for expert in range(me.rank * each, (me.rank + 1) * each):
        row, choice = (number == expert).nonzero(as_tuple=True)
        made[row] += weight[row, choice, None] * run(expert, rows[row])
    back = tokens.new_empty(len(place), width)
    dist.all_to_all_single(back, made, sizes[1], sizes[0])
    return torch.zeros_like(tokens).index_add(0, place, back)


ANSWERS = (regrouped, by_messages, expert_by_expert, weighed_there, once_to_each_rank)

_NEITHER = "Neither line reads what the other makes."
_ONE_ORDER = "Rows of one expert may stand in any order, as long as it is the same there and back."
SAME: dict[str, str] = {
    "1: `n = me.world_size` after `order = chosen.flatten().argsort(stable=True)`": _NEITHER,
    "2: `order = chosen.flatten().argsort(stable=True)` after `counts = torch.bincount(chosen.flatten(), "
    "minlength=num_experts)`": _NEITHER,
    "8: `dist.all_to_all_single(rows, tokens[order // chosen.size(1)], coming_rows, going_rows)` after `own = "
    "torch.arange(num_experts, device=me.device).chunk(n)[me.rank]`": _NEITHER,
    "11: `expert_of_row = own.repeat(n).repeat_interleave(come)` after `made = torch.empty_like(rows)`": _NEITHER,
    "13: `for expert in own.tolist():` after `back = tokens.new_empty(len(order), tokens.size(1))`": _NEITHER,
    "17: `dist.all_to_all_single(back, made, going_rows, coming_rows)` after `outputs = torch.empty_like(back)`": (
        _NEITHER
    ),
    "2: `chosen.flatten().argsort(stable=True)` -> `chosen.flatten().argsort()`": _ONE_ORDER,
    "2: `True` -> `False`": _ONE_ORDER,
    "13: `own.tolist()` -> `own`": "Each expert's number comes as a tensor then, which `run` takes as well.",
    "10: `torch.arange(num_experts, device=me.device)` -> `torch.arange(num_experts)`": "On ranks that compute on the "
    "CPU it is there already; where ranks have GPUs, the rows' experts and the counts are on two devices.",
}
