"""Rows that go to the rank of their expert: an all-to-all with parts of any size, and its gradient.

A row that was sent is a row that arrived, so its gradient goes the way back: the backward of an all-to-all is an
all-to-all with the two sizes changing places.

Source: Lepikhin et al., "GShard" (2020), section 3. PyTorch has the same as
``torch.distributed._functional_collectives.all_to_all_single_autograd``, which torchtitan uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd import Function

from course_lib.parallel.collectives.members import Members, in_one_piece, rows

__all__ = ["check_sizes", "exchange_rows"]


def exchange_rows(members: Members, x: Tensor, send_rows: Sequence[int], recv_rows: Sequence[int]) -> Tensor:
    """(sum of send_rows, ...) -> (sum of recv_rows, ...): the first ``send_rows[0]`` rows go to the first rank, ...

    What comes stands in the order of the ranks. Rank i's ``send_rows[j]`` is rank j's ``recv_rows[i]``; 0 is allowed.
    Backward: the same of the gradient, backwards. A single rank gets its rows back. ``ValueError`` for sizes that are
    not one for each rank, or do not add up to the rows of ``x``.
    """
    check_sizes(members, x, send_rows, recv_rows)
    return x if members.count == 1 else _ExchangeRows.apply(members, x, list(send_rows), list(recv_rows))


def check_sizes(members: Members, x: Tensor, send_rows: Sequence[int], recv_rows: Sequence[int]) -> None:
    """``ValueError`` for sizes that are not one for each rank, or do not add up to the rows of ``x``."""
    rows(x, send_rows, members.count)
    if len(recv_rows) != members.count:
        raise ValueError(
            f"recv_rows={list(recv_rows)} has {len(recv_rows)} sizes; {members.count} ranks send, so give "
            f"{members.count} sizes, 0 for a rank that sends nothing"
        )


class _ExchangeRows(Function):
    @staticmethod
    def forward(ctx: Any, members: Members, x: Tensor, send_rows: list[int], recv_rows: list[int]) -> Tensor:
        ctx.members, ctx.send_rows, ctx.recv_rows = members, send_rows, recv_rows
        received = x.new_empty(sum(recv_rows), *x.shape[1:])
        dist.all_to_all_single(received, in_one_piece(x), recv_rows, send_rows, group=members.group)
        return received

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        return None, _ExchangeRows.apply(ctx.members, grads[0], ctx.recv_rows, ctx.send_rows), None, None
