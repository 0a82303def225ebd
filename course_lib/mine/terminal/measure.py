"""Bytes, memory and time of the learner's classes beside PyTorch's, each number measured in the run that shows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from course_lib.cluster.api.cluster import Cluster
from course_lib.cluster.base.rank import Rank
from course_lib.learn.builds.comparison import SideBySide, side_by_side
from course_lib.mine.table import entry_of
from course_lib.mine.terminal.pieces import WAYS
from course_lib.mine.use import chosen
from course_lib.models import Transformer, TransformerConfig, next_token_loss

__all__ = ["NUM_PAIRS", "NUM_RANKS", "to_measure", "training_beside"]

NUM_RANKS, NUM_PAIRS = 4, 5
_STEPS, _ROWS, _LEARNING_RATE = 3, 8, 1e-3  # rows of all ranks together
_CONFIG = TransformerConfig(vocab_size=256, context_length=32, num_layers=2, width=64, num_heads=4)
_CLOSE = 1e-4  # of the largest loss: another order of adding
_TITLES = {
    "ddp": "DistributedDataParallel",
    "sharded_optimizer": "ZeroRedundancyOptimizer",
    "fully_sharded": "fully_shard",
}
Made = tuple[nn.Module, Any]  # what is called, and its optimizer


def to_measure() -> tuple[dict[str, Any], list[str]]:
    """By way the classes that are the learner's now and have a counterpart, and a line for each that is not theirs."""
    ways, left_out = {}, []
    for way, name in WAYS.items():
        choice = chosen(entry_of(name))
        if choice.is_yours:
            ways[way] = choice.function
        else:
            left_out.append(choice.line)
    return ways, left_out


def training_beside(cluster: Cluster, way: str, own: Any, num_pairs: int = NUM_PAIRS) -> SideBySide:
    """Three steps of a small transformer by ``own`` and by PyTorch's counterpart; the losses are those of one process.

    Times are of both in turn, ``num_pairs`` times; the median counts. Raises ``KeyError`` for a way that is not in
    ``WAYS``.
    """
    made: dict[str, Callable[[Rank, Transformer], Made]] = {"yours": _by(way, own), _TITLES[way]: _by_pytorch(way)}
    return side_by_side(
        cluster,
        _train,
        made,
        expected=_by_one_process(),
        prepare=_prepared,
        within=_CLOSE,
        num_pairs=num_pairs,
        title=f"mine.{WAYS[way]} beside PyTorch's {_TITLES[way]}: {_STEPS} steps of a small transformer",
    )


def _prepared(me: Rank) -> tuple[Transformer, Tensor, Tensor]:
    """The same model on each rank, and this rank's rows."""
    model, tokens, targets = _made_here()
    rows = slice(me.rank, None, me.world_size)
    return model.to(me.device), tokens[rows].to(me.device), targets[rows].to(me.device)


def _made_here() -> tuple[Transformer, Tensor, Tensor]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = Transformer(_CONFIG)
        text = torch.randint(_CONFIG.vocab_size, (_ROWS, _CONFIG.context_length + 1))
    return model, text[:, :-1].contiguous(), text[:, 1:].contiguous()


def _train(me: Rank, make: Callable[[Rank, Transformer], Made], model: Any, tokens: Tensor, targets: Tensor) -> Tensor:
    """The mean losses of all ranks, (steps,)."""
    losses = _steps(*make(me, model), tokens, targets)
    dist.all_reduce(losses)
    return (losses / me.world_size).cpu()


def _by_one_process() -> Tensor:
    model, tokens, targets = _made_here()
    return _steps(model, torch.optim.AdamW(model.parameters(), lr=_LEARNING_RATE), tokens, targets)


def _steps(called: nn.Module, optimizer: Any, tokens: Tensor, targets: Tensor) -> Tensor:
    """Train; the loss of each step, (steps,)."""
    losses = []
    for _ in range(_STEPS):
        optimizer.zero_grad()
        loss = next_token_loss(called(tokens), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses)


def _by(way: str, own: Any) -> Callable[[Rank, Transformer], Made]:
    """By the learner's class, as ``train.py`` of a pack makes it."""

    def make(me: Rank, model: Transformer) -> Made:
        if way == "sharded_optimizer":
            return model, own(model.parameters(), torch.optim.AdamW, me, lr=_LEARNING_RATE)
        wrapped = own(model, me) if way == "ddp" else own(model, list(model.blocks), me)
        return wrapped, torch.optim.AdamW(wrapped.parameters(), lr=_LEARNING_RATE)

    return make


def _by_pytorch(way: str) -> Callable[[Rank, Transformer], Made]:
    def make(me: Rank, model: Transformer) -> Made:
        if way == "fully_sharded":
            from torch.distributed.device_mesh import init_device_mesh
            from torch.distributed.fsdp import fully_shard

            mesh = init_device_mesh(me.device.type, (me.world_size,))
            for block in model.blocks:
                fully_shard(block, mesh=mesh)
            fully_shard(model, mesh=mesh)
            return model, torch.optim.AdamW(model.parameters(), lr=_LEARNING_RATE)
        wrapped = nn.parallel.DistributedDataParallel(model)
        if way == "ddp":
            return wrapped, torch.optim.AdamW(wrapped.parameters(), lr=_LEARNING_RATE)
        from torch.distributed.optim import ZeroRedundancyOptimizer

        optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.AdamW, lr=_LEARNING_RATE)
        return wrapped, optimizer

    return make
