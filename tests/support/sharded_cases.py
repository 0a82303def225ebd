"""Models, batches and training runs for the tests of sharded data parallelism: on ranks, and on one device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from course_lib.cluster import Rank
from course_lib.models import Transformer, TransformerConfig
from course_lib.parallel.sharded import FullySharded, ShardedOptimizer
from course_lib.parallel.sharded.row_sharding import all_gather_rows

ROWS_OF_A_RANK = 2


class Odd(nn.Module):
    """Sizes that divide by nothing, a frozen layer, one that is used twice, a buffer; ``unused``: one that is not."""

    def __init__(self, *, unused: bool = False) -> None:
        super().__init__()
        self.first = nn.Linear(5, 7)
        self.blocks = nn.ModuleList([nn.Sequential(nn.Linear(7, 7), nn.Tanh()) for _ in range(3)])
        self.blocks[1].requires_grad_(False)
        self.register_buffer("shift", torch.arange(7.0))
        self.last = nn.Linear(7, 3, bias=False)
        self.scale = nn.Parameter(torch.ones(1))
        if unused:
            self.extra = nn.Linear(3, 11)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x) + self.shift
        for block in [*self.blocks, self.blocks[0]]:
            x = x + block(x)
        return self.last(x) * self.scale


def odd(seed: int = 0, **options: Any) -> nn.Module:
    torch.manual_seed(seed)
    return Odd(**options).double()


def transformer(seed: int = 0, *, tied: bool = False, recompute: str = "") -> nn.Module:
    """``recompute``: "inside" the blocks' forward, or "outside", around the blocks."""
    torch.manual_seed(seed)
    config = TransformerConfig(vocab_size=11, context_length=6, num_layers=3, width=12, num_heads=2, tied=tied)
    model = Transformer(config).double()
    if recompute == "inside":
        for block in model.blocks:
            block.forward = lambda x, plain=block.forward: checkpoint(plain, x, use_reentrant=False)
    if recompute == "outside":  # all blocks in one region: to repeat the last takes the first
        run = nn.Sequential(*model.blocks)
        model.forward = lambda tokens: model.head(checkpoint(run, model.stem(tokens), use_reentrant=False))
    return model


def with_a_frozen_bias() -> nn.Sequential:
    """A convolution and layers, of which one has a frozen bias; for images of (3, 3, 3)."""
    torch.manual_seed(0)
    layers = (nn.Conv2d(3, 5, 2), nn.Tanh(), nn.Flatten(), nn.Linear(20, 4), nn.Tanh(), nn.Linear(4, 3))
    model = nn.Sequential(*layers).double()
    model[3].bias.requires_grad_(False)
    return model


def backward(model: nn.Module, x: Tensor) -> Tensor:
    loss = model(x).square().mean()
    loss.backward()
    return loss


def optimizer_step(model: nn.Module, opt: torch.optim.Optimizer, x: Tensor) -> None:
    opt.zero_grad()
    backward(model, x)
    opt.step()


def odd_batch(num_ranks: int) -> tuple[Tensor, Tensor]:
    chance = torch.Generator().manual_seed(3)
    x = torch.randn(ROWS_OF_A_RANK * num_ranks, 5, generator=chance, dtype=torch.float64)
    return x, torch.randint(3, (len(x),), generator=chance)


def token_batch(num_ranks: int) -> tuple[Tensor, Tensor]:
    tokens = torch.randint(11, (ROWS_OF_A_RANK * num_ranks, 7), generator=torch.Generator().manual_seed(3))
    return tokens[:, :-1], tokens[:, 1:]


def batch_for(make: Callable[..., nn.Module], num_ranks: int) -> tuple[Tensor, Tensor]:
    return odd_batch(num_ranks) if make is odd else token_batch(num_ranks)


def loss_of(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    logits = model(x)
    return F.cross_entropy(logits.flatten(0, -2).double(), y.flatten())


def own(me: Rank, t: Tensor) -> Tensor:
    """This rank's rows of a batch."""
    return t[ROWS_OF_A_RANK * me.rank : ROWS_OF_A_RANK * (me.rank + 1)].to(me.device)


# -- on one device ------------------------------------------------------------------------------------------------


def alone(
    make: Callable[..., nn.Module],
    num_ranks: int,
    num_steps: int,
    optimizer: type[torch.optim.Optimizer] = torch.optim.AdamW,
    **options: Any,
) -> dict[str, Any]:
    """The losses, the first step's gradients, and the state after all steps, of one process with the whole batch."""
    model = make(**options)
    opt = optimizer(model.parameters(), lr=0.01)
    losses, gradients = [], {}
    for step in range(num_steps):
        opt.zero_grad()
        loss = loss_of(model, *batch_for(make, num_ranks))
        loss.backward()
        losses.append(loss.item())
        if step == 0:
            gradients = {n: None if p.grad is None else p.grad.clone() for n, p in model.named_parameters()}
        opt.step()
    return {
        "losses": losses,
        "gradients": gradients,
        "state": model.state_dict(),
        "optimizer": opt.state_dict(),
    }


# -- on ranks -----------------------------------------------------------------------------------------------------


def sharded(
    me: Rank,
    make: Callable[..., nn.Module],
    num_steps: int,
    options: dict[str, Any],
    wrapping: dict[str, Any],
    optimizer: type[torch.optim.Optimizer] = torch.optim.AdamW,
) -> dict[str, Any]:
    """The same by ``FullySharded``: mean losses of this rank, gradients made whole, and the whole state."""
    model = FullySharded(me, make(**options).to(me.device), **wrapping)
    opt = optimizer(model.parameters(), lr=0.01)
    x, y = (own(me, t) for t in batch_for(make, me.world_size))
    losses, gradients = [], {}
    for step in range(num_steps):
        opt.zero_grad()
        loss = loss_of(model, x, y)
        loss.backward()
        model.finish_gradient_synchronization()
        losses.append(loss.item())
        if step == 0:
            gradients = whole_gradients(model)
        opt.step()
    return {"losses": losses, "gradients": gradients, "state": model.full_state_dict()}


def whole_gradients(model: FullySharded) -> dict[str, Tensor | None]:
    found: dict[str, Tensor | None] = {}
    for unit in model.units:
        parts = [p.shard.grad if p.shard.grad is not None else torch.zeros_like(p.shard) for p in unit.parameters]
        wholes = all_gather_rows(model.members, unit.packing, parts)
        for p, whole in zip(unit.parameters, wholes, strict=True):
            found[p.name] = whole if p.shard.grad is not None else None
    return found


def stage_1_or_2(
    me: Rank,
    make: Callable[..., nn.Module],
    num_steps: int,
    stage: int,
    optimizer: type[torch.optim.Optimizer] = torch.optim.AdamW,
    **sharding: Any,
) -> dict[str, Any]:
    """The same by ``ShardedOptimizer``."""
    model = make().to(me.device)
    opt = ShardedOptimizer(me, model.parameters(), optimizer, stage=stage, lr=0.01, **sharding)
    x, y = (own(me, t) for t in batch_for(make, me.world_size))
    losses = []
    for _ in range(num_steps):
        opt.zero_grad()
        loss = loss_of(model, x, y)
        loss.backward()
        losses.append(loss.item())
        opt.step()
    return {"losses": losses, "state": model.state_dict(), "optimizer": opt.full_state_dict()}
