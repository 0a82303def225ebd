"""Dispatch without duplicates: a row goes once to each member of a group, however many of its experts lie there.

::

    on the rank of the tokens            on the way       at a member that has some of their experts

    a row for each member that      ->   all-to-all  ->   rows, the numbers of the experts that lie here, weights
    has an expert of the token
    sums of members added up        <-   back        <-   one row for each: the weighted sum over those experts

So a token with k experts on m members sends m rows and not k, and beside each row k numbers and k weights. As the
weighted sum is made where the experts are, m rows come back too. A hop may serve its rows by another hop: first to
nodes, over the slow link, and within each node to its ranks.

Sources: DeepSeek-AI, "DeepSeek-V3 Technical Report" (2024), section 3.2.2 (a token goes once to a node, and is passed
on there; sums are made on the way back); DeepEP and Megatron's HybridEP do both in kernels of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from course_lib.parallel.collectives.members import Members
from course_lib.parallel.experts.exchange import exchange_rows
from course_lib.parallel.experts.feed_forward import Experts
from course_lib.parallel.experts.layer import combine, sorted_by_expert
from course_lib.parallel.experts.router import Routing

__all__ = ["Plan", "Serve", "hop", "once_for_each", "serve_own"]

Serve = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Rows (R, D), experts (R, k) with -1 for one that is not here, weights (R, k) -> sums (R, D)."""
Plan = Callable[[Tensor], tuple[Tensor | Sequence[int], Sequence[int]]]
"""Experts (N, k) -> the rows to send (S,), a tensor or a list, member after member, and how many go to each."""


def once_for_each(stops: Tensor, num_members: int) -> tuple[Tensor, list[int]]:
    """``stops`` (N, k): the member of each choice, -1 for none -> rows (S,), member after member, and how many to each.

    A member's rows rise, and none comes twice.

    >>> once_for_each(torch.tensor([[0, 2], [2, 2], [-1, 0]]), 3)
    (tensor([0, 2, 0, 1]), [2, 0, 2])
    """
    goes = torch.zeros(len(stops), num_members + 1, dtype=torch.bool, device=stops.device)
    goes.scatter_(1, stops + 1, True)
    goes = goes[:, 1:]  # (N, members)
    return goes.T.nonzero()[:, 1], goes.sum(0).tolist()


def hop(
    members: Members,
    owner: Tensor,
    rows: Tensor,
    experts: Tensor,
    weights: Tensor,
    serve: Serve,
    *,
    plan: Plan | None = None,
) -> Tensor:
    """Each row (N, D) once to every member that has one of its experts, and the sum of what they make of it (N, D).

    ``owner`` (E,): the member, by its place in the group, that has each expert. experts (N, k): -1 where a choice is
    not to be served. ``serve`` makes one row of each row that comes. ``plan`` says which rows go where, in place of
    ``once_for_each``. Backward: the two all-to-alls of rows again, the other way round.
    Every member calls it, with 0 rows if need be, and ``serve`` is called on each.
    """
    stops = torch.where(experts < 0, -1, owner[experts.clamp(min=0)])  # (N, k)
    places, send_rows = once_for_each(stops, members.count) if plan is None else plan(experts)
    places = torch.as_tensor(places, dtype=torch.int64, device=rows.device)
    send_rows = [int(size) for size in send_rows]
    recv_rows = _sizes_that_come(members, send_rows, rows.device)
    member_of_row = torch.arange(members.count, device=rows.device).repeat_interleave(
        torch.tensor(send_rows, device=rows.device)
    )
    is_there = stops[places] == member_of_row.unsqueeze(1)  # (S, k)
    numbers = experts[places].masked_fill(~is_there, -1).to(torch.int32)
    packed = torch.cat([rows[places], weights[places].to(rows.dtype)], dim=1)  # (S, D + k): one message
    numbers = exchange_rows(members, numbers, send_rows, recv_rows).to(torch.int64)
    packed = exchange_rows(members, packed, send_rows, recv_rows)
    sums = serve(packed[:, : rows.size(1)], numbers, packed[:, rows.size(1) :])
    sums = exchange_rows(members, sums, recv_rows, send_rows)  # (S, D)
    out = torch.zeros_like(rows)
    for place, part in zip(places.split(send_rows), sums.split(send_rows), strict=True):
        out = out.index_add(0, place, part)  # no place twice: the order of the sum is that of the members
    return out


def serve_own(own: Experts, first: int) -> Serve:
    """``serve`` for a rank whose experts ``own`` have the numbers from ``first`` on."""

    def serve(rows: Tensor, experts: Tensor, weights: Tensor) -> Tensor:
        is_here = experts >= 0
        local = (experts - first).masked_fill(~is_here, 0)
        routing = Routing(local, weights, rows.new_empty(len(rows), len(own.w_up)), is_here)
        counts = routing.loads.tolist()
        order = sorted_by_expert(routing)[: sum(counts)]
        return combine(own(rows[order // experts.size(1)], counts), order, routing)

    return serve


def _sizes_that_come(members: Members, send_rows: list[int], device: torch.device) -> list[int]:
    """How many rows each member sends here: 8 bytes from each."""
    if members.count == 1:
        return send_rows
    come = torch.empty(members.count, dtype=torch.int64, device=device)
    dist.all_to_all_single(come, torch.tensor(send_rows, device=device), group=members.group)
    return come.tolist()
