"""Dispatch and combine: each token's row to the ranks of its experts, and their outputs to the token.

::

    on the rank of the tokens       on the way                on the rank of the experts

    sorted by expert           ->   all-to-all          ->    from rank 0: expert 2, expert 3; from rank 1: ...
                                                              regrouped: expert 2 from 0, from 1; expert 3 ...
    added up for each token    <-   all-to-all back     <-    and back to the order in which they came

Nobody knows beforehand how many rows come. So the counts travel first, a small all-to-all of E numbers, and the host
waits for them, once a layer: it has to make room. (GShard and Switch avoid both by sending every expert's whole
capacity, empty places included.)

Source: Lepikhin et al., "GShard" (2020), sections 2.2 and 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch import Tensor

from course_lib.parallel.collectives.members import Members, split_sizes
from course_lib.parallel.experts.exchange import exchange_rows
from course_lib.parallel.experts.layer import combine, sorted_by_expert
from course_lib.parallel.experts.router import Routing

if TYPE_CHECKING:
    from course_lib.meter.clocks.timeline import Timeline
    from course_lib.parallel.experts.in_flight import PendingExchange

__all__ = ["Dispatch", "experts_per_rank", "with_way_back"]


def with_way_back(tokens: Tensor) -> Tensor:
    """Tokens from which backward goes through both exchanges on every rank, also where this rank trains nothing.

    Where one rank's experts are frozen and its tokens need no gradient, autograd would leave its exchanges out, and
    the other ranks would wait for it.
    """
    return tokens if tokens.requires_grad or not torch.is_grad_enabled() else tokens.detach().requires_grad_()


@dataclass(frozen=True)
class Dispatch:
    """One layer's journey for the tokens of this rank. Every rank of the group makes one, by ``plan``."""

    members: Members
    routing: Routing
    order: Tensor  # (S,): the choices that have room, expert after expert; t k + c for choice c of token t
    send_rows: list[int]  # to each rank; S in all
    recv_rows_by_expert: list[list[int]]  # from each rank, for each of this rank's experts

    @classmethod
    def plan(cls, members: Members, routing: Routing) -> Dispatch:
        """Tell all ranks how many rows they will get. Sent: 8 bytes for each expert of another rank."""
        per_rank = experts_per_rank(routing.num_experts, members.count)  # experts of each rank
        num_own = per_rank[members.group_rank]
        loads = routing.loads  # (E,)
        received = loads
        if members.count > 1:
            received = loads.new_empty(members.count * num_own)
            dist.all_to_all_single(received, loads, [num_own] * members.count, per_rank, group=members.group)
        numbers = torch.cat([loads, received]).tolist()  # the one place where the host waits
        mine, theirs = numbers[: len(loads)], numbers[len(loads) :]
        send_rows = [sum(part) for part in _cut(mine, per_rank)]
        order = sorted_by_expert(routing)[: sum(mine)]
        return cls(members, routing, order, send_rows, _cut(theirs, [num_own] * members.count))

    @property
    def counts(self) -> list[int]:
        """Rows of each of this rank's experts."""
        return [sum(of_expert) for of_expert in zip(*self.recv_rows_by_expert, strict=True)]

    @property
    def recv_rows(self) -> list[int]:
        """Rows that come from each rank."""
        return [sum(of_rank) for of_rank in self.recv_rows_by_expert]

    def dispatch(self, tokens: Tensor) -> Tensor:
        """Tokens of this rank (N, D) -> rows for this rank's experts (R, D), expert after expert."""
        rows = exchange_rows(self.members, self._rows_of(tokens), self.send_rows, self.recv_rows)  # (R, D)
        return _regrouped(rows, self.recv_rows_by_expert)

    def combine(self, rows: Tensor) -> Tensor:
        """Outputs of this rank's experts (R, D) -> outputs for this rank's tokens (N, D), weighted and added up."""
        rows = exchange_rows(self.members, self._in_order_of_ranks(rows), self.recv_rows, self.send_rows)  # (S, D)
        return combine(rows, self.order, self.routing)

    def start_dispatch(self, tokens: Tensor, timeline: Timeline | None = None) -> PendingExchange[Tensor]:
        """``dispatch``, started: (N, D) -> in flight, (R, D). ``timeline``: see ``start_exchange``."""
        from course_lib.parallel.experts.in_flight import PendingExchange, start_exchange  # one micro-batch needs none

        going = start_exchange(self.members, self._rows_of(tokens), self.send_rows, self.recv_rows, timeline=timeline)
        return PendingExchange(lambda: _regrouped(going.wait(), self.recv_rows_by_expert))

    def start_combine(self, rows: Tensor, timeline: Timeline | None = None) -> PendingExchange[Tensor]:
        """``combine``, started: (R, D) -> in flight, (N, D)."""
        from course_lib.parallel.experts.in_flight import PendingExchange, start_exchange

        rows = self._in_order_of_ranks(rows)
        back = start_exchange(self.members, rows, self.recv_rows, self.send_rows, timeline=timeline)
        return PendingExchange(lambda: combine(back.wait(), self.order, self.routing))

    def _rows_of(self, tokens: Tensor) -> Tensor:
        """Tokens (N, D) -> a row for each choice that has room, expert after expert, (S, D)."""
        return tokens[self.order // self.routing.experts.size(1)]

    def _in_order_of_ranks(self, rows: Tensor) -> Tensor:
        return _regrouped(rows, [list(of_expert) for of_expert in zip(*self.recv_rows_by_expert, strict=True)])


def experts_per_rank(num_experts: int, num_ranks: int) -> list[int]:
    """How many experts each rank holds: the first ranks one more. ``ValueError`` where a rank would hold none."""
    if num_experts < num_ranks:
        raise ValueError(
            f"{num_experts} experts cannot be shared out among {num_ranks} ranks: each rank holds at least one. Take "
            f"{num_ranks} experts, or a group of {num_experts}."
        )
    return split_sizes(num_experts, num_ranks)


def _cut(numbers: list[int], sizes: Sequence[int]) -> list[list[int]]:
    ends = [sum(sizes[: part + 1]) for part in range(len(sizes))]
    return [numbers[end - size : end] for end, size in zip(ends, sizes, strict=True)]


def _regrouped(rows: Tensor, sizes: list[list[int]]) -> Tensor:
    """Blocks that stand in the order [0][0], [0][1], ..., [1][0], ... -> [0][0], [1][0], ..., [0][1], ..."""
    if len(sizes) == 1 or len(sizes[0]) == 1:
        return rows  # the order is the same
    blocks = rows.split([size for of_one in sizes for size in of_one])
    num_inner = len(sizes[0])
    return torch.cat([block for inner in range(num_inner) for block in blocks[inner::num_inner]])
