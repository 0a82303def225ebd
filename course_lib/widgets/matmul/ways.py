"""What the matmul explorer shows and runs: a product by a ``MatmulPlan``, or with A in tiles.

Both say in words what is done and sent, both run on ranks with real numbers, and both are checked against one device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch

from course_lib.cluster.base.rank import Rank
from course_lib.meter import Communication
from course_lib.parallel.tensor import (
    MatmulPlan,
    Partial,
    Placement,
    Shard,
    gradient_placement,
    local_part,
    run_matmul,
)
from course_lib.parallel.tensor.tiled_matmul import run_tiled_matmul, side_of_square, tiled_sent_bytes
from course_lib.plot.boards.matmul_board import BoardColumn, cut_in_words, plan_columns, tile_columns

__all__ = ["Planned", "Tiled", "checked"]

_SHAPE = (64, 32, 48)  # N, K, M: X is (N, K), A is (K, M); 4 divides them all
Products = tuple[torch.Tensor, torch.Tensor, torch.Tensor]  # Y, dX, dA


@dataclass(frozen=True)
class Planned:
    """Y = X A by the steps of a plan."""

    plan: MatmulPlan
    num_ranks: int

    def lines(self) -> list[str]:
        """In words: what is multiplied, what is sent forward and backward, and how many bytes."""
        plan = self.plan
        if self.num_ranks == 1:
            return ["One rank has everything and sends nothing."]
        forward, backward = self.sent_bytes()
        return [
            f"Each rank multiplies X {cut_in_words(plan.x_used)} by A {cut_in_words(plan.a_used)}; "
            f"the product is {cut_in_words(plan.product)}.",
            f"Forward: {_steps(plan.forward)}; each rank sends {forward:,.0f} bytes.",
            f"Backward: {_steps(plan.backward)}; each rank sends {backward:,.0f} bytes.",
        ]

    def columns(self) -> tuple[list[BoardColumn], str]:
        """For the board."""
        return plan_columns(self.plan, self.num_ranks)

    def sent_bytes(self) -> tuple[float, float]:
        """What each rank sends forward, and backward."""
        return self.plan.sent_bytes(_SHAPE, self.num_ranks)

    def multiply(self, me: Rank) -> Products:
        """This rank's parts of Y, dX and dA."""
        plan = self.plan
        placements = (plan.x, plan.a, gradient_placement(plan.y))
        parts = [
            local_part(me, tensor.to(me.device), placement)
            for tensor, placement in zip(_whole(), placements, strict=True)
        ]
        y, grad_x, grad_a = run_matmul(me, plan, *parts)
        return y.cpu(), grad_x.cpu(), grad_a.cpu()

    def makes_up(self, parts: Sequence[Products], wholes: Products) -> bool:
        """Whether all ranks' parts are the parts of these."""
        placements = (self.plan.y, gradient_placement(self.plan.x), gradient_placement(self.plan.a))
        return all(
            _makes_up([one[number] for one in parts], placement, whole)
            for number, (placement, whole) in enumerate(zip(placements, wholes, strict=True))
        )


@dataclass(frozen=True)
class Tiled:
    """Y = X A with A in tiles, on a square of four ranks."""

    num_ranks: ClassVar[int] = 4

    def lines(self) -> list[str]:
        """In words: what is multiplied, what is sent forward and backward, and how many bytes."""
        forward, backward = tiled_sent_bytes(_SHAPE, self.num_ranks)
        return [
            "Each rank multiplies half of X's columns by its tile of A; the product is a summand of half of Y's "
            "columns.",
            f"Forward: all_reduce of each half of Y, by ranks 0 and 2, 1 and 3; each rank sends {forward:,.0f} bytes.",
            f"Backward: all_reduce of each half of dX, by ranks 0 and 1, 2 and 3; each rank sends {backward:,.0f} "
            "bytes.",
        ]

    def columns(self) -> tuple[list[BoardColumn], str]:
        """For the board."""
        return tile_columns(side_of_square(self.num_ranks))

    def sent_bytes(self) -> tuple[float, float]:
        """What each rank sends forward, and backward."""
        return tiled_sent_bytes(_SHAPE, self.num_ranks)

    def multiply(self, me: Rank) -> Products:
        """This rank's parts of Y, dX and dA."""
        x, a, grad_y = self._parts_of(me.rank, _whole())
        y, grad_x, grad_a = run_tiled_matmul(me, *(part.to(me.device) for part in (x, a, grad_y)))
        return y.cpu(), grad_x.cpu(), grad_a.cpu()

    def makes_up(self, parts: Sequence[Products], wholes: Products) -> bool:
        """Whether all ranks' parts are the parts of these."""
        y, grad_x, grad_a = wholes
        wanted = [self._parts_of(rank, (grad_x, grad_a, y)) for rank in range(self.num_ranks)]
        return all(
            torch.equal(got_y, y) and torch.equal(got_x, x) and torch.equal(got_a, a)
            for (got_y, got_x, got_a), (x, a, y) in zip(parts, wanted, strict=True)
        )

    def _parts_of(self, rank: int, wholes: Products) -> Products:
        """A rank's parts of what is shaped like X, A and Y."""
        row, column = divmod(rank, side := side_of_square(self.num_ranks))
        x, a, y = wholes
        tile = a.chunk(side, dim=0)[row].chunk(side, dim=1)[column]
        return x.chunk(side, dim=1)[row], tile, y.chunk(side, dim=1)[column]


def checked(way: Planned | Tiled, run: Sequence[Products], communication: Communication) -> str:
    """What the run showed: whether the parts make up the products of one device, and what was sent."""
    x, a, grad_y = _whole()
    same = way.makes_up(run, (x @ a, grad_y @ a.T, x.T @ grad_y))
    sent = max(communication.sent_bytes(rank) for rank in range(communication.world_size))
    planned = sum(way.sent_bytes())
    found = "Y, dX and dA are those of one device" if same else "Y, dX or dA is wrong"
    text = f"Run on {len(run)} rank{'s' * (len(run) > 1)}: {found}; each rank sent {sent:,} bytes"
    if sent == planned:
        return f"{text}, as planned."
    return f"{text}. Rings would send {planned:,.0f}: gloo's reduce_scatter is an all_reduce inside."


def _steps(steps: tuple) -> str:
    done = (f"{step.collective}{' of' if step.is_sent else ':'} {step.tensor}" for step in steps)
    return ", ".join(done) or "no collective"


def _whole() -> Products:
    """X, A and dY: small whole numbers, so that sums in any order are equal to the last bit."""
    n, k, m = _SHAPE
    generator = torch.Generator().manual_seed(0)
    x, a, grad_y = (torch.randint(-4, 5, shape, generator=generator).float() for shape in ((n, k), (k, m), (n, m)))
    return x, a, grad_y


def _makes_up(parts: list[torch.Tensor], placement: Placement, whole: torch.Tensor) -> bool:
    if isinstance(placement, Shard):
        return torch.equal(torch.cat(parts, placement.dim), whole)
    if isinstance(placement, Partial):
        return torch.equal(torch.stack(parts).sum(dim=0), whole)
    return all(torch.equal(part, whole) for part in parts)
